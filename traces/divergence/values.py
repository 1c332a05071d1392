"""Values that change within a line: times, places, identifiers. Where two texts differ, and the kind of that value."""

from __future__ import annotations

import re
from typing import NamedTuple

ID_LABEL = re.compile(
    r"""(?:id|uuid|guid|ulid|nonce|salt|seed|token|hash|trace|span|session|request|req|call|run|key|cch|etag|buster"""
    r"""|signature|correlation|conversation|thread|build|version)["'`*>)\]]*\s*(?:[:=#]+|\bis\b)?\s*["'`*(\[<]*$""",
    re.IGNORECASE,
)
"""What stands before an id."""

LABEL_CHARS = 240
"""How much of what stands before a value is read to name it."""

_JOINED = re.compile(r"[0-9A-Za-z_:./\\@+~%=-]")


class Difference(NamedTuple):
    """Two texts that are equal except for a stretch: `low` to `high_before`, and `low` to `high_after`."""

    before: str
    after: str
    low: int
    high_before: int
    high_after: int

    @property
    def label(self) -> str:
        """The text before the stretch, equal in both."""
        return self.before[: self.low]

    @property
    def changed(self) -> tuple[str, str]:
        """The stretch in both."""
        return self.before[self.low : self.high_before], self.after[self.low : self.high_after]

    def words(self, joined: re.Pattern[str] = _JOINED) -> tuple[str, str, int]:
        """The stretch in both, as far as words reach, and where they begin."""
        start = self.low
        while start > 0 and joined.match(self.before[start - 1]):
            start -= 1
        named = re.match(r"[A-Za-z]\w+[:=]", self.before[start : self.low])
        start += named.end() if named else 0
        return _grown(self.before, start, self.high_before, joined), _grown(
            self.after, start, self.high_after, joined
        ), start  # fmt: skip

    @property
    def mostly(self) -> bool:
        """Whether the texts are alike for more than half of either."""
        a, b = self.changed
        return 2 * len(a) < len(self.before) and 2 * len(b) < len(self.after)


