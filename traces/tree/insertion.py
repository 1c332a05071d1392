"""Inserts prompts into the prefix tree in batches: the compiled walk, and the digest of each prompt's content.

The digest folds over the content of a prompt in order, so it does not depend on the batch, the namespace or the earlier
prompts of the dataset. It leaves out runs of unknown content (`unobserved`) and a partial last block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.records import ROLES
from traces.tree.compiled import njit
from traces.tree.nodes import VIRTUAL, add_node, mix, slot_of, split, unit_at, units_in

ROOT_BASE, LEAF_BASE, REPLY_BASE = 0, 1, 2
TOO_LONG = -2
"""In place of the node of a prompt that is longer than allowed, and of each one that extends it."""
_UNOBSERVED = ROLES.index("unobserved")


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


class Content(NamedTuple):
    """uint64 per request row: digests of the prompt's content (`prompt`) and of prompt and reply (`call`); 0: none."""

    prompt: NDArray[np.uint64]
    call: NDArray[np.uint64]

    @classmethod
    def of(cls, rows: int) -> Content:
        """Room for `rows` requests."""
        return cls(np.zeros(rows, np.uint64), np.zeros(rows, np.uint64))

    def grown(self, rows: int) -> Content:
        """The same with room for `rows` requests."""
        return Content(*(np.pad(array, (0, rows - array.size)) for array in self))


