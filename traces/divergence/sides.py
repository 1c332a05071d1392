"""The two sides of a place where prompts part, and how they differ there whatever they say."""

from __future__ import annotations

from typing import NamedTuple

from traces.divergence.difference import alike
from traces.divergence.words import SPEAKER

MOST_LINES = 16
"""Lines of either text that a change may span."""

LEAST_ALIKE_CHARS = 64
"""So many characters alike are no chance."""


class Side(NamedTuple):
    """One prompt at the place where two part.

    Attributes:
        role: of what stands there; of what changed, where anything did on this side.
        text: the changed lines; "" where there are none, None where they are not known.
        line: the first of them.
        ahead: the text from there on, changed or not.
        ends: whether the prompt ends with `ahead`.
        head: the text of the same part before the changed lines.
        following: how the message behind the one that holds them begins; "" where that is not read.
    """

    role: str
    text: str | None
    line: str = ""
    ahead: str = ""
    ends: bool = False
    head: str = ""
    following: str = ""


class Shape(NamedTuple):
    """How two prompts differ, whatever they say.

    Attributes:
        resumed: they go on alike behind the changed lines, as far as the earlier one goes.
        whole: the changed lines are whole messages on one side, and nothing on the other.
        dropped: how many messages fewer the later prompt has there; 0 also where that is not known.
        share: of the earlier prompt's tokens, how many went with them.
        skips: behind the change the later prompt goes on with what the earlier one has further on.
        kept: the end of the earlier prompt stands in the later one.
        compaction: the source says that the history was compacted before the later prompt.
        unreasoned: the later prompt goes on with what stands right behind the earlier one's reasoning.
    """

    resumed: bool
    whole: bool = False
    dropped: int = 0
    share: float = 0.0
    skips: bool = False
    kept: bool = False
    compaction: bool = False
    unreasoned: bool = False


def message_of(side: Side) -> str:
    """The message that holds the change, from its start on; in a prompt of one text without the mark before it."""
    if side.role != "unknown":
        return side.head + (side.line or side.ahead.split("\n", 1)[0])
    ahead = side.ahead.lstrip("\n")
    mark = SPEAKER.match(ahead)
    return side.head + SPEAKER.split(ahead[mark.end() :] if mark else ahead, maxsplit=1)[0].lstrip()


def further_lines(before: Side, after: Side) -> tuple[Side, Side] | None:
    """The first lines that differ behind equal ones, None where none do as far as is read.

    Pieces of equal texts may have been given different lengths where the provider's count is spread over them.
    """
    a, b = before.ahead, after.ahead
    shared = alike(a, b)
    if shared == min(len(a), len(b)):
        return None
    start = a.rfind("\n", 0, shared) + 1
    lines = [text[start : text.find("\n", shared) + 1 or len(text)] for text in (a, b)]
    sides = [
        side._replace(text=line, line=line, head=side.head + side.ahead[:start], ahead=side.ahead[start:])
        for side, line in zip((before, after), lines, strict=True)
    ]
    return sides[0], sides[1]


def changed_lines(before: Side, after: Side) -> tuple[Side, Side] | None:
    """The two sides cut to the lines that changed, where the texts of both begin alike and go on alike behind these.

    For prompts whose units are no tokens: there a text that changed anywhere differs as a whole.
    """
    a, b = before.ahead, after.ahead
    shared = alike(a, b)
    start = a.rfind("\n", 0, shared) + 1
    if shared < LEAST_ALIKE_CHARS and start == 0:
        return None
    told = (a[start:].splitlines(True), b[start:].splitlines(True))
    for lines in range(1, 2 * MOST_LINES):
        for i in range(max(0, lines - MOST_LINES), min(lines, MOST_LINES) + 1):
            rest = ["".join(text[cut : cut + MOST_LINES]) for text, cut in zip(told, (i, lines - i), strict=True)]
            if alike(*rest) >= LEAST_ALIKE_CHARS or (rest[0] == rest[1] != ""):
                return _cut(before, start, told[0], i), _cut(after, start, told[1], lines - i)
    return None


def _cut(side: Side, start: int, lines: list[str], count: int) -> Side:
    return side._replace(
        text="".join(lines[:count]), line=lines[0] if count else "", ahead=side.ahead[start:],
        head=side.head + side.ahead[:start],
    )  # fmt: skip