def alike(a: str, b: str) -> int:
    """How many leading characters two texts share."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # a[:low] is shared, and a[:high] is looked at in halves
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def difference(before: str, after: str) -> Difference:
    """Where two texts differ."""
    low = alike(before, after)
    size = min(len(before), len(after)) - low
    tail = alike(before[len(before) - size :][::-1], after[len(after) - size :][::-1])
    return Difference(before, after, low, len(before) - tail, len(after) - tail)


def _grown(text: str, start: int, high: int, joined: re.Pattern[str]) -> str:
    while high < len(text) and joined.match(text[high]):
        high += 1
    return text[start:high]


CHANCE_LETTERS = 6
"""This many letters and digits of a change may be no part of a date or a path: "on", "at", "UTC"."""

_MONTHS = (
    "jan(?:uary|uar|uari|vier)?|j[aä]nner|feb(?:ruary|ruar|ruari)?|f[eé]v(?:rier)?|mar(?:ch|s|zo|ço|t)?|m[aä]rz|maart"
    "|mrt|apr(?:il|ile)?|avr(?:il)?|abr(?:il)?|may|mai|mayo|maio|maggio|mei|jun[ei]?|juin|junio|junho|giugno|jul[yi]?"
    "|juil(?:let)?|julio|julho|luglio|aug(?:ust|ustus)?|ao[uû]t|agosto|sep(?:t|tember|tembre)?|set(?:iembre|embro"
    "|tembre)|septiembre|o[ck]t(?:ober|obre|ubre)?|outubro|ottobre|nov(?:ember|embre|iembre|embro)?"
    "|de[cz](?:ember|embre|embro)?|d[eé]c(?:embre)?|dic(?:iembre|embre)?|enero|ene|janeiro|fevereiro|febrero|gennaio"
    "|febbraio|январ[ья]|феврал[ья]|март[а]?|апрел[ья]|ма[йя]|июн[ья]|июл[ья]|август[а]?|сентябр[ья]|октябр[ья]"
    "|ноябр[ья]|декабр[ья]"
)
_MONTH = rf"(?:{_MONTHS})\b\.?"
_DAY = (
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b|\b(?:montag|dienstag|mittwoch|donnerstag"
    r"|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[eé]rcoles|jueves"
    r"|viernes|s[aá]bado|domingo|segunda|ter[cç]a|quarta|quinta|sexta|lunedì|martedì|mercoledì|giovedì|venerdì|sabato"
    r"|domenica|maandag|woensdag|donderdag|vrijdag|zaterdag|zondag|понедельник|вторник|сред[ау]|четверг|пятниц[ау]"
    r"|суббот[ау]|воскресенье)\b|[月火水木金土日]曜日?|(?:星期|周|週)[一二三四五六日天]|[월화수목금토일]요일"
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[ap]\.?m\b\.?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
CLOCK = re.compile(
    rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T _]{_TIME})?{_ZONE}"
    rf"|(?<![\d.])\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}(?!\d)"
    rf"|(?<![\d.])\d{{1,2}}[-/ ](?:{_MONTHS})[-/ ]\d{{4}}(?::{_TIME})?{_ZONE}"
    rf"|(?<!\w)\d{{8}}T\d{{4,6}}Z?"
    rf"|{_TIME}{_ZONE}"
    rf"|(?:(?:{_DAY}),?\s+(?:de[rn]\s+)?)?(?:\d{{1,2}}(?:st|nd|rd|th|er|\.|º)?\s+(?:of\s+|de\s+)?{_MONTH}"
    rf"|\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b)"
    rf"(?:,?\s+(?:de\s+)?\d{{4}}\b)?|\b{_MONTH}\s+(?:de\s+)?\d{{4}}\b|{_DAY}|\b\d{{4}}-W\d\d(?:-\d)?\b"
    r"|\d{4}\s?[年년]\s?\d{1,2}\s?[月월](?:\s?\d{1,2}\s?[日日号일])?(?:\s?[(（][月火水木金土日一二三四五六월화수목금토일][)）])?"
    r"|(?<!\d)\d{1,2}\s?[月월]\s?\d{1,2}\s?[日号일](?:\s?[(（][月火水木金土日一二三四五六월화수목금토일][)）])?"
    r"|(?<!\d)\d{1,2}\s?[時时点點시]\s?\d{1,2}\s?[分분](?:\s?\d{1,2}\s?[秒초])?"
    r"|(?<![\w.-])1[4-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d+)?(?![\w-])"
    r"|\b\d+ (?:second|minute|hour|day)s? ago\b",
    re.IGNORECASE,
)
_CLOCK_LABEL = re.compile(
    r"(?:\b|_)(?:(?:date|time|day)s?|today|now|clock|timestamp|datetime|uptime|elapsed|epoch|heute|datum|uhrzeit|zeit"
    r"|aujourd['’]hui|nous sommes|heure|hoy|fecha|hora|hoje|oggi|data|vandaag|сегодня|дата|время)(?:\b|_)"
    r"|今日|今天|本日|日付|日期|时间|時間|時刻|現在|현재|오늘|날짜|시간",
    re.IGNORECASE,
)


def is_clock(found: Difference) -> bool:
    """Whether a time or a date became another: all of the change lies in such, but for a word or two."""
    label = found.label
    a, b, start = found.words()
    named = bool(_CLOCK_LABEL.search(label[-60:]) or _CLOCK_LABEL.search(a) or _CLOCK_LABEL.search(b))
    if not named and ID_LABEL.search(label[max(0, start - LABEL_CHARS) : start]) and a.isdigit() and b.isdigit():
        return False
    if within(CLOCK, found.before, found.low, found.high_before) and within(
        CLOCK, found.after, found.low, found.high_after
    ):
        return True
    return named and all(part and not part.strip(" .,:/-0123456789TZ") for part in (a, b)) and not ID_LABEL.search(
        label[:start]
    )  # fmt: skip


def within(pattern: re.Pattern[str], text: str, low: int, high: int) -> bool:
    """Whether a match touches the stretch, and matches cover its letters and digits but for a few."""
    begin = max(0, text.rfind("\n", 0, low) + 1, low - 120)
    touched = False
    bare = [c.isalnum() for c in text[low:high]]
    for match in pattern.finditer(text, begin, min(len(text), high + 120)):
        if match.start() > high or (match.start() == high and low < high):
            break
        if match.end() < low or (match.end() == low and low < high):
            continue
        touched = True
        for i in range(max(low, match.start()), min(high, match.end())):
            bare[i - low] = False
    left = sum(bare)
    return touched and left <= min(CHANCE_LETTERS, max(2, len(bare) // 2))


LEAST_HEX = 7
"""Hex digits of a commit's abbreviated name."""

