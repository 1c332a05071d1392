"""What a stretch of text is, told by its words: a time, a directory or the state of a repository, a random id, a
reminder, a summary. Every test takes the two texts of a change, so that only what really changed is judged."""

from __future__ import annotations

import re
from typing import NamedTuple

CHANCE_LETTERS = 6
"""So many letters and digits of a change may be no part of a date or a path: "on", "at", "UTC"."""

IMAGE_CHARS = 24
"""So far from where a text begins to change its image is named, if what changed is one."""

SAME_IMAGE_CHARS = 100
"""An image that stands in both texts is the same one if so many characters of it are."""

LEAST_HEX = 7
"""Hex digits of a commit's abbreviated name."""

_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:uary|ruary|ch|il|ust|tember|ober|ember)?\b\.?"
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[ap]\.?m\b\.?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
CLOCK = re.compile(
    rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T _]{_TIME})?{_ZONE}"
    rf"|(?<![\d.])\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}(?!\d)"
    rf"|(?<!\w)\d{{8}}T\d{{4,6}}Z?"
    rf"|{_TIME}{_ZONE}"
    rf"|(?:{_DAY},?\s+)?(?:\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b)"
    rf"(?:,?\s+\d{{4}}\b)?|\b{_MONTH}\s+\d{{4}}\b|\b{_DAY}|\b\d{{4}}-W\d\d(?:-\d)?\b"
    r"|(?<![\w.-])1[4-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d+)?(?![\w-])"
    r"|\b\d+ (?:second|minute|hour|day)s? ago\b",
    re.IGNORECASE,
)
_CLOCK_LABEL = re.compile(
    r"(?:\b|_)(?:(?:date|time|day)s?|today|now|clock|timestamp|datetime|uptime|elapsed|epoch)(?:\b|_)", re.IGNORECASE
)
_PATH = re.compile(r"(?<![\w.:/\\<])(?:~|[A-Za-z]:)?(?:[/\\][\w.@+%-]+)+[/\\]?|(?<![\w/])~(?![\w/])")
_LINK = r"""["'`*>)\]]*\s*(?:(?:is\s+(?:now\s+)?)?(?:at|on|in)\b|is\b(?:\s+now\b)?|[:=]+)?\s*["'`*(\[<]*"""
_SIGN = r"""["'`*>)\]]*\s*(?:[:=>]+|\bis\b)\s*["'`*(\[<]*"""
_DIRECTORY = (
    r"(?:cwd|pwd|dir(?:ectory)?|folder|workspace|project|repo(?:sitory)?|work[ _-]?tree)(?:[ _-]?(?:root|path|dir))?"
)
_DIRECTORY_LABEL = re.compile(rf"(?:\b|_){_DIRECTORY}{_SIGN}$", re.IGNORECASE)
_SITUATED = re.compile(r"\b(?:you(?:['’]re| are)(?: now)?|located|running|working) (?:in|at|from)\W+$", re.IGNORECASE)
_BRANCH_LABEL = re.compile(
    rf"(?:\bon branch\s+|\b(?:current|git|main|default)[ _-]?branch{_LINK}|\bbranch{_SIGN}|^##\s+|\borigin/)$",
    re.IGNORECASE | re.MULTILINE,
)
_COMMIT_LABEL = re.compile(rf"(?:\b|_)(?:HEAD|commit|revision|rev|sha|git[ _-]?hash|tree){_LINK}$", re.IGNORECASE)
_STATE_LABEL = re.compile(
    rf"git[ _-]?(?:status|state)\b[^\n]{{0,80}}$"
    rf"|git[ _-]?(?:repo(?:sitory)?|diff|info|log)\b{_LINK}$|\b(?:ahead|behind)\b[^\n]{{0,40}}$"
    rf"|\bstate\b{_LINK}$",
    re.IGNORECASE,
)
_GIT_LINE = re.compile(
    r"\s*(?:[MADRCUT?!]{1,2}|modified:|new file:|deleted:|renamed:|both modified:)\s+\"?[\w./@+-]+\"?(?: -> \S+)?,?\s*"
    r"|\s*(?:On branch |## \S+\.\.\.|HEAD (?:is|detached)|Your branch |Changes (?:not staged|to be committed)"
    r"|Untracked files|nothing (?:to commit|added)|no changes added|working tree clean|\(use \"git|(?:Current )?branch:"
    r"|Status:|Recent commits:|Main branch).*",
    re.IGNORECASE,
)
_ONE_COMMIT = re.compile(r"\s*[0-9a-f]{7,40} \S.*")
_COMMITS = re.compile(r"^\W*(?:recent |last |latest )?commits?:?\s*$|\bgit log\b", re.IGNORECASE | re.MULTILINE)
_REMINDER_TAG = r"<[\w-]*(?:reminder|todos?|notice|todo[-_]list|task[-_]list)[\w -]*>"
REMINDER = re.compile(
    rf"{_REMINDER_TAG}|^[\W_]*(?:(?:system|user|agent|important|friendly|automated|automatic|harness|tool)[\W_]+){{0,2}}"
    r"(?:reminder|note|notice|important|attention|warning|caution|hint|tip|heads[ -]up|system)[\W_]*?[:\-–—\]!>]"
    r"|\breminder\b|\b(?:remember|(?:do not|don't) forget) to\b|\bkeep in mind\b"
    r"|\b(?:to-?do|task)s?[ -]?(?:list|state|status)s?\b|\b(?:current|open|remaining|pending) (?:to-?do|task)s\b"
    r"|\btodos:|^\s*[-*] \[[ xX~>-]\] ",
    re.IGNORECASE | re.MULTILINE,
)
_STRONG_REMINDER = re.compile(
    rf"{_REMINDER_TAG}|\A[\W_]*(?:\w+[\W_]+){{0,2}}?reminder\b|\A[^\n]{{0,40}}\b(?:to-?do)s?\b[^\n]{{0,40}}:?\s*\n",
    re.IGNORECASE,
)
_HEADLINE = re.compile(
    r"\A[\W_]*(?:(?:system|user|agent|friendly|automated|automatic|harness|tool)[\W_]+){0,2}"
    r"(?:reminder|note|notice|important|attention|warning|caution|hint|tip|heads[ -]up)[\W_]*?[:\-–—\]!>]",
    re.IGNORECASE,
)
_OPEN_REMINDER = re.compile(r"<([\w-]*(?:reminder|todo)[\w-]*)[^<>]*>(?:(?!</\1>).)*\Z", re.IGNORECASE | re.DOTALL)
_TASK = re.compile(r"\s*(?:[-*]|\d+[.)])?\s*\[[ xX~>-]\] ")
_SUMMARY_WORD = r"(?:summary|recap|digest|synopsis)"
SUMMARY = re.compile(
    rf"\A\W*<[\w-]*summary[\w-]*>"
    rf"|^[\W_]*(?:(?:here(?:['’]s| is)|this is|below is|the|a|an|brief|short|detailed|compact|condensed|structured"
    r"|previous|prior|earlier|running|conversation|context|session|chat|history|progress|task|work|dialogue?"
    rf"|message)s?[ _-]+){{0,6}}{_SUMMARY_WORD}\b(?:[\W_]*$|[*_ ]*[:\]\-–—]| (?:of|from|so far|until|up to)\b)"
    rf"|\b{_SUMMARY_WORD} of (?:the |our |this |your )?(?:\w+ )?(?:conversation|session|work|messages|history|chat"
    r"|context|discussion|progress|turns)"
    r"|\bcontinued? from (?:a|the) previous (?:conversation|session)|\bran out of context"
    r"|\b(?:conversation|history|context|messages|turns|session)\b[^\n.]{0,60}\b(?:summari[sz]ed|compacted|condensed"
    r"|compressed)\b|\bcompacted into\b",
    re.IGNORECASE | re.MULTILINE,
)
REASONING = re.compile(
    r"</?(?:think|thinking|reasoning|thought|thoughts|scratchpad|analysis)>|\[(?:thinking|reasoning)\]"
    r"|<\|channel\|>analysis",
    re.IGNORECASE,
)
IMAGE = re.compile(
    r"\[(?:\w+ ){0,2}image|<image|<img\b|image/(?:png|jpe?g|webp|gif)|data:image|!\[[^\]]*\]\(|<\|(?:image|vision)",
    re.IGNORECASE,
)
SCHEMA = re.compile(
    r'"(?:parameters|input_schema|inputSchema|json_schema|parametersJsonSchema)"\s*:|"type"\s*:\s*"function"'
    r"|<(?:function|tool|tool_description)(?:>| name=)",
)
SPEAKER = re.compile(
    r"^(?:<\|(?!\w*end|eot)[\w ]+\|>\w*"
    r"|[^\w\n]{0,3}(?:human|user|assistant|tool|tool_result|observation|model|ai|bot)[^\w\n]{0,3})[^\S\n]*$"
    r"|^(?:human|user|assistant|tool): |<start_of_turn>|\[INST\]|<\|(?:im_start|start_header_id|start)\|>",
    re.IGNORECASE | re.MULTILINE,
)
"""Where a message begins in a prompt that is one text."""

