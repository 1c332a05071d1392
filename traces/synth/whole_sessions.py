"""Sessions that a profile lists turn by turn: they are reproduced as listed, with other tokens."""

from __future__ import annotations

import math
from typing import Any

from traces.synth.tree import prompt
from traces.tree.compiled import njit

COLUMNS = 9
"""Columns: prompt tokens, tokens shared with the closest earlier prompt of the session, turns back to that prompt,
output, reasoning, seconds since the session's start, duration, trigger, sub-agents started. NaN is unknown."""


@njit(cache=True)
def grow_listed(tree: Any, listed: Any, start_s: Any, first: Any, base: Any, keep: Any, native: Any, out: Any) -> Any:
    """Write the requests of one session. Returns whether its first and last prompt are known.

    Args:
        tree: with room for 4 nodes per request.
        listed: float64[n, COLUMNS], its turns.
        start_s: its start.
        first: its first request in `out`.
        base: node that the first prompt shares with.
        keep: tokens it shares.
        native: tokens of a native block, 1 for text.
        out: receives the requests.
    """
    for step in range(listed.shape[0]):
        row, turn = first + step, listed[step]
        out.leaf[row] = -1
        out.input_tokens[row] = _count(turn[0])
        if not math.isnan(turn[0]) and not math.isnan(turn[1]):
            node, kept = base, keep
            if step > 0:
                earlier = out.leaf[max(first, row - int(turn[2]))]
                node, kept = max(0, earlier), int(turn[1])
            out.leaf[row] = prompt(tree, node, min(kept, tree.end[node]), int(turn[0]), native)
        out.output_tokens[row], out.reasoning_tokens[row] = _count(turn[3]), _count(turn[4])
        out.arrival_s[row], out.duration_s[row] = start_s + turn[5], turn[6]
        out.trigger[row], out.agents[row] = int(turn[7]), int(turn[8])
    return out.leaf[first] >= 0 and out.leaf[first + listed.shape[0] - 1] >= 0


@njit(cache=True)
def _count(value: Any) -> Any:
    """A whole number, -1 where it is unknown."""
    return -1 if math.isnan(value) else int(value)
