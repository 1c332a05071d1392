"""What parts two prompts whose pieces are no token ids: there a text that changed anywhere differs as a whole, and the
same text may have been given another length where a provider's count is spread over the pieces."""

from __future__ import annotations

import numpy as np

from traces.divergence.inserts import is_block, is_reminder
from traces.divergence.kinds import name_kind
from traces.divergence.sides import LEAST_ALIKE_CHARS, Shape, Side, changed_lines, further_lines
from traces.divergence.units import READ_UNITS, TEMPLATE, Units, Vocabulary, role_at, text_of
from traces.records import ROLES

IMAGE = ROLES.index("image")

AHEAD_UNITS = 2000
"""How much is read of what follows a piece."""


def are_pieces(q: Units, k: Units, at: int, line: int, words: Vocabulary | None) -> bool:
    """Whether two prompts part where neither has token ids, and texts of pieces are at hand."""
    if words is None or q.explicit[at:].any() or k.explicit[at:].any():
        return False
    return any(piece_behind(units, line, words) > line for units in (q, k))


def piece_behind(units: Units, line: int, words: Vocabulary) -> int:
    """Where the first piece of known text ends that begins at `line` or soon behind it; `line` where there is none."""
    begins = (line + np.flatnonzero(units.starts[line : line + 2 * READ_UNITS])).tolist()
    for at, end in zip(begins[:4], [*begins[1:], len(units.starts)], strict=False):
        if words.kept.get(int(units.id[at])) is not None:
            return int(end)
    return line


def name_pieces(
    q: Units, k: Units, line: int, words: Vocabulary, before: Side, after: Side, shape: Shape
) -> str | None:
    """The kind of what parts two prompts at the piece that begins at unit `line`; None also where only its length
    differs."""
    other = _other_pieces(q, k, line, words)
    roles = None if other is None else (role_at(q, other[0]), role_at(k, other[1]))
    if roles is not None and roles[0] == "image":
        return "image" if roles[1] == "image" or shape.dropped < 2 else name_kind(before, after, shape)
    if other is None or roles is None or (before.ends and before.ahead and after.ahead.startswith(before.ahead)):
        return None  # the earlier text goes on
    sides = [_side(units, at, role, words) for units, at, role in zip((q, k), other, roles, strict=True)]
    cut = changed_lines(before, after) or changed_lines(*sides)
    if cut is None and (_put_in(after, before) or _put_in(before, after)):
        return "reminder"
    if cut is None:
        further = further_lines(before, after) if before.text == after.text else (before, after)
        return None if further is None else name_kind(*further, shape)
    return name_kind(*cut, shape._replace(resumed=True, dropped=min(shape.dropped, 0)))


def _put_in(more: Side, less: Side) -> bool:
    """Whether one prompt has a reminder more as a message, and goes on behind it with what the other has there."""
    if more.role not in ("user", "system") or not more.text or not (is_reminder(more.text) or is_block(more.text)):
        return False
    rest = more.ahead.removeprefix(more.text)
    return rest != more.ahead and bool(less.ahead) and rest.startswith(less.ahead[:LEAST_ALIKE_CHARS])


def _other_pieces(q: Units, k: Units, line: int, words: Vocabulary) -> tuple[int, int] | None:
    """Where the first pieces begin, from `line` on, that are not the same in both; None where all are, as far as one of
    the two reaches."""
    for a, b in zip(_begins(q, line, words), _begins(k, line, words), strict=False):
        if q.id[a] != k.id[b]:
            return a, b
    return None


def _begins(units: Units, line: int, words: Vocabulary) -> list[int]:
    """Where pieces begin whose text is known, and images; the rest of a piece that is longer in one prompt does not."""
    window = slice(line, line + 2 * READ_UNITS)
    starts = (line + np.flatnonzero(units.starts[window] & (units.role[window] != TEMPLATE))).tolist()
    return [at for at in starts if units.role[at] == IMAGE or words.kept.get(int(units.id[at])) is not None]


def _side(units: Units, at: int, role: str, words: Vocabulary) -> Side:
    ahead = text_of(units, at, at + AHEAD_UNITS, words) or ""
    return Side(role, ahead, ahead, ahead, at + AHEAD_UNITS >= len(units.id))
