"""The prefix tree: every token run once, a prompt is a pointer to its leaf.

A *unit* is what sharing is exact to: one token of text, or one native block of a hash trace. A node holds a run of
units, either explicit (a slice of a pool of 64-bit ids) or virtual (unit i is `value + i`: a run known by one key and a
length). The children of a node differ in their first unit, so where two prompts part is where the tree forks. The tree
does not depend on the order in which prompts arrive (ids aside). Requests keep the node at whose end their prompt ends:
a split gives the upper part a new id, so those pointers stay true.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

VIRTUAL = -1  # in `offset`: the run is virtual

ROOT_BASE, LEAF_BASE, REPLY_BASE = 0, 1, 2


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


class Batch(NamedTuple):
    """Prompts to insert, as runs.

    Per request: row (where its results go), base_kind (ROOT_BASE | LEAF_BASE | REPLY_BASE), base_row, keep (leading
    tokens of the base, -1 all), space, first_run, reply_run (runs from there on are the reply), end_run.
    Per run: offset into `units` or `VIRTUAL`, value (first unit of a virtual run), count (units), per_unit (tokens
    each), role, full (1: a run of whole units that a later prompt may extend; 0: a partial last block, always a leaf of
    its own).
    """

    row: NDArray[np.int64]
    base_kind: NDArray[np.int8]
    base_row: NDArray[np.int64]
    keep: NDArray[np.int64]
    space: NDArray[np.int32]
    first_run: NDArray[np.int64]
    reply_run: NDArray[np.int64]
    end_run: NDArray[np.int64]
    run_offset: NDArray[np.int64]
    run_value: NDArray[np.uint64]
    run_count: NDArray[np.int64]
    run_per_unit: NDArray[np.int32]
    run_role: NDArray[np.int8]
    run_full: NDArray[np.int8]
    units: NDArray[np.uint64]


@njit(cache=True)
def _mix(a: Any, b: Any) -> Any:
    x = (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F))
    x ^= x >> np.uint64(29)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(32)
    return x


@njit(cache=True)
def _unit(nodes: Any, node: Any, position: Any) -> Any:
    offset = nodes.offset[node]
    if offset >= 0:
        return nodes.pool[offset + position]
    return nodes.value[node] + np.uint64(position)


@njit(cache=True)
def _slot(nodes: Any, parent: Any, space: Any, first: Any) -> Any:
    """The table slot of the child of `parent` that starts with `first`, or the empty slot where it would be."""
    mask = np.uint64(nodes.table.size - 1)
    key = np.int64(parent) if parent > 0 else np.int64(-1 - space)
    at = _mix(key, first) & mask
    while True:
        entry = nodes.table[np.int64(at)]
        if entry == 0:
            return np.int64(at)
        child = entry - 1
        if (
            nodes.parent[child] == parent
            and (parent > 0 or nodes.space[child] == space)
            and _unit(nodes, child, 0) == first
        ):
            return np.int64(at)
        at = (at + np.uint64(1)) & mask


@njit(cache=True)
def _new(
    nodes: Any, parent: Any, start: Any, count: Any, per_unit: Any, offset: Any, value: Any, space: Any, role: Any
) -> Any:
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
def _split(nodes: Any, node: Any, position: Any) -> Any:
    """Cut `node` after `position` units; return the new upper part. `node` keeps its id and its end."""
    parent = nodes.parent[node]
    first = _unit(nodes, node, 0)
    slot = _slot(nodes, parent, nodes.space[node], first)
    upper = _new(
        nodes, parent, nodes.start[node], position, nodes.per_unit[node], nodes.offset[node], nodes.value[node],
        nodes.space[node], nodes.role[node],
    )  # fmt: skip
    nodes.table[slot] = upper + 1
    nodes.parent[node] = upper
    nodes.start[node] = nodes.end[upper]
    if nodes.offset[node] >= 0:
        nodes.offset[node] += position
    else:
        nodes.value[node] += np.uint64(position)
    nodes.table[_slot(nodes, upper, nodes.space[node], _unit(nodes, node, 0))] = node + 1
    nodes.n[2] += 1
    return upper


@njit(cache=True)
def _run(
    nodes: Any,
    node: Any,
    at: Any,
    space: Any,
    units: Any,
    offset: Any,
    value: Any,
    count: Any,
    per_unit: Any,
    role: Any,
) -> Any:
    """Walk or add `count` units from (`node`, `at` units into it); return where they end."""
    done = 0
    while done < count:
        length = (nodes.end[node] - nodes.start[node]) // nodes.per_unit[node] if node > 0 else 0
        if at < length:
            todo = min(length - at, count - done)
            same = 0
            own = nodes.offset[node]
            if per_unit != nodes.per_unit[node]:
                todo = 0
            if own >= 0 and offset >= 0:
                while same < todo and nodes.pool[own + at + same] == units[offset + done + same]:
                    same += 1
            elif own < 0 and offset < 0:
                if todo > 0 and nodes.value[node] + np.uint64(at) == value + np.uint64(done):
                    same = todo
            else:
                while same < todo:
                    mine = units[offset + done + same] if offset >= 0 else value + np.uint64(done + same)
                    if _unit(nodes, node, at + same) != mine:
                        break
                    same += 1
            at += same
            done += same
            if done == count:
                break
            if at < length:
                node = _split(nodes, node, at)
            continue
        first = units[offset + done] if offset >= 0 else value + np.uint64(done)
        slot = _slot(nodes, node, space, first)
        entry = nodes.table[slot]
        if entry > 0 and nodes.per_unit[entry - 1] == per_unit:
            node = entry - 1
            at = 0
            continue
        left = count - done
        if offset >= 0:
            used = nodes.n[1]
            nodes.pool[used : used + left] = units[offset + done : offset + count]
            nodes.n[1] = used + left
            child = _new(nodes, node, nodes.end[node], left, per_unit, used, np.uint64(0), space, role)
        else:
            child = _new(nodes, node, nodes.end[node], left, per_unit, VIRTUAL, value + np.uint64(done), space, role)
        if entry == 0:
            nodes.table[slot] = child + 1
            nodes.n[2] += 1
        node = child
        at = left
        done = count
    return node, at


@njit(cache=True)
def _close(nodes: Any, node: Any, at: Any) -> Any:
    """Make (`node`, `at`) the end of a node and return that node."""
    if node == 0:
        return node
    length = (nodes.end[node] - nodes.start[node]) // nodes.per_unit[node]
    if at < length:
        return _split(nodes, node, at)
    return node


@njit(cache=True)
def _keep(nodes: Any, node: Any, keep: Any) -> Any:
    """The place `keep` tokens down the path that ends at `node`."""
    while node > 0 and nodes.start[node] >= keep:
        node = nodes.parent[node]
    if node == 0:
        return node, 0
    units = min(nodes.end[node] - nodes.start[node], keep - nodes.start[node]) // nodes.per_unit[node]
    if units == 0:
        node = nodes.parent[node]
        units = (nodes.end[node] - nodes.start[node]) // nodes.per_unit[node] if node > 0 else 0
    return node, units


@njit(cache=True)
def _insert(nodes: Any, batch: Any, leaf: Any, full: Any, reply: Any) -> None:
    for i in range(batch.base_kind.size):
        kind = batch.base_kind[i]
        space = batch.space[i]
        node = 0
        at = 0
        if kind != ROOT_BASE:
            base = batch.base_row[i]
            node = max(full[base], 0)
            if kind == REPLY_BASE and reply[base] >= 0:
                node = reply[base]
            if node > 0:
                if batch.keep[i] >= 0 and batch.keep[i] < nodes.end[node]:
                    node, at = _keep(nodes, node, batch.keep[i])
                else:
                    at = (nodes.end[node] - nodes.start[node]) // nodes.per_unit[node]
        row = batch.row[i]
        full_node = -1
        for r in range(batch.first_run[i], batch.reply_run[i]):
            if batch.run_full[r] == 0 and full_node < 0:
                node = _close(nodes, node, at)
                at = (nodes.end[node] - nodes.start[node]) // nodes.per_unit[node] if node > 0 else 0
                full_node = node
            if batch.run_count[r] > 0:
                node, at = _run(
                    nodes, node, at, space, batch.units, batch.run_offset[r], batch.run_value[r], batch.run_count[r],
                    batch.run_per_unit[r], batch.run_role[r],
                )  # fmt: skip
        node = _close(nodes, node, at)
        leaf[row] = node
        full[row] = full_node if full_node >= 0 else node
        reply[row] = -1
        if batch.reply_run[i] < batch.end_run[i]:
            at = (nodes.end[node] - nodes.start[node]) // nodes.per_unit[node] if node > 0 else 0
            for r in range(batch.reply_run[i], batch.end_run[i]):
                if batch.run_count[r] > 0:
                    node, at = _run(
                        nodes, node, at, space, batch.units, batch.run_offset[r], batch.run_value[r],
                        batch.run_count[r], batch.run_per_unit[r], batch.run_role[r],
                    )  # fmt: skip
            reply[row] = _close(nodes, node, at)


@njit(cache=True)
def _rehash(nodes: Any) -> None:
    nodes.n[2] = 0
    for node in range(1, nodes.n[0]):
        slot = _slot(nodes, nodes.parent[node], nodes.space[node], _unit(nodes, node, 0))
        if nodes.table[slot] == 0:
            nodes.table[slot] = node + 1
            nodes.n[2] += 1


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    if array.size >= size:
        return array
    out = np.zeros(max(size, array.size + (array.size >> 1)), dtype=array.dtype)
    out[: array.size] = array
    return out


class PrefixTree:
    """The tree while it is built. `leaf`, `full` and `reply` are int64 arrays by request row, owned by the caller."""

    def __init__(self) -> None:
        zeros = np.zeros
        self.nodes = Nodes(
            zeros(1024, np.int64), zeros(1024, np.int64), zeros(1024, np.int64), zeros(1024, np.int32),
            zeros(1024, np.int64), zeros(1024, np.uint64), zeros(1024, np.int32), zeros(1024, np.int8),
            zeros(4096, np.uint64), zeros(4096, np.int64), np.array([1, 0, 0], np.int64),
        )  # fmt: skip
        self.nodes.parent[0] = -1
        self.nodes.per_unit[0] = 1
        self.nodes.offset[0] = VIRTUAL

    @property
    def size(self) -> int:
        """How many nodes there are, the root included."""
        return int(self.nodes.n[0])

    def reserve(self, new_nodes: int, new_units: int) -> None:
        """Make room for so many more nodes and pool units."""
        nodes, count = self.nodes, self.size + new_nodes + 1
        arrays = {name: _grown(getattr(nodes, name), count) for name in Nodes._fields[:8]}
        pool = _grown(nodes.pool, int(nodes.n[1]) + new_units)
        self.nodes = nodes._replace(**arrays, pool=pool)
        if count * 2 > nodes.table.size:
            size = 1 << (count * 2).bit_length()
            self.nodes = self.nodes._replace(table=np.zeros(size, np.int64))
            _rehash(self.nodes)

    def insert(self, batch: Batch, leaf: NDArray[np.int64], full: NDArray[np.int64], reply: NDArray[np.int64]) -> None:
        """Insert the prompts of `batch` in order; writes leaf, full and reply of their rows."""
        runs = batch.run_count.size
        self.reserve(2 * runs + 3 * batch.base_kind.size, batch.units.size)
        _insert(self.nodes, batch, leaf, full, reply)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays in use, by name (without pool and table)."""
        return {name: getattr(self.nodes, name)[: self.size] for name in Nodes._fields[:8]}

    def pool(self) -> NDArray[np.uint64]:
        """The explicit unit ids in use."""
        return self.nodes.pool[: int(self.nodes.n[1])]

    @classmethod
    def restore(cls, columns: dict[str, NDArray[Any]], pool: NDArray[np.uint64]) -> PrefixTree:
        """The tree that `columns` and `pool` came from."""
        tree = cls()
        count = columns["parent"].size
        types = {name: getattr(tree.nodes, name).dtype for name in Nodes._fields[:8]}
        arrays = {name: np.ascontiguousarray(columns[name], dtype=types[name]) for name in Nodes._fields[:8]}
        table = np.zeros(1 << (count * 2 + 64).bit_length(), np.int64)
        used = np.array([count, pool.size, 0], np.int64)
        tree.nodes = Nodes(**arrays, pool=np.array(pool, np.uint64), table=table, n=used)
        _rehash(tree.nodes)
        return tree