_PATH = re.compile(r"(?<![\w.:/\\<])(?:~|[A-Za-z]:)?(?:[/\\][\w.@+%-]+)+[/\\]?|(?<![\w/])~(?![\w/])")
_PROMPT = re.compile(r"[\w.-]+@[\w.-]+:[~/\\\w]")
"""What a shell asks with: user, host and directory."""

_LINK = r"""["'`*>)\]]*\s*(?:(?:is\s+(?:now\s+)?)?(?:at|on|in)\b|is\b(?:\s+now\b)?|[:=]+)?\s*["'`*(\[<]*"""
_SIGN = r"""["'`*>)\]]*\s*(?:[:=>]+|\bis\b)\s*["'`*(\[<]*"""
_DIRECTORY = (
    r"(?:cwd|pwd|dir(?:ectory)?|folder|workspace|project|repo(?:sitory)?|work[ _-]?tree)(?:[ _-]?(?:root|path|dir))?"
)
_DIRECTORY_LABEL = re.compile(rf"(?:\b|_){_DIRECTORY}(?:{_SIGN}|\s*\(\s*)$", re.IGNORECASE)
_SITUATED = re.compile(r"\b(?:you(?:['’]re| are)(?: now)?|located|running|working) (?:in|at|from)\W+$", re.IGNORECASE)
_BRANCH_LABEL = re.compile(
    rf"(?:\bon (?:the )?branch\s+[\"'`*]*|@[\w.-]+:\S+ \(|\bgit: on "
    rf"|\b(?:current|git|main|default)[ _-]?branch{_LINK}|\bbranch{_SIGN}|\(git:\s*"
    r"|^##\s+|\borigin/)$",
    re.IGNORECASE | re.MULTILINE,
)
_COMMIT_LABEL = re.compile(rf"(?:\b|_)(?:HEAD|commit|revision|rev|sha|git[ _-]?hash|tree){_LINK}$", re.IGNORECASE)
_STATE_LABEL = re.compile(
    rf"\bgit: [^\n]{{0,80}}$|git[ _-]?(?:status|state)\b[^\n]{{0,80}}$"
    rf"|git[ _-]?(?:repo(?:sitory)?|diff|info|log)\b{_LINK}$|\b(?:ahead|behind)\b[^\n]{{0,40}}$"
    rf"|\bstate\b{_LINK}$",
    re.IGNORECASE,
)
_GIT_LINE = re.compile(
    r"\s*+(?:[MADRCUT?!]{1,2}|modified:|new file:|deleted:|renamed:|both modified:)\s+\"?[\w./@+-]+\"?(?: -> \S+)?,?\s*"
    r"|\s*+(?:On branch |## \S+\.\.\.|HEAD (?:is|detached)|Your branch |Changes (?:not staged|to be committed)"
    r"|Untracked files|nothing (?:to commit|added)|no changes added|working tree clean|\(use \"git|(?:Current )?branch:"
    r"|\S+\s+\| +\d+ [+-]*$|\d+ files? changed,|[│ ]*+[├└][─-]+|Status:|Recent commits:|Main branch).*",
    re.IGNORECASE,
)
_ONE_COMMIT = re.compile(r"\s*[0-9a-f]{7,40} \S.*")
_COMMITS = re.compile(r"^\W*(?:recent |last |latest )?commits?:?\s*$|\bgit log\b", re.IGNORECASE | re.MULTILINE)


