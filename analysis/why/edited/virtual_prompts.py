"""Prompts with generated ids, inserted into a new tree, in which their sharing is measured."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from traces.tree.insertion import LEAF_BASE, ROOT_BASE, Batch
from traces.tree.nodes import VIRTUAL

Rows = NDArray[np.int64]


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