@njit(cache=True)
def _add_run(
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
    """Walk along `count` units from (`node`, `at` units into it), adding missing ones. Returns where they end."""
    done = 0
    while done < count:
        length = units_in(nodes, node)
        if at < length:
            # inside a node: advance as far as the units are equal
            same = _agreeing(nodes, node, at, units, offset, value, done, min(length - at, count - done), per_unit)
            at += same
            done += same
            if done == count:
                break
            # the prompt differs from the node here: split it
            if at < length:
                node = split(nodes, node, at)
            continue
        # at the end of a node: continue in the child that starts with the next unit
        first = units[offset + done] if offset >= 0 else value + np.uint64(done)
        slot = slot_of(nodes, node, space, first)
        entry = nodes.table[slot]
        if entry > 0 and nodes.per_unit[entry - 1] == per_unit:
            node = entry - 1
            at = 0
            continue
        # no such child: the rest of the run becomes one
        left = count - done
        if offset >= 0:
            used = nodes.n[1]
            nodes.pool[used : used + left] = units[offset + done : offset + count]
            nodes.n[1] = used + left
            child = add_node(nodes, node, nodes.end[node], left, per_unit, used, np.uint64(0), space, role)
        else:
            start = value + np.uint64(done)
            child = add_node(nodes, node, nodes.end[node], left, per_unit, VIRTUAL, start, space, role)
        if entry == 0:
            nodes.table[slot] = child + 1
            nodes.n[2] += 1
        node = child
        at = left
        done = count
    return node, at


@njit(cache=True)
def _agreeing(
    nodes: Any, node: Any, at: Any, units: Any, offset: Any, value: Any, done: Any, most: Any, per_unit: Any
) -> Any:
    """How many of `most` units of the run, from `done`, equal the node's units from `at`."""
    if per_unit != nodes.per_unit[node]:
        return 0
    own = nodes.offset[node]
    same = 0
    if own >= 0 and offset >= 0:
        while same < most and nodes.pool[own + at + same] == units[offset + done + same]:
            same += 1
    elif own < 0 and offset < 0:
        # two virtual runs are equal from here on, or differ in every unit
        if nodes.value[node] + np.uint64(at) == value + np.uint64(done):
            same = most
    else:
        while same < most:
            unit = units[offset + done + same] if offset >= 0 else value + np.uint64(done + same)
            if unit_at(nodes, node, at + same) != unit:
                break
            same += 1
    return same


@njit(cache=True)
def _close(nodes: Any, node: Any, at: Any) -> Any:
    """Make (`node`, `at`) the end of a node and return that node."""
    if node > 0 and at < units_in(nodes, node):
        return split(nodes, node, at)
    return node


@njit(cache=True)
def _rewound(nodes: Any, node: Any, keep: Any) -> Any:
    """The place `keep` tokens from the root on the path that ends at `node`."""
    # up to the node that holds the last kept token
    while node > 0 and nodes.start[node] >= keep:
        node = nodes.parent[node]
    if node == 0:
        return node, np.int64(0)
    units = min(nodes.end[node] - nodes.start[node], keep - nodes.start[node]) // nodes.per_unit[node]
    if units == 0:
        # less than one unit of it is kept, so the place is the end of its parent
        node = nodes.parent[node]
        units = units_in(nodes, node)
    return node, units


@njit(cache=True)
def _fold(digest: Any, batch: Any, run: Any) -> Any:
    """The digest of a prompt after one more run: from its units, or from a virtual run's key."""
    if batch.run_full[run] == 0 or batch.run_role[run] == _UNOBSERVED or batch.run_count[run] == 0:
        return digest
    offset = batch.run_offset[run]
    if offset < 0:
        return mix(digest, batch.run_value[run])
    for at in range(offset, offset + batch.run_count[run]):
        digest = mix(digest, batch.units[at])
    return digest


@njit(cache=True)
def _add_runs(nodes: Any, batch: Any, i: Any, first: Any, stop: Any, node: Any, at: Any, digest: Any) -> Any:
    """Add the runs `first` to `stop` of request `i`; return where they end, the last extensible node and the digest."""
    full_node = np.int64(-1)
    for run in range(first, stop):
        if batch.run_full[run] == 0 and full_node < 0:
            # a partial block begins: later prompts extend what comes before it
            node = _close(nodes, node, at)
            at = units_in(nodes, node)
            full_node = node
        if batch.run_count[run] > 0:
            node, at = _add_run(
                nodes, node, at, batch.space[i], batch.units, batch.run_offset[run], batch.run_value[run],
                batch.run_count[run], batch.run_per_unit[run], batch.run_role[run],
            )  # fmt: skip
            digest = _fold(digest, batch, run)
    node = _close(nodes, node, at)
    return node, full_node if full_node >= 0 else node, digest


@njit(cache=True)
def _fits(nodes: Any, batch: Any, first: Any, stop: Any, node: Any, at: Any, most: Any) -> Any:
    """Whether the path to (`node`, `at`) with the runs `first` to `stop` has at most `most` tokens."""
    tokens = nodes.start[node] + at * nodes.per_unit[node]
    for run in range(first, stop):
        if batch.run_count[run] > (most - tokens) // batch.run_per_unit[run]:
            return False
        tokens += batch.run_count[run] * batch.run_per_unit[run]
    return True


@njit(cache=True)
def insert_batch(nodes: Any, batch: Any, leaf: Any, full: Any, reply: Any, prompt: Any, call: Any, most: Any) -> None:
    """Insert the prompts of `batch` of at most `most` tokens in order.

    Writes per row: the node where the prompt ends (`leaf`, -1 too long), where its whole blocks end (`full`, or
    `TOO_LONG`), where its reply ends (`reply`, -1 for none or one of more than `most` tokens), and the digests of
    `Content`.
    """
    for i in range(batch.base_kind.size):
        row = batch.row[i]
        node, at, digest = np.int64(0), np.int64(0), np.uint64(0)
        if batch.base_kind[i] != ROOT_BASE:
            # start where the earlier prompt, or its reply, ends
            base = batch.base_row[i]
            if full[base] == TOO_LONG:
                leaf[row], full[row], reply[row] = -1, TOO_LONG, -1
                continue
            node, digest = max(full[base], np.int64(0)), prompt[base]
            if batch.base_kind[i] == REPLY_BASE and reply[base] >= 0:
                node, digest = reply[base], call[base]
            at = units_in(nodes, node)
            if node > 0 and 0 <= batch.keep[i] < nodes.end[node]:
                # only its first `keep` tokens are sent again
                node, at = _rewound(nodes, node, batch.keep[i])
                digest = mix(digest, batch.keep[i])
        if not _fits(nodes, batch, batch.first_run[i], batch.reply_run[i], node, at, most):
            leaf[row], full[row], reply[row] = -1, TOO_LONG, -1
            continue
        node, full[row], prompt[row] = _add_runs(
            nodes, batch, i, batch.first_run[i], batch.reply_run[i], node, at, digest
        )
        leaf[row], reply[row], call[row] = node, -1, prompt[row]
        if batch.reply_run[i] < batch.end_run[i]:
            at = units_in(nodes, node)
            if not _fits(nodes, batch, batch.reply_run[i], batch.end_run[i], node, at, nodes.end[node] + most):
                continue
            reply[row], _, call[row] = _add_runs(
                nodes, batch, i, batch.reply_run[i], batch.end_run[i], node, at, prompt[row]
            )
