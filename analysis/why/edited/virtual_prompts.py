"""Prompts with generated ids, inserted into a new tree, in which their sharing is measured."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.tree.insertion import LEAF_BASE, ROOT_BASE, Batch
from traces.tree.nodes import VIRTUAL
from traces.tree.prefixes import PrefixTree

Rows = NDArray[np.int64]

NODE_BITS = np.uint64(32)
"""A unit's id in the new tree, made of its old node and its place in that node."""

ADDED = np.uint64(1 << 63)
"""The bit of ids of text that the old tree does not have."""


class EditedTree(NamedTuple):
    """A tree as arrays with two leaves per request row, the prompt's and that of its longer form (the same where there
    is none). -1: the prompt is unknown."""

    parent: Rows
    start: Rows
    end: Rows
    leaf: Rows
    moved: Rows


def planned_tree(plan: Any, given: tuple[Any, ...], requests: int) -> EditedTree:
    """Insert the prompts that a compiled plan writes into a new tree.

    Args:
        plan: takes `given`, whether to write, and the arrays of `virtual_batch` to write to; returns the numbers of
            prompts and runs. It is called twice, first only to count.
        given: what the plan reads.
        requests: number of request rows.
    """
    none = np.empty(0, np.int64)
    rows, runs = plan(*given, False, *[none] * 6, none.astype(np.uint64), none)
    row, base, keep, first, reply, stop = (np.empty(rows, np.int64) for _ in range(6))
    value, size = np.empty(runs, np.uint64), np.empty(runs, np.int64)
    plan(*given, True, row, base, keep, first, reply, stop, value, size)
    made = PrefixTree()
    leaf, full, moved = (np.full(requests, -1, np.int64) for _ in range(3))
    made.insert(virtual_batch(row, base, keep, first, reply, stop, value, size), leaf, full, moved)
    columns = made.columns()
    return EditedTree(columns["parent"], columns["start"], columns["end"], leaf, np.where(moved >= 0, moved, leaf))


def virtual_batch(
    row: Rows, base: Rows, keep: Rows, first: Rows, reply: Rows, stop: Rows, value: NDArray[np.uint64], size: Rows
) -> Batch:
    """The batch that `PrefixTree.insert` takes, made of runs with virtual ids.

    Args:
        row: int64[p], the request of each prompt.
        base: int64[p], the request whose prompt it continues; -1: it starts at the root.
        keep: int64[p], leading tokens of that prompt that it keeps.
        first, reply, stop: int64[p], its runs: the first, the one at which its second leaf is, and one past the last.
        value: uint64[u], the ids of each run.
        size: int64[u], its tokens.
    """
    rows, runs = len(row), len(value)
    return Batch(
        row=row,
        base_kind=np.where(base < 0, ROOT_BASE, LEAF_BASE).astype(np.int8),
        base_row=np.maximum(base, 0),
        keep=keep,
        space=np.zeros(rows, np.int32),
        first_run=first,
        reply_run=reply,
        end_run=stop,
        run_offset=np.full(runs, VIRTUAL, np.int64),
        run_value=value,
        run_count=size,
        run_per_unit=np.ones(runs, np.int32),
        run_role=np.zeros(runs, np.int8),
        run_full=np.ones(runs, np.int8),
        units=np.zeros(0, np.uint64),
    )
