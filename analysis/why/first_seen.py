"""First-seen tokens by the role of the tree nodes that contain them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.why.attribution import Rows
from traces.tree.compiled import njit


def first_seen_roles(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    role: NDArray[Any],
    leaf: NDArray[Any],
    first_seen: Rows,
) -> tuple[NDArray[np.int32], NDArray[np.int8], Rows]:
    """The first-seen tokens by the role of their nodes: (row, role code, tokens), several rows per request.

    Each token is first seen in exactly one request, so all walks together visit each node about once.

    Args:
        parent, start, end, role: the tree.
        leaf: int[r], node whose path is the prompt; -1 unknown.
        first_seen: int64[r], number of first-seen tokens at the end of the prompt.
    """
    arrays = (
        np.ascontiguousarray(parent, np.int64),
        np.ascontiguousarray(start, np.int64),
        np.ascontiguousarray(end, np.int64),
        np.ascontiguousarray(role, np.int8),
        np.ascontiguousarray(leaf, np.int64),
        np.ascontiguousarray(first_seen, np.int64),
    )
    count = _new_nodes(*arrays)
    row, code, tokens = np.empty(count, np.int32), np.empty(count, np.int8), np.empty(count, np.int64)
    _by_role(*arrays, row, code, tokens)
    return row, code, tokens


@njit(cache=True)
def _new_nodes(parent: Any, start: Any, end: Any, role: Any, leaf: Any, first_seen: Any) -> int:
    """The number of rows that `_by_role` writes."""
    count = 0
    for row in range(len(leaf)):
        node = leaf[row]
        if node < 0 or first_seen[row] <= 0:
            continue
        # walk up from the leaf over the nodes that reach into the first-seen end of the prompt
        begin = end[node] - first_seen[row]
        while node > 0 and end[node] > begin:
            count += 1
            node = parent[node]
    return count


@njit(cache=True)
def _by_role(
    parent: Any, start: Any, end: Any, role: Any, leaf: Any, first_seen: Any, out_row: Any, out_role: Any, out: Any
) -> None:
    """Fill one row per request and node with first-seen tokens."""
    at = 0
    for row in range(len(leaf)):
        node = leaf[row]
        if node < 0 or first_seen[row] <= 0:
            continue
        begin = end[node] - first_seen[row]
        while node > 0 and end[node] > begin:
            # the topmost node may begin before the first-seen tokens do
            out_row[at] = row
            out_role[at] = role[node]
            out[at] = end[node] - max(start[node], begin)
            at += 1
            node = parent[node]
