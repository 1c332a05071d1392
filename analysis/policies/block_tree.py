"""The prefix tree by its full blocks, and when each of its nodes is used: what a cache must know of a trace."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit

MOST_USES = 1 << 29
"""The most (request, node) pairs of which all uses are kept."""


class BlockTree(NamedTuple):
    """The nodes that hold full blocks; node 0 is the root.

    Attributes:
        parent: int32[n].
        before: int64[n], full blocks on the path above the node.
        blocks: int64[n], full blocks of the node: at least 1, but for the root.
    """

    parent: NDArray[np.int32]
    before: NDArray[np.int64]
    blocks: NDArray[np.int64]


def block_tree(
    parent: NDArray[Any], start: NDArray[Any], end: NDArray[Any], leaf: NDArray[Any], block_tokens: int
) -> tuple[BlockTree, NDArray[np.int32]]:
    """The tree without nodes that hold no full block, and each leaf's node in it (-1 unknown, 0 no full block)."""
    before, upto = np.asarray(start) // block_tokens, np.asarray(end) // block_tokens
    kept = upto > before
    kept[0] = True
    number = np.cumsum(kept) - 1
    from_above = np.argsort(start, kind="stable")  # a parent starts before its children, and the root is first
    holder = _holders(np.asarray(parent, np.int64), kept, number, from_above)
    above = np.asarray(parent, np.int64)[kept]
    above[0] = 0
    tree = BlockTree(holder[above].astype(np.int32), before[kept].astype(np.int64), (upto - before)[kept])
    leaves = np.asarray(leaf, np.int64)
    return tree, np.where(leaves >= 0, holder[np.maximum(leaves, 0)], -1).astype(np.int32)


@njit
def _holders(parent: Any, kept: Any, number: Any, from_above: Any) -> Any:
    """Of each node, the nearest one on its path, itself included, that is kept: its number there."""
    holder = np.zeros(len(parent), np.int64)
    for node in from_above[1:]:
        holder[node] = number[node] if kept[node] else holder[parent[node]]
    return holder


class Uses(NamedTuple):
    """The positions in time at which each node is used: those of node n are at[first[n] : first[n + 1]], ascending."""

    first: NDArray[np.int64]
    at: NDArray[np.int32]


@njit
def _count_uses(parent: Any, leaf: Any) -> Any:
    count = np.zeros(len(parent) + 1, np.int64)
    for node in leaf:
        while node > 0:
            count[node + 1] += 1
            node = parent[node]
    return count


@njit
def _place_uses(parent: Any, leaf: Any, first: Any, total: int) -> Any:
    at = np.empty(total, np.int32)
    place = first.copy()
    for position in range(len(leaf)):
        node = leaf[position]
        while node > 0:
            at[place[node]] = position
            place[node] += 1
            node = parent[node]
    return at


def uses(tree: BlockTree, leaf: NDArray[np.int32]) -> Uses:
    """When each node is used.

    Args:
        leaf: int32[r], the requests' nodes in arrival order.

    Raises:
        ValueError: more than `MOST_USES` pairs of a request and a node.
    """
    count = _count_uses(tree.parent, leaf)
    total = int(count.sum())
    if total > MOST_USES:
        raise ValueError(f"belady needs {total:,} uses of nodes in memory, and at most {MOST_USES:,} are kept")
    first = np.cumsum(count)
    return Uses(first, _place_uses(tree.parent, leaf, first, total))
