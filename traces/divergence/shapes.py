"""The two sides of a place where prompts differ, and what happened to the messages there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traces.divergence.notes import same_but_layout
from traces.divergence.units import (
    END_TOKENS,
    REASONING,
    SPEAKER,
    TEMPLATE,
    Span,
    Units,
    Vocabulary,
    frames,
    message_end,
    messages,
    text_of,
)
from traces.divergence.values import alike
from traces.tree.prompt_pairs import found_ahead

MOST_LINES = 16
"""Lines of either text that a change may span."""

LEAST_ALIKE_CHARS = 64
"""This many equal characters are not equal by chance."""


class Side(NamedTuple):
    """One prompt at the place where two prompts differ.

    Attributes:
        role: of what stands there; of what changed, where anything did on this side.
        text: the changed lines; "" where there are none, None where they are not known.
        line: the first of them.
        ahead: the text from there on, changed or not.
        ends: whether the prompt ends with `ahead`.
        head: the text of the same part before the changed lines.
        following: how the message after the one that holds them begins; "" where that is not read.
    """

    role: str
    text: str | None
    line: str = ""
    ahead: str = ""
    ends: bool = False
    head: str = ""
    following: str = ""


class Shape(NamedTuple):
    """How two prompts differ, independent of their text.

    Attributes:
        resumed: they are alike after the changed lines, as far as the earlier one goes.
        whole: the changed lines are whole messages on one side, and nothing on the other.
        dropped: how many messages fewer the later prompt has there; 0 also where that is not known.
        share: of the earlier prompt's tokens, how many went with them.
        skips: after the change the later prompt continues with what the earlier one has further on.
        kept: the end of the earlier prompt stands in the later one.
        compaction: the source says that the history was compacted before the later prompt.
        unreasoned: the later prompt continues with what stands right after the earlier one's reasoning.
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
    """The first lines that differ after equal ones, None where none do as far as is read.

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
    """The two sides cut to the lines that changed, where the texts of both begin alike and are alike after these.

    For prompts whose units are no tokens: there a text that changed anywhere differs as a whole.
    """
    a, b = before.ahead, after.ahead
    shared = alike(a, b)
    start = a.rfind("\n", 0, shared) + 1
    if shared < LEAST_ALIKE_CHARS and start == 0:
        return None
    lines_of = (a[start:].splitlines(True), b[start:].splitlines(True))
    for lines in range(1, 2 * MOST_LINES):
        for i in range(max(0, lines - MOST_LINES), min(lines, MOST_LINES) + 1):
            rest = ["".join(text[cut : cut + MOST_LINES]) for text, cut in zip(lines_of, (i, lines - i), strict=True)]
            if alike(*rest) >= LEAST_ALIKE_CHARS or (rest[0] == rest[1] != ""):
                return _cut(before, start, lines_of[0], i), _cut(after, start, lines_of[1], lines - i)
    return None


def _cut(side: Side, start: int, lines: list[str], count: int) -> Side:
    return side._replace(
        text="".join(lines[:count]), line=lines[0] if count else "", ahead=side.ahead[start:],
        head=side.head + side.ahead[:start],
    )  # fmt: skip


def shape_of(
    q: Units, k: Units, at: int, span: Span, tail_q: int, tail_k: int, words: Vocabulary | None, compaction: bool
) -> Shape:
    """What happened to the messages at the place where two prompts differ."""
    # little that is alike may be what every message has around it, unless one of the two ends with it, or as before
    strong = span.alike >= 4 * span.least  # so much is no chance
    over = span.cut_q + span.alike + 1 >= len(q.id)
    resumed = (span.alike > 0 and (strong or over or tail_q >= 0)) or cut_short(q, k, at)
    whole = min(span.cut_q, span.cut_k) == span.line == span.framed and frames(q, span.line, span.line + 1) > 0
    kept = tail_q >= 0
    stop_q, stop_k = (tail_q, tail_k) if kept else (span.cut_q, span.cut_k)
    dropped = messages(q, span.framed, stop_q, words) - messages(k, span.framed, stop_k, words) if kept else 0
    skips = False
    if dropped > 1 or not (kept or strong):
        behind = message_end(q, at) if (q.role == TEMPLATE).any() else at + 1
        first = min(stop_k if kept else len(k.id), max(message_end(k, at), at + 2 * span.least), at + 16 * span.least)
        share, place = found_ahead(
            q.id, q.explicit, k.id, k.explicit, at, first, behind, span.least
        )  # fmt: skip
        fresh = int(np.count_nonzero(k.role[at:stop_k] != TEMPLATE)) if kept else len(k.id)
        skips = share >= 0.5 and (place >= 0 or fresh < 4)
        half = span.least // 2
        if not skips and _text_end(k, at) - at < 2 * span.least:  # a short text, and what has none changed after it
            share, place = found_ahead(q.id, q.explicit, k.id, k.explicit, at, at + half, behind, half)
            skips = place >= 0 and at + half <= len(k.id)
        if skips and not kept:
            stop_q, stop_k = int(place), at
            dropped = messages(q, span.framed, stop_q, words)
    if span.alike > 0 and resumed and not skips and (dropped < 2 or strong):
        stop_q, stop_k = span.cut_q, span.cut_k
        dropped = messages(q, span.framed, stop_q, words) - messages(k, span.framed, stop_k, words)
        if dropped > 2 and at + span.least <= message_end(k, at) and (q.role == TEMPLATE).any():
            # what stands there now stood after what is gone
            share, _ = found_ahead(
                q.id, q.explicit, k.id, k.explicit, at, message_end(k, at), message_end(q, at), span.least
            )  # fmt: skip
            skips = share >= 0.5
    elif not (kept or skips):
        more, bare = _put_in(q, k, span.framed, at), _lost_reasoning(q, k, at, span.least // 2, words)
        return Shape(resumed, whole, -int(more), compaction=compaction, unreasoned=bare)
    total = int(q.tokens.sum())
    return Shape(
        resumed, whole, dropped, float(q.tokens[at:stop_q].sum()) / total if total else 0.0, skips, kept, compaction,
        _lost_reasoning(q, k, at, span.least // 2, words),
    )  # fmt: skip


def _put_in(q: Units, k: Units, framed: int, at: int) -> bool:
    """Whether the later prompt has a message more there, and continues after it as the earlier one does."""
    stop, size = message_end(k, at), END_TOKENS // 4
    if framed + size > len(q.id) or stop + size > len(k.id) or q.role[framed] != TEMPLATE:
        return False
    if (q.id[framed : framed + size] == k.id[stop : stop + size]).all():
        return True
    # or with most of the same message
    q_end, k_end = min(message_end(q, framed), framed + 32 * size), message_end(k, stop)
    share, _ = found_ahead(k.id[:k_end], k.explicit[:k_end], q.id, q.explicit, at, q_end, stop, size // 2)
    return bool(q_end - at >= 2 * size and share >= 0.1)


def _lost_reasoning(q: Units, k: Units, at: int, least: int, words: Vocabulary | None) -> bool:
    """Whether the later prompt continues with what stands right after the earlier one's reasoning there."""
    start = first = at
    while at < len(q.id) and q.role[at] == TEMPLATE and q.role[start] == TEMPLATE:
        at += 1  # reasoning that is a message of its own has a frame
    if at >= len(q.id) or q.role[at] != REASONING:
        return False
    while start > 0 and q.role[start - 1] == REASONING:
        start -= 1
    behind = np.flatnonzero(q.role[at:] != REASONING)
    # the text that both begin with has the role of whoever said it first
    if not behind.size or first >= len(k.id) or k.role[first] == REASONING:
        return False
    stop = at + int(behind[0])
    if at > first and q.role[stop] != TEMPLATE:
        return False
    size = min(least, len(q.id) - stop)
    if size >= min(4, least) and np.array_equal(q.id[stop : stop + size], k.id[start : start + size]):
        return True
    q_end, k_end = message_end(q, stop), message_end(k, start)
    said, now = text_of(q, stop, q_end, words), text_of(k, start, k_end, words)
    if said and now and same_but_layout(said, now):
        return True
    # or with the same answer, that begins otherwise
    k_end = min(k_end, start + 32 * least)
    if k_end - start < 2 * least or q_end - stop < 2 * least:
        return False
    share, _ = found_ahead(q.id[:q_end], q.explicit[:q_end], k.id, k.explicit, start, k_end, stop, least)
    return bool(share >= 0.5)