_ID_LABEL = re.compile(
    r"""(?:id|uuid|guid|ulid|nonce|salt|seed|token|hash|trace|span|session|request|req|call|run|key|cch|etag|buster"""
    r"""|signature|correlation|conversation|thread|build|version)["'`*>)\]]*\s*(?:[:=#]+|\bis\b)?\s*["'`*(\[<]*$""",
    re.IGNORECASE,
)
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_+/=-]*")
_WORD_IN_NAME = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
_JOINED = re.compile(r"[0-9A-Za-z_:./\\@+~%=-]")
_ID_PART = re.compile(r"[0-9A-Za-z_+/-]")


class Difference(NamedTuple):
    """Two texts that are alike but for a stretch: `low` to `high_before`, and `low` to `high_after`."""

    before: str
    after: str
    low: int
    high_before: int
    high_after: int

    @property
    def label(self) -> str:
        """What stands before the stretch, alike in both."""
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


def difference(before: str, after: str) -> Difference:
    """Where two texts differ."""
    size = min(len(before), len(after))
    low = next((i for i in range(size) if before[i] != after[i]), size)
    tail = 0
    while tail < size - low and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return Difference(before, after, low, len(before) - tail, len(after) - tail)


def _grown(text: str, start: int, high: int, joined: re.Pattern[str]) -> str:
    while high < len(text) and joined.match(text[high]):
        high += 1
    return text[start:high]


