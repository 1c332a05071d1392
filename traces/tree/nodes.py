"""The nodes of the prefix tree as growable arrays, and the compiled steps that find, add and split them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit

VIRTUAL = -1  # in `offset`: the run is virtual


class Nodes(NamedTuple):
    """Growable node arrays; `n[0]` nodes, `n[1]` pool units and `n[2]` table entries are in use.

    parent, start, end: int64, tokens on the path. per_unit: int32, tokens a unit has. offset: int64 into pool or
    `VIRTUAL`. value: uint64, first unit of a virtual run. space: int32, the namespace of a child of the root.
    role: int8. table: int64 open addressing, node id + 1, by (parent, first unit).
    """

    parent: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    per_unit: NDArray[np.int32]
    offset: NDArray[np.int64]
    value: NDArray[np.uint64]
    space: NDArray[np.int32]
    role: NDArray[np.int8]
    pool: NDArray[np.uint64]
    table: NDArray[np.int64]
    n: NDArray[np.int64]


COLUMNS = Nodes._fields[:8]
"""The arrays with one value per node."""


@njit(cache=True)
def mix(a: Any, b: Any) -> Any:
    """A 64-bit hash of two 64-bit values."""
    x = (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F))
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(32)
    return x


@njit(cache=True)
def unit_at(nodes: Any, node: Any, position: Any) -> Any:
    """The unit at `position` of the node's run."""
    offset = nodes.offset[node]
    if offset >= 0:
        return nodes.pool[offset + position]
    return nodes.value[node] + np.uint64(position)


@njit(cache=True)
def units_in(nodes: Any, node: Any) -> Any:
    """Units in the node's run; the root has none."""
    if node == 0:
        return np.int64(0)
    return (nodes.end[node] - nodes.start[node]) // nodes.per_unit[node]


@njit(cache=True)
def slot_of(nodes: Any, parent: Any, space: Any, first: Any) -> Any:
    """The table slot of the child of `parent` that starts with `first`, or the empty slot where it would be."""
    mask = np.uint64(nodes.table.size - 1)
    # children of the root differ by their namespace, other nodes by their parent
    key = np.int64(parent) if parent > 0 else np.int64(-1 - space)
    at = mix(key, first) & mask
    while True:
        entry = nodes.table[np.int64(at)]
        if entry == 0:
            return np.int64(at)
        child = entry - 1
        same_place = nodes.parent[child] == parent and (parent > 0 or nodes.space[child] == space)
        if same_place and unit_at(nodes, child, 0) == first:
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@njit(cache=True)
def add_node(
    nodes: Any, parent: Any, start: Any, count: Any, per_unit: Any, offset: Any, value: Any, space: Any, role: Any
) -> Any:
    """Append a node of `count` units and return its id. The caller updates the table."""
    node = nodes.n[0]
    nodes.n[0] = node + 1
    nodes.parent[node] = parent
    nodes.start[node] = start
    nodes.end[node] = start + count * per_unit
    nodes.per_unit[node] = per_unit
    nodes.offset[node] = offset
    nodes.value[node] = value
    nodes.space[node] = space
    nodes.role[node] = role
    return node


@njit(cache=True)
def split(nodes: Any, node: Any, position: Any) -> Any:
    """Cut `node` after `position` units; return the new upper part. `node` keeps its id and its end."""
    parent = nodes.parent[node]
    slot = slot_of(nodes, parent, nodes.space[node], unit_at(nodes, node, 0))
    # the upper part takes the start of the run and the place under the parent
    upper = add_node(
        nodes, parent, nodes.start[node], position, nodes.per_unit[node], nodes.offset[node], nodes.value[node],
        nodes.space[node], nodes.role[node],
    )  # fmt: skip
    nodes.table[slot] = upper + 1
    # the lower part, which requests point to, keeps the rest of the run
    nodes.parent[node] = upper
    nodes.start[node] = nodes.end[upper]
    if nodes.offset[node] >= 0:
        nodes.offset[node] += position
    else:
        nodes.value[node] += np.uint64(position)
    nodes.table[slot_of(nodes, upper, nodes.space[node], unit_at(nodes, node, 0))] = node + 1
    nodes.n[2] += 1
    return upper


@njit(cache=True)
def rehash(nodes: Any) -> None:
    """Fill an empty table from the nodes."""
    nodes.n[2] = 0
    for node in range(1, nodes.n[0]):
        slot = slot_of(nodes, nodes.parent[node], nodes.space[node], unit_at(nodes, node, 0))
        if nodes.table[slot] == 0:
            nodes.table[slot] = node + 1
            nodes.n[2] += 1


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """`array` with room for `size` values; unchanged if it has the room."""
    if array.size >= size:
        return array
    out = np.zeros(max(size, array.size + (array.size >> 1)), dtype=array.dtype)
    out[: array.size] = array
    return out
