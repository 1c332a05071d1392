"""The two sides of a place where prompts part, and how they differ there whatever they say."""

from __future__ import annotations

from typing import NamedTuple

from traces.divergence_words import SPEAKER


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