def is_clock(found: Difference) -> bool:
    """Whether a time or a date became another: all of the change lies in such, but for a word or two."""
    label = found.label
    a, b, start = found.words()
    named = bool(_CLOCK_LABEL.search(label[-60:]) or _CLOCK_LABEL.search(a) or _CLOCK_LABEL.search(b))
    if not named and _ID_LABEL.search(label[:start]) and a.isdigit() and b.isdigit():
        return False
    if _within(CLOCK, found.before, found.low, found.high_before) and _within(
        CLOCK, found.after, found.low, found.high_after
    ):
        return True
    return named and all(part and not part.strip(" .,:/-0123456789TZ") for part in (a, b)) and not _ID_LABEL.search(
        label[:start]
    )  # fmt: skip


def is_place(found: Difference, role: str) -> bool:
    """Whether a directory, a branch, a commit or what git says of the work became another."""
    a, b, start = found.words()
    before = found.before[:start]
    spoken = role in ("assistant", "tool_result")
    if not spoken and _within(_PATH, found.before, found.low, found.high_before) and _within(
        _PATH, found.after, found.low, found.high_after
    ):  # fmt: skip
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
    told = [bool(_GIT_LINE.fullmatch(line)) for line in others]
    if all(told):
        return True
    if role in ("assistant", "tool_result") or not (any(told) or _COMMITS.search(head[-120:])):
        return False
    return all(one or _ONE_COMMIT.fullmatch(line) for one, line in zip(told, others, strict=True))


def is_nonce(found: Difference) -> bool:
    """Whether one random id became another: a single word, and it looks drawn or is called an id."""
    a, b, start = found.words(_ID_PART)
    if re.search(r"\s", found.changed[0] + found.changed[1]) or not a or not b:
        return False
    if _ID_LABEL.search(found.before[:start]) and re.fullmatch(r"[\w+/=.:~-]+", a + b):
        return True
    return _is_id(a) and _is_id(b)


def is_image(found: Difference) -> bool:
    """Whether an image that is written in the text became another, or a text in its place."""
    for said, other in (found.changed, found.changed[::-1]):
        match = IMAGE.search(said.lstrip()[:IMAGE_CHARS])
        if match and said.lstrip()[match.start() :][:SAME_IMAGE_CHARS] not in other:
            return True
    last = None
    for match in IMAGE.finditer(found.label, max(0, found.low - 400)):
        last = match
    return last is not None and not re.search(r"[>\])]", found.label[last.end() :])


def is_reminder(text: str) -> bool:
    """Whether a text that was put in, or taken out, is a reminder."""
    return bool(REMINDER.search(text[:400]))


def in_reminder(head: str, line: str, changed: tuple[str, str]) -> bool:
    """Whether a change lies in a reminder: within its tag, under its headline, or in the lines of a task list."""
    if _OPEN_REMINDER.search(head + line):
        return True
    paragraph = (head + line).rsplit("\n\n", 1)[-1]
    if _STRONG_REMINDER.search(paragraph) or re.match(r"[\W_]*reminder\b", paragraph, re.IGNORECASE):
        return True
    if "\n\n" not in head and _HEADLINE.search(head + line):
        return True
    lines = [one for text in changed for one in text.splitlines() if one.strip()]
    return bool(lines) and all(_TASK.match(one) for one in lines)


def is_summary(text: str) -> bool:
    """Whether a message that begins so is a summary of others."""
    return bool(SUMMARY.search(text[:300]))


def _within(pattern: re.Pattern[str], text: str, low: int, high: int) -> bool:
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


def _is_hex(word: str) -> bool:
    return bool(re.match(rf"[0-9a-f]{{{LEAST_HEX},64}}(?![0-9A-Za-z])", word))


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
    words = _WORD_IN_NAME.findall(bare)
    if all(len(word) > 2 and (word.isupper() or re.search(r"[aeiouy]", word, re.IGNORECASE)) for word in words):
        return False
    return len(bare) >= 8 and (mixed or not re.search(r"[aeiou]", bare, re.IGNORECASE))
