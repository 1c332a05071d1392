"""Infers sessions for traces that do not name them: a prompt that extends another one continues it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit


@njit(cache=True)
def infer_sessions(parent: Any, end: Any, leaf: Any, depth_end: Any, smallest: Any, order: Any, after: Any) -> Any:
    """Map each request to the place of the first request of its inferred session.

    A request continues the longest prompt, of at least `smallest` tokens, whose full blocks it extends (equal full
    blocks count as extending) and which no other request has continued yet. If there is none, it starts a session.

    Args:
        parent: int64 per node.
        end: int64 per node, tokens on the path.
        leaf: int64 per request, the node where the prompt ends (-1 unknown: a session of its own).
        depth_end: int64 per request, tokens of its full blocks.
        smallest: int64 per request, tokens of two full blocks.
        order: int64, requests in arrival order.
        after: int64 per request, the place of an earlier one that it is known to continue (-1 none): the source
            compacted that one's prompt for it, so it extends nothing.

    Returns:
        int64 per request: the place of the first request of its session.
    """
    count = leaf.size
    # per node: the latest prompt not yet continued whose full blocks end there
    open_at = np.full(parent.size, -1, np.int64)
    below = np.full(count, -1, np.int64)  # the open prompt before it at the same node
    first = np.arange(count)
    for k in range(count):
        r = order[k]
        node = leaf[r]
        if node < 0:
            continue
        while node > 0 and end[node] > depth_end[r]:
            node = parent[node]
        home = node if node > 0 and end[node] == depth_end[r] else np.int64(-1)
        if after[r] >= 0:
            first[r] = first[after[r]]
        while after[r] < 0 and node > 0 and end[node] >= smallest[r]:
            if open_at[node] >= 0:
                previous = open_at[node]
                open_at[node] = below[previous]
                first[r] = first[previous]
                break
            node = parent[node]
        if home > 0:
            below[r] = open_at[home]
            open_at[home] = r
    return first


def full_depths(tokens: NDArray[np.int64], block: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens of the full blocks of prompts of `tokens` tokens at native block sizes `block`."""
    return tokens // block * block
