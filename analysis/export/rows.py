"""The requests of an export, in the form that writers read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.export.block_ids import BlockIds
from analysis.kernel.heavy_paths import HeavyPaths
from analysis.kernel.reuse import deepest_in_session, reuse
from traces.dataset.layout import Tree


class Row(NamedTuple):
    """One exported request. Codes are dense and have no meaning outside the export; None is unknown."""

    number: int  # place in arrival order, from 0
    row: int  # of the dataset's facts
    family: int
    session: int | None
    parent: int | None  # session that spawned this one
    spawned_by: int | None  # number of the request that spawned the session
    turn: int  # in the exported session, from 0
    previous: int | None  # number of the session's previous request
    arrival_s: float | None
    duration_s: float | None
    ttft_s: float | None
    model: str | None
    tokens: int  # prompt tokens
    output: int | None
    cached: int | None
    leaf: int  # tree node; -1 where the prompt is unknown
    shared: int  # tokens of the prompt shared with the previous request's
    trigger: str
    calls_tools: bool
    stop: str | None
    head: int | None  # tokens of tools + system if the source gives them


_KNOWN = {
    "arrival_s": pl.col("arrival_s").is_not_null(),
    "output": pl.col("output").is_not_null(),
    "prompt": pl.col("leaf") >= 0,
}
_WORDS = {"arrival_s": "time", "output": "output", "prompt": "prompt"}


class ExportSelection(NamedTuple):
    """The input of a writer.

    Attributes:
        frame: the fields of `Row`, one row per request, in arrival order.
        ids: block ids at `block`.
        block: tokens per block.
        tree: the prefix tree.
        paths: its heavy paths.
        anchored: whether times can be compared across sessions.
        notes: sentences about what the selection changed and what is unknown.
        salt: differs between datasets, the same for every export of one.
    """

    frame: pl.DataFrame
    ids: BlockIds
    block: int
    tree: Tree
    paths: HeavyPaths
    anchored: bool
    notes: list[str]
    salt: int

    def rows(self, *needed: str) -> Iterator[Row]:
        """The requests in arrival order; with `needed`, only those whose arrival_s, output or prompt is known."""
        return map(Row._make, self.frame.filter(*(_KNOWN[name] for name in needed)).iter_rows())

    def left_out(self, *needed: str) -> list[str]:
        """What `rows` leaves out, as a sentence; empty if it leaves out nothing."""
        count = self.frame.height - self.frame.filter(*(_KNOWN[name] for name in needed)).height
        words = [_WORDS[name] for name in needed]
        either = f"{', '.join(words[:-1])} or {words[-1]}"
        return [f"{count:,} requests have no known {either} and are left out"] if count else []

    def block_ids(self, row: Row) -> NDArray[np.int64] | None:
        """Block ids of a request's prompt, including a partial last block; None if the prompt is unknown."""
        return self.ids.of(row.leaf) if row.leaf >= 0 else None

    def hit_tokens(self, by: str | None = None) -> int:
        """Hit tokens of one unbounded cache, or of one per group of the column `by`."""
        leaf = self.frame["leaf"].to_numpy()
        order, tree = np.arange(leaf.size), self.tree
        if by is not None:
            group = self.frame[by].fill_null(-1).to_numpy()
            blocks, _ = deepest_in_session(self.paths, tree.end, leaf, order, group, self.block)
            return int(np.maximum(blocks, 0).sum()) * self.block
        time = order.astype(np.float64)
        runs = reuse(tree.parent, tree.start, tree.end, leaf, order, time, self.block, None, self.paths)
        return int(runs.hit_blocks.sum()) * self.block

    def families(self) -> Iterator[list[Row]]:
        """The requests family by family, in the order in which families start."""
        rows: list[Row] = []
        order = self.frame.sort(pl.col("number").min().over("family"), "number", maintain_order=True)
        for row in map(Row._make, order.iter_rows()):
            if rows and rows[0].family != row.family:
                yield rows
                rows = []
            rows.append(row)
        if rows:
            yield rows
