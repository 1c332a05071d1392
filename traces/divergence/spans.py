"""The lines that a change spans in two prompts, and how far these are alike behind them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.divergence.units import TEMPLATE, Units, Vocabulary
from traces.tree.prompt_pairs import resume

LOOK_BACK_TOKENS = 4096
"""A line is searched for at most this far before the place where prompts part."""

MOST_LINES = 24
"""Lines of either prompt that a change may span; what is longer is not resumed behind."""

LEAST_ALIKE_TOKENS = 16
"""Fewer tokens alike behind a change are chance; four times as many where a token is a byte."""

END_TOKENS = 64
"""How much of a prompt's end is looked for in the next one."""

MOST_MESSAGES = 8
"""Messages of either prompt that a change may span."""


class Span(NamedTuple):
    """Changed lines, in units of a stretch: where they begin in both, where the frame of their message does, where the
    first line and all of them end in the earlier (q) and the later prompt (k), how many units are alike behind them,
    and how many are more than chance."""

    line: int
    framed: int
    first_q: int
    first_k: int
    cut_q: int
    cut_k: int
    alike: int
    least: int


def span_of(q: Units, k: Units, at: int, native: int, words: Vocabulary | None) -> Span:
    """The changed lines of two stretches that part at unit `at`; `native`: tokens of a unit."""
    ends_q, ends_k = _line_ends(q, native, words), _line_ends(k, native, words)
    line = at
    while line > 0 and not ends_k[line - 1] and k.role[line - 1] != TEMPLATE:
        line -= 1
    framed = line
    while framed > 0 and k.role[framed - 1] == TEMPLATE:
        framed -= 1  # a message that is put in, or taken out, goes with its frame
    cuts_q, cuts_k = _cuts(q, ends_q, framed, line, at, native), _cuts(k, ends_k, framed, line, at, native)
    single_bytes = words is not None and words.single_bytes
    least = max(1, (4 * LEAST_ALIKE_TOKENS if single_bytes else LEAST_ALIKE_TOKENS) // native)
    cut_q, cut_k, alike = resume(q.id, q.explicit, k.id, k.explicit, cuts_q, cuts_k, at, least)
    if min(cut_q, cut_k) == framed:
        line = framed
    first_q, first_k = _first(ends_q, line, at), _first(ends_k, line, at)
    if alike == 0:
        cut_q, cut_k = first_q, first_k
    return Span(line, framed, first_q, first_k, int(cut_q), int(cut_k), int(alike), least)


def _line_ends(units: Units, native: int, words: Vocabulary | None) -> NDArray[np.bool_]:
    """Per unit: a line ends with it."""
    count = len(units.id)
    if native > 1:
        return np.ones(count, np.bool_)
    ends = np.zeros(count, np.bool_)
    if count:
        # a part ends where the role changes, and where known text meets what is not known
        ends[:-1] = (units.role[1:] != units.role[:-1]) | (units.explicit[1:] != units.explicit[:-1])
        ends[:-1] |= units.starts[1:] & ~units.explicit[:-1]
        # what frames a message is no line of its own
        ends &= units.role != TEMPLATE
        ends[-1] = True
    if words is not None and units.explicit.any():
        known = units.explicit & (units.id < len(words.tokens))
        ends[known] |= words.line_end[units.id[known].astype(np.int64)]
    return ends


def _first(ends: NDArray[np.bool_], line: int, at: int) -> int:
    """Where the line that holds the first difference ends; `at` where it ended right before."""
    if line < at and (ends[at - 1] or at == len(ends)):
        return at
    found = np.flatnonzero(ends[at : at + 16 * LOOK_BACK_TOKENS])
    return at + int(found[0]) + 1 if found.size else len(ends)


def _cuts(units: Units, ends: NDArray[np.bool_], framed: int, line: int, at: int, native: int) -> NDArray[np.int64]:
    """Where lines end that a change may reach to: not at all, before its message's frame or behind it; at the place
    where prompts part, if a line ends right there; behind the next lines; behind the next messages."""
    window = ends[at : at + 16 * LOOK_BACK_TOKENS]
    found = at + np.flatnonzero(window)
    cuts = {framed, line, *(found[:MOST_LINES] + 1).tolist()}
    if at > 0 and (ends[at - 1] or at == len(ends)):
        cuts.add(at)
    if native == 1:
        framing = units.role[at : at + 16 * LOOK_BACK_TOKENS] == TEMPLATE
        starts = at + 1 + np.flatnonzero(framing[1:] & ~framing[:-1])
        cuts.update(starts[:MOST_MESSAGES].tolist())
        if framing[:1].any() and units.role[at - 1] != TEMPLATE:
            cuts.add(at)
    if len(cuts) < 3 or found.size <= MOST_LINES:
        cuts.add(len(ends))
    return np.array(sorted(cuts), np.int64)
