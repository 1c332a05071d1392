"""Heavy paths: a tree cut into paths so that any root-to-leaf walk crosses O(log n) of them.

Every node keeps one *heavy* child, the one with the largest subtree; following heavy children gives the paths (Sleator
and Tarjan, "A data structure for dynamic trees", 1983). With data stored per path instead of per node, a walk from a
leaf to the root costs the number of paths crossed, not the number of turns in the session.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit


class HeavyPaths(NamedTuple):
    """A tree of n nodes cut into p paths. Path 0 holds the root.

    Attributes:
        path: int32[n], the path a node is on.
        above: int32[p], the node above the path's first node (-1 for path 0).
        head_start: int64[p], tokens before the path's first node.
        level: int32[p], paths crossed on the way to the root (0 for path 0).
        first: int64[p + 1], where the path's nodes would begin if all nodes were laid out path by path.
    """

    path: NDArray[np.int32]
    above: NDArray[np.int32]
    head_start: NDArray[np.int64]
    level: NDArray[np.int32]
    first: NDArray[np.int64]


def heavy_paths(parent: NDArray[Any], start: NDArray[Any]) -> HeavyPaths:
    """Cut a tree into heavy paths in O(n), without recursion.

    Args:
        parent: int[n], each node's parent; node 0 is the root and has -1. Ids may be in any order.
        start: int[n], tokens on the path before the node.

    Raises:
        ValueError: `parent` is no tree rooted at node 0.
    """
    if len(parent) != len(start):
        raise ValueError(f"parent and start differ in length: {len(parent)} and {len(start)}")
    if len(parent) == 0 or parent[0] != -1:
        raise ValueError("node 0 must be the root of the tree (parent -1)")
    if len(parent) >= 2**31:
        raise ValueError(f"a tree of {len(parent)} nodes does not fit 32-bit node ids; split the dataset")
    parents = np.ascontiguousarray(parent, dtype=np.int64)
    if len(parents) > 1 and (parents[1:].min() < 0 or parents.max() >= len(parents)):
        bad = 1 + int(np.argmax((parents[1:] < 0) | (parents[1:] >= len(parents))))
        raise ValueError(f"node {bad} has parent {parents[bad]}, which is no node: only node 0 is a root")
    if len(parents) == 1 or bool(np.all(parents[1:] < np.arange(1, len(parents)))):
        top_down = np.arange(len(parents), dtype=np.int32)
    else:
        top_down, reached = _top_down(parents)
        if reached < len(parents):
            raise ValueError(f"{len(parents) - reached} nodes are not below the root: their parents form a cycle")
    return HeavyPaths(*_cut(parents, np.ascontiguousarray(start, dtype=np.int64), top_down))


@njit(cache=True)
def children(parent: Any) -> Any:
    """The children of every node, by a counting sort on the parent: those of node v are child[first[v] : first[v + 1]].

    Returns:
        int64[n + 1] first, int32[n − 1] child.
    """
    n = len(parent)
    # Count each node's children; the running sum is where its children begin in `child`.
    first = np.zeros(n + 1, np.int64)
    for v in range(1, n):
        first[parent[v] + 1] += 1
    for v in range(n):
        first[v + 1] += first[v]
    # Write every node into its parent's range.
    fill = first[:-1].copy()
    child = np.empty(max(n - 1, 1), np.int32)
    for v in range(1, n):
        child[fill[parent[v]]] = v
        fill[parent[v]] += 1
    return first, child


@njit(cache=True)
def _top_down(parent: Any) -> Any:
    """Nodes breadth first from the root, and how many were reached."""
    n = len(parent)
    first, child = children(parent)
    # `order` is also the queue: order[at:reached] waits to be expanded. A node on a cycle is never reached.
    order = np.empty(n, np.int32)
    order[0] = 0
    reached = 1
    at = 0
    while at < reached:
        v = order[at]
        at += 1
        for c in range(first[v], first[v + 1]):
            order[reached] = child[c]
            reached += 1
    return order, reached


@njit(cache=True)
def _cut(parent: Any, start: Any, top_down: Any) -> Any:
    n = len(parent)
    # Bottom up: the size of each subtree, and the child with the largest one. In reverse of `top_down` every subtree is
    # complete before it is added to its parent.
    size = np.ones(n, np.int32)
    heavy = np.full(n, -1, np.int32)
    largest = np.zeros(n, np.int32)
    for i in range(n - 1, 0, -1):
        v = top_down[i]
        up = parent[v]
        size[up] += size[v]
        if size[v] > largest[up]:
            largest[up] = size[v]
            heavy[up] = v
    # The root and every child that is not heavy start a path.
    paths = 1
    for i in range(1, n):
        v = top_down[i]
        if heavy[parent[v]] != v:
            paths += 1
    path = np.empty(n, np.int32)
    above = np.empty(paths, np.int32)
    head_start = np.empty(paths, np.int64)
    level = np.empty(paths, np.int32)
    first = np.zeros(paths + 1, np.int64)
    path[0] = 0
    above[0] = -1
    head_start[0] = start[0]
    level[0] = 0
    first[1] = 1
    # Top down: a heavy child joins its parent's path, any other child starts a path. first[p + 1] counts p's nodes.
    paths = 1
    for i in range(1, n):
        v = top_down[i]
        up = parent[v]
        if heavy[up] == v:
            path[v] = path[up]
        else:
            path[v] = paths
            above[paths] = up
            head_start[paths] = start[v]
            level[paths] = level[path[up]] + 1
            paths += 1
        first[path[v] + 1] += 1
    # Counts become offsets.
    for p in range(paths):
        first[p + 1] += first[p]
    return path, above, head_start, level, first


@njit(cache=True)
def lca(path: Any, above: Any, level: Any, end: Any, a: int, b: int) -> int:
    """The lowest common ancestor of nodes `a` and `b`, in O(log n)."""
    # Leave the path that lies deeper until both nodes are on one path; the one nearer the root is the ancestor.
    while path[a] != path[b]:
        if level[path[a]] >= level[path[b]]:
            a = above[path[a]]
        else:
            b = above[path[b]]
    return a if end[a] <= end[b] else b


@njit(cache=True)
def lca_end(path: Any, above: Any, level: Any, end: Any, a: int, b: int) -> int:
    """Tokens that the paths root → `a` and root → `b` share: the end of their lowest common ancestor."""
    return end[lca(path, above, level, end, a, b)]


@njit(cache=True)
def shared_tokens(path: Any, above: Any, level: Any, end: Any, a: Any, b: Any) -> Any:
    """`lca_end` of each pair of int arrays `a` and `b`; -1 where either node is -1 (unknown prompt)."""
    out = np.full(len(a), -1, np.int64)
    for i in range(len(a)):
        if a[i] >= 0 and b[i] >= 0:
            out[i] = end[lca(path, above, level, end, a[i], b[i])]
    return out
