"""What the first prompt of a session shares: with whose prompt, how many tokens, and how much later."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from traces.dataset.layout import Tree
from traces.tree.compiled import njit


def with_first_prompts(frame: pl.DataFrame, runs: pl.DataFrame, tree: Tree, block: int, anchored: bool) -> pl.DataFrame:
    """Adds to each session's first request the columns from which `Shared` of a synthetic workload is made.

    Args:
        frame: requests with s (session code), t (turn from 0), at (row), depth, family, arrival_s and prefix_id.
        runs: the reuse runs of the requests.
        tree: the prefix tree.
        block: block size of the runs.
        anchored: whether times across sessions are known.

    Returns:
        The frame with these columns:
        rank: of the session's start in its level.
        whose: whose prompt it shares most with: 0 nobody's, 1 its family's, 2 another session's.
        first_kept, first_from: tokens shared with that prompt, and how many of them other requests touched since.
        first_lag: how many sessions earlier that session started.
        first_age: seconds since the shared tokens were touched.
        first_over: 1 if that session had ended.
        first_met: earlier sessions of the level that start with the same shared tokens.
        first_own: the session's number in its level.
        first_of: the number of the first session that starts with the shared tokens; its own if it shares nothing.
    """
    return _with_first_met(_with_first_share(frame, runs, block, anchored), tree)


def _with_first_share(frame: pl.DataFrame, runs: pl.DataFrame, block: int, anchored: bool) -> pl.DataFrame:
    """Adds to each session's first request whose prompt it shares most with, and how many tokens (see `first_prompts`).

    Also: how many sessions earlier that session started, how long ago it was touched, whether it had ended, and how
    many of the shared tokens other requests have touched since.
    """
    first = frame.filter(pl.col("t") == 0).select("at")
    ends = runs.select(at=pl.col("request").cast(pl.Int64), end=(pl.col("start_block") + pl.col("blocks")) * block,
                       other=pl.col("last_request").cast(pl.Int64), begin=pl.col("start_block") * block,
                       ).join(first, on="at")  # fmt: skip
    best = ends.sort("end").group_by("at").agg(pl.col("end", "other", "begin").last())
    starts = frame.filter(pl.col("t") == 0).sort("arrival_s", "at", nulls_last=True)
    rank = starts.with_columns(rank=pl.int_range(pl.len()).over(pl.col("depth") > 0)).select("s", "rank")
    frame = (
        frame.drop("rank")
        .join(rank, on="s", how="left", maintain_order="left")
        .join(best, on="at", how="left", maintain_order="left")
    )
    other = frame["other"].fill_null(-1).to_numpy()
    at = np.maximum(other, 0)
    family, order, depth = (
        frame["family"].to_numpy(),
        frame["rank"].fill_null(0).to_numpy(),
        frame["depth"].to_numpy() > 0,
    )
    same = family == family[at]
    back = np.where((other >= 0) & (depth == depth[at]), order - order[at], 1)
    arrival = frame["arrival_s"].fill_null(np.nan).to_numpy()
    last = frame.select(pl.col("arrival_s").max().over("s")).to_series().fill_null(np.nan).to_numpy()
    known = anchored & (other >= 0)
    return frame.with_columns(
        first_age=pl.Series(np.where(known, np.maximum(0.0, np.nan_to_num(arrival - arrival[at])), 0.0)),
        first_over=pl.Series(np.where(known, (last[at] <= arrival).astype(np.float64), 0.0)),
        whose=pl.Series(np.where(other < 0, 0, np.where(same, 1, 2))),
        first_kept=pl.col("end").fill_null(0),
        first_from=pl.col("begin").fill_null(0),
        first_lag=pl.Series(np.maximum(1, back)),
    )


def _with_first_met(frame: pl.DataFrame, tree: Tree) -> pl.DataFrame:
    """Adds to each session's first request how many earlier ones of its level start with its shared tokens, and
    which."""
    starts = frame.filter((pl.col("t") == 0) & pl.col("prefix_id").is_not_null()).sort("rank")
    numbers = ("first_met", "first_own", "first_of")
    parts = [pl.DataFrame(schema={"at": pl.Int64} | dict.fromkeys(numbers, pl.Int64))]
    for (_,), part in starts.group_by(pl.col("depth") > 0):
        leaf, kept = part["prefix_id"].to_numpy().astype(np.int64), part["first_kept"].to_numpy().astype(np.int64)
        met, first = (pl.Series(a, dtype=pl.Int64) for a in _met(tree.parent, tree.start, leaf, kept))
        own = pl.int_range(pl.len(), dtype=pl.Int64)
        parts.append(part.select(pl.col("at").cast(pl.Int64), first_met=met, first_own=own, first_of=first))
    return frame.join(pl.concat(parts), on="at", how="left", maintain_order="left").with_columns(
        pl.col("first_met").fill_null(0), pl.col("first_own", "first_of").fill_null(-1)
    )


@njit(cache=True)
def _met(parent: Any, start: Any, leaf: Any, kept: Any) -> Any:
    """Per prompt: how many earlier prompts pass through the node of its last shared token, and the first one that
    does."""
    through, began = np.zeros(parent.size, np.int64), np.full(parent.size, -1)
    out, first = np.zeros(leaf.size, np.int64), np.arange(leaf.size)
    for i in range(leaf.size):
        node = leaf[i]
        while node > 0 and start[node] >= kept[i]:
            node = parent[node]
        if node > 0 and kept[i] > 0:
            out[i] = through[node]
            first[i] = began[node] if began[node] >= 0 else i
        node = leaf[i]
        while node > 0:
            through[node] += 1
            if began[node] < 0:
                began[node] = i
            node = parent[node]
    return out, first
