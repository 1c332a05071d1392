"""What kind of change parts two prompts: named from their texts or the roles of what differs, kept without text."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

KINDS = (
    "clock",
    "nonce",
    "working_directory",
    "tool_schema",
    "stripped_reasoning",
    "reminder",
    "image",
    "whitespace",
    "summary",
)
"""Clock or date · random id or nonce · working directory or git state · tool order or schema · reasoning that is no
longer sent · injected reminder · image · whitespace or re-serialisation · summary."""

WINDOW_CHARS = 400
"""How much of two texts is compared when only their layout may differ."""

LABEL_CHARS = 40
"""How far before a changed value the words are looked for that say what it is."""

LAYOUT_CHARS = 12
"""Characters besides whitespace that have to go on alike behind a change of layout."""

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_CLOCK = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?"
    r"(?:\s?(?:Z|UTC|[+-]\d{2}:?\d{2}))?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[ap]m)?"
    rf"|(?:{_DAY},?\s+)?(?:\d{{1,2}}\s+{_MONTH}|{_MONTH}\s+\d{{1,2}})(?:(?:st|nd|rd|th)?,?\s+\d{{4}})?"
    rf"|\b{_DAY}\b|\b1[4-9]\d{{8}}(?:\d{{3}}|\.\d+)?\b",
    re.IGNORECASE,
)
_CLOCK_WORD = re.compile(r"\b(?:time|date|today|now|clock|timestamp|uptime|elapsed)\b", re.IGNORECASE)
_PLACE_WORD = re.compile(
    r"\b(?:cwd|pwd|working[ _-]?dir(?:ectory)?|current[ _-]?dir(?:ectory)?|workspace|git|branch|HEAD|commit|worktree"
    r"|modified|untracked|staged|ahead|behind)\b|^\s?[MADRCU?]{1,2} [\w./-]+$",
    re.IGNORECASE | re.MULTILINE,
)
_PLACE_VALUE = re.compile(r"[/\\._~0-9-]|\?\?|^[MADRCU] ")
_PLACE_LABEL = re.compile(
    r"[\W_]*(?:\w+[ _-]){0,2}?(?:cwd|pwd|dir(?:ectory)?|workspace|branch|HEAD|commit|status)\b", re.IGNORECASE
)
_PATH = re.compile(r"(?:~|\b[A-Za-z]:)?(?:[/\\][\w.@+-]+){2,}[/\\]?")
_REASONING = re.compile(r"</?(?:think|thinking|reasoning|thought)>|\[(?:thinking|reasoning)\]", re.IGNORECASE)
_SUMMARY = re.compile(
    r"<(?:conversation[_-])?summary>"
    r"|\bsummary of (?:the |our |this )?(?:conversation|session|work|earlier|previous|history)"
    r"|\bcontinued from a previous (?:conversation|session)|\b(?:conversation|history|context) (?:was|has been|is)"
    r" (?:summari[sz]ed|compacted|condensed)",
    re.IGNORECASE,
)
_REMINDER = re.compile(r"<system[-_]reminder>|<reminder>|\breminder\b|\bremember to\b|\btodo list\b", re.IGNORECASE)
_IMAGE = re.compile(r"\[image|<image|image/(?:png|jpe?g|webp|gif)|data:image", re.IGNORECASE)
_SCHEMA = re.compile(r'"(?:parameters|input_schema|inputSchema|json_schema)"\s*:|"type"\s*:\s*"function"')
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]*")
_JOINED = re.compile(r"[0-9A-Za-z_:./\\@+~%-]")


class Side(NamedTuple):
    """One prompt at the place where two part.

    Attributes:
        role: of what stands there.
        text: the changed lines; "" where there are none, None where they are not known.
        line: the first of them.
        ahead: the text from there on, changed or not.
        ends: whether the prompt ends with `ahead`.
    """

    role: str
    text: str | None
    line: str = ""
    ahead: str = ""
    ends: bool = False


def name_kind(before: Side, after: Side, resumed: bool, compaction: bool = False) -> str | None:
    """Name the change from `before` (the earlier prompt) to `after`; None where nothing fits.

    Args:
        before, after: the two sides.
        resumed: whether the two go on alike behind the change, as far as the earlier one goes. Where they do not, the
            later prompt may just be another one, and only what it says itself is evidence.
        compaction: the source says that the history was compacted before the later prompt.
    """
    roles = (before.role, after.role)
    if compaction or after.role == "summary":
        return "summary"
    if _SUMMARY.search(after.line) and not (
        resumed
        and _SUMMARY.search(before.line)
        and _mostly(_SUMMARY.sub("", before.line), _SUMMARY.sub("", after.line))
    ):
        return "summary"
    if "tools" in roles:
        return "tool_schema"
    if resumed and _reminded(before, after):
        return "reminder"
    if resumed or (before.text is None and after.text is None) or roles == ("image", "image"):
        if "image" in roles:
            return "image"
        if before.role == "reasoning" and after.role != "reasoning" and before.text != "":
            return "stripped_reasoning"
    if before.text is None or after.text is None:
        return "reminder" if resumed and _inserted(before, after) and after.role in ("system", "user") else None
    if resumed and (_same_but_layout(before.text, after.text) or _blank(before.text, after.text)):
        return "whitespace"
    if _same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], before.ends):
        return "whitespace"
    return _of_lines(before.line, after.line, _inserted(before, after), resumed)


def _reminded(before: Side, after: Side) -> bool:
    """Whether one of the first lines is a reminder that the other is not."""
    a, b = _REMINDER.search(before.line), _REMINDER.search(after.line)
    return bool(a) != bool(b) or (bool(a) and not _mostly(before.line, after.line))


def _mostly(a: str, b: str) -> bool:
    """Whether two lines are the same but for less than half of them."""
    low, high_a, high_b = _differing(a, b)
    return 2 * (high_a - low) < len(a) and 2 * (high_b - low) < len(b)


def _inserted(before: Side, after: Side) -> bool:
    return before.text == "" or after.text == ""


def _of_lines(a: str, b: str, inserted: bool, resumed: bool) -> str | None:
    if resumed and _REASONING.search(a) and not _REASONING.search(b):
        return "stripped_reasoning"
    if _IMAGE.search(a) and _IMAGE.search(b):
        return "image"
    if _SCHEMA.search(a) and _SCHEMA.search(b):
        return "tool_schema"
    if inserted:
        return "working_directory" if _PLACE_WORD.search(a or b) else None
    low, high_a, high_b = _differing(a, b)
    label = a[:low]
    words = _word(a, low, high_a), _word(b, low, high_b)
    changed = a[low:high_a], b[low:high_b]
    sure = resumed or _mostly(a, b)
    told = bool(re.search("[:=]", label) or _PLACE_LABEL.match(label))
    if (sure or told) and _overlaps(_CLOCK, a, low, high_a) and _overlaps(_CLOCK, b, low, high_b):
        return "clock"
    if resumed and _overlaps(_PATH, a, low, high_a) and _overlaps(_PATH, b, low, high_b):
        return "working_directory"
    if (sure or told) and _names_place(label, words, changed):
        return "working_directory"
    if (sure or told) and _CLOCK_WORD.search(label) and changed[0].strip(" .:0123456789") == "":
        return "clock"
    alone = not re.search(r"\s", changed[0] + changed[1]) and _is_id(words[0]) and _is_id(words[1])
    if alone and (sure or told or (low >= 2 and len(words[0]) == len(words[1]) >= 6)):
        return "nonce"
    return None


def _names_place(label: str, words: tuple[str, str], changed: tuple[str, str]) -> bool:
    """Whether the words that changed, behind `label`, are a directory or the state of a repository."""
    if not any(m.start() >= len(label) - LABEL_CHARS for m in _PLACE_WORD.finditer(label + words[0])):
        return False
    if all(_PLACE_VALUE.search(word) for word in words):
        return True
    return bool(_PLACE_LABEL.match(label)) and all(len(one.split()) <= 2 for one in changed)


def _same_but_layout(a: str, b: str, ends: bool = False) -> bool:
    """Whether two texts part by whitespace, escapes or the layout of JSON only: what else there is goes on alike.

    `ends`: `a` is over, and `b` may go on.
    """
    if a == b:
        return False
    low, _, _ = _differing(a, b)
    bare_a, bare_b = _bare(a), _bare(b)
    if bare_a == bare_b and len(bare_a) >= 2:
        return True
    alike = _differing(bare_a, bare_b)[0]
    if alike - len(_bare(a[:low])) >= (2 if ends and alike == len(bare_a) else LAYOUT_CHARS):
        return True
    try:
        return bool(json.loads(a) == json.loads(b))
    except (ValueError, RecursionError):
        return False


def _blank(a: str, b: str) -> bool:
    """Whether all that was put in or taken out is blank."""
    return a != b and not a.strip() and not b.strip()


def _bare(text: str) -> str:
    return re.sub(r"\s+|\\[nrt]", "", text)


def _differing(a: str, b: str) -> tuple[int, int, int]:
    """Where two texts differ: from the same place in both, up to a place in each."""
    size = min(len(a), len(b))
    low = next((i for i in range(size) if a[i] != b[i]), size)
    tail = 0
    while tail < size - low and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    return low, len(a) - tail, len(b) - tail


def _overlaps(pattern: re.Pattern[str], text: str, low: int, high: int) -> bool:
    high = max(high, low + 1)
    return any(m.start() < high and m.end() > low for m in pattern.finditer(text))


def _word(text: str, low: int, high: int) -> str:
    while low > 0 and _JOINED.match(text[low - 1]):
        low -= 1
    while high < len(text) and _JOINED.match(text[high]):
        high += 1
    return text[low:high]


def _is_id(word: str) -> bool:
    """Whether a word looks drawn at random: digits among its letters, or a long run without vowels' rhythm."""
    parts: list[str] = _ID.findall(word)
    last = max(parts, key=len, default="")
    bare = last.replace("-", "").replace("_", "")
    if len(bare) < 3:
        return False
    digits = sum(c.isdigit() for c in bare)
    if digits:
        return True
    if len(bare) >= 4 and re.fullmatch(r"[0-9a-fA-F]+", bare):
        return True
    mixed = any(c.isupper() for c in bare[1:]) and any(c.islower() for c in bare)
    return len(bare) >= 8 and (mixed or not re.search(r"[aeiou]", bare, re.IGNORECASE))