def is_place(found: Difference, role: str) -> bool:
    """Whether a directory, a branch, a commit or what git says of the work became another."""
    a, b, start = found.words()
    before = found.before[max(0, start - LABEL_CHARS) : start]
    spoken = role in ("assistant", "tool_result")
    if not spoken and within(_PATH, found.before, found.low, found.high_before) and within(
        _PATH, found.after, found.low, found.high_after
    ):  # fmt: skip
        return True
    if _PROMPT.match(a) and _PROMPT.match(b) and all(len(part.split()) <= 4 for part in found.changed):
        return True
    short = all(len(part.split()) <= 2 for part in found.changed)
    if _DIRECTORY_LABEL.search(before) and (short or (_PATH.match(a) and _PATH.match(b))):
        return True
    if _SITUATED.search(before) and _PATH.match(a) and _PATH.match(b):
        return True
    if _BRANCH_LABEL.search(before) and short:
        return True
    if _COMMIT_LABEL.search(before) and _is_hex(a) and _is_hex(b):
        return True
    return bool(_STATE_LABEL.search(before)) and (not spoken or all(len(part.split()) <= 6 for part in found.changed))


def is_git_lines(before: str, after: str, head: str, role: str) -> bool:
    """Whether all lines that changed are what git says of the work; `head`: what stands before them."""
    a, b = before.splitlines(), after.splitlines()
    others, both = [], set(a) & set(b)
    for line in (*a, *b):
        if line.strip() and line not in both:
            others.append(line)
    if not others:
        return False
    git_lines = [bool(_GIT_LINE.fullmatch(line)) for line in others]
    if all(git_lines):
        return True
    if role in ("assistant", "tool_result") or not (any(git_lines) or _COMMITS.search(head[-120:])):
        return False
    return all(one or _ONE_COMMIT.fullmatch(line) for one, line in zip(git_lines, others, strict=True))


def _is_hex(word: str) -> bool:
    return bool(re.match(rf"[0-9a-f]{{{LEAST_HEX},64}}(?![0-9A-Za-z])", word))


_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_+/=-]*")
_WORD_IN_NAME = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
_ID_PART = re.compile(r"[0-9A-Za-z_+/-]")


def is_nonce(found: Difference) -> bool:
    """Whether one random id became another: a single word, and it looks drawn or is called an id."""
    a, b, start = found.words(_ID_PART)
    if re.search(r"\s", found.changed[0] + found.changed[1]) or not a or not b:
        return False
    label = found.before[max(0, start - LABEL_CHARS) : start]
    signed = re.search(r"""[:=#"'`(\[<*]\s*$|\bis\s+$""", label) is not None
    id_like = signed or (any(c.isdigit() for c in a) and any(c.isdigit() for c in b))
    if id_like and ID_LABEL.search(label) and re.fullmatch(r"[\w+/=.:~-]+", a + b):
        return True
    return all(map(_is_id, _other_names(a, b)))


def _other_names(a: str, b: str) -> tuple[str, str]:
    """Two words; of paths of several names only the names that differ."""
    names = [word.split("/") for word in (a, b)]
    while min(map(len, names)) > 1 and names[0][0] == names[1][0]:
        names = [one[1:] for one in names]
    while min(map(len, names)) > 1 and names[0][-1] == names[1][-1]:
        names = [one[:-1] for one in names]
    return "/".join(names[0]), "/".join(names[1])


def _is_id(word: str) -> bool:
    """Whether a word looks drawn at random: digits among its letters, or letters in no order of a language."""
    parts: list[str] = _ID.findall(word)
    last = max(parts, key=len, default="")
    bare = re.sub(r"[-_+/=]", "", last)
    digits = sum(c.isdigit() for c in bare)
    if bare.isdigit():
        return len(bare) >= 6
    if digits:
        return len(bare) >= 4 and (len(bare) >= 8 or bool(re.fullmatch(r"[0-9a-fA-F]+|[0-9A-Z]+", bare)) or digits > 1)
    if len(bare) >= 4 and re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", bare):
        return True
    mixed = any(c.isupper() for c in bare[1:]) and any(c.islower() for c in bare)
    words = [word for part in re.split(r"[-_+/=]", last) for word in _WORD_IN_NAME.findall(part)]
    if all(len(word) > 2 and (word.isupper() or re.search(r"[aeiouy]", word, re.IGNORECASE)) for word in words):
        return False
    return len(bare) >= 8 and (mixed or not re.search(r"[aeiou]", bare, re.IGNORECASE))