def _text_end(units: Units, at: int) -> int:
    """Where the text that unit `at` is in (or its message begins with) ends."""
    begin = at
    while begin < len(units.role) and units.role[begin] == TEMPLATE:
        begin += 1
    rest = np.flatnonzero((units.role[begin:] == TEMPLATE) | ~units.explicit[begin:])
    return begin + int(rest[0]) if rest.size else len(units.role)


def cut_short(q: Units, k: Units, at: int) -> bool:
    """Whether the earlier prompt's last message lost its end, or its last part, and nothing else: no branch begins
    within a message."""
    if not in_last(q, k, at) or q.role[at - 1] == TEMPLATE:
        return False
    return bool(k.role[at] == TEMPLATE or q.role[at] != q.role[at - 1])


def in_last(q: Units, k: Units, at: int) -> bool:
    """Whether two prompts part within the earlier one's last message."""
    if not 0 < at < min(len(q.id), len(k.id)):
        return False
    return not (q.role[at:] == TEMPLATE).any() and bool((q.role == TEMPLATE).any())


def last_tail(q: Units, k: Units, at: int, least: int) -> tuple[int, int]:
    """Where the end of the earlier prompt's last message, which is the end of the same message in the later prompt too,
    begins in both; (-1, -1) where it is another message: less than `least` units are alike there, and less than half of
    it in all."""
    stop_q, stop_k = len(q.id), message_end(k, at)
    size = min(stop_q, stop_k) - at
    differ = q.id[stop_q - size : stop_q][::-1] != k.id[stop_k - size : stop_k][::-1]
    alike = int(differ.argmax()) if differ.any() else size
    framing = np.flatnonzero(q.role[:at] == TEMPLATE)
    begin = int(framing[-1]) + 1 if framing.size else 0
    whole = at == begin and alike == stop_q - at > 1  # all of it stands after something new
    same = whole or alike >= max(1, least) or 2 * (at - begin + alike) >= max(stop_q, stop_k) - begin
    return (stop_q - alike, stop_k - alike) if same else (-1, -1)
