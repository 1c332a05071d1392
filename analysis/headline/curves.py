"""Hit rate over capacity, TTL and tiers, exact at every point, by any axis.

The cache of the dataset holds the whole-trace curve as a table with prefix sums (analysis.kernel.sorted_runs), so a
single capacity is a look-up in one row group. Groups and filters are summed from the reuse runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.sorted_runs import (
    capacity_curve,
    capacity_grid,
    hit_blocks_at,
    hit_blocks_within,
    hits_cross,
    look_up,
    needed_blocks,
    ttl_curve,
)
from analysis.store import arrivals as arrival_models
from analysis.store.question import BadQuestion, Question, engine_of
from analysis.store.warehouse import Warehouse

DEFAULT_TTLS_S = (60.0, 300.0, 3600.0)
TIER_MODES = {
    "exclusive": "a block is in one tier: what leaves a tier moves to the next, so two tiers reach as far as C1 + C2. "
    "An upper bound for engines that keep copies",
    "inclusive": "a tier also holds what the tiers above it hold, as SGLang's HiCache does by default (write-through), "
    "so tiers reach as far as the largest of them",
}
"""What the tiers of a cache hold of each other."""
MOST_BLOCKS = 1 << 60
"""Capacities are cut to this, which no trace can tell from unbounded."""

_SCHEMA = {
    "group": pl.String,
    "capacity_blocks": pl.Int64,
    "capacity_tokens": pl.Int64,
    "capacity_bytes": pl.Int64,
    "ttl_s": pl.Float64,
    "tier": pl.Int64,
    "hit_tokens": pl.Int64,
    "prefix_tokens": pl.Int64,
    "hit_rate": pl.Float64,
    "unschedulable_requests": pl.Int64,
}


class Selected(NamedTuple):
    """The reuse runs of the selected requests with their group codes, and the totals of each group."""

    groups: list[str]
    run_group: NDArray[np.int64]
    blocks: NDArray[np.int64]
    distance: NDArray[np.int64]
    gap_s: NDArray[np.float64]
    prefix_tokens: NDArray[np.int64]
    request_group: NDArray[np.int64]
    request_blocks: NDArray[np.int64]  # blocks of each prompt, including a partial last one


def select(warehouse: Warehouse, question: Question, axis: str = "all") -> Selected:
    """The reuse runs of the requests that the question selects, grouped by an axis."""
    prepared = warehouse.prepare(question)
    rows = warehouse.grouped(question, axis)
    names = rows["group"].unique().sort().to_list()
    order = warehouse.query("by_axis", question, axis=axis)["group"].to_list() if axis != "all" else names
    codes = {name: i for i, name in enumerate(order)}
    code = (
        rows["group"].replace_strict(codes, return_dtype=pl.Int64).to_numpy() if rows.height else np.zeros(0, np.int64)
    )
    of_row = np.full(prepared.requests, -1, np.int64)
    of_row[rows["row"].to_numpy()] = code
    runs = prepared.read_runs(columns=["request", "blocks", "distance_blocks", "gap_s"])
    group = of_row[runs["request"].to_numpy()]
    keep = group >= 0
    prefix = rows["prefix_tokens"].to_numpy()
    totals = np.bincount(code, weights=prefix, minlength=len(order)) if code.size else np.zeros(len(order))
    return Selected(
        groups=order,
        run_group=group[keep],
        blocks=runs["blocks"].to_numpy()[keep],
        distance=runs["distance_blocks"].to_numpy()[keep],
        gap_s=runs["gap_s"].fill_null(np.nan).to_numpy()[keep],
        prefix_tokens=np.round(totals).astype(np.int64),
        request_group=code,
        request_blocks=-(-prefix // prepared.block_size),
    )


def curve(
    warehouse: Warehouse,
    question: Question,
    axis: str = "all",
    capacity_blocks: list[int] | None = None,
    ttl_s: list[float] | None = None,
    tiers_blocks: list[int] | None = None,
    cross: bool = False,
    tier_mode: str = "exclusive",
) -> pl.DataFrame:
    """Hit tokens and rates: one row per group and point.

    Without capacities, TTLs or tiers, the points are a log-spaced grid of capacities up to where the curve is flat.
    Capacities and TTLs give separate rows unless `cross` combines them. `tier_mode`: one of `TIER_MODES`; a tier's hits
    are those that no tier above it has.

    Raises:
        NeedsArrivals, BadQuestion: the answer depends on times that the dataset does not have.
    """
    if tier_mode not in TIER_MODES:
        raise BadQuestion(f"unknown tier mode {tier_mode!r}. Modes: {', '.join(TIER_MODES)}", "tier_mode", TIER_MODES)
    prepared = warehouse.prepare(question)
    warehouse.need_times(prepared, "a cache of finite capacity, or one with a TTL,", seconds=bool(ttl_s))
    if engine_of(question.definition):
        from analysis.peers.engine_curve import engine_points

        if ttl_s or tiers_blocks or cross:
            raise BadQuestion(
                f"{question.definition} has capacities only: no TTL, no tiers, nothing crossed",
                "definition",
                ["tracetower"],
            )
        found = engine_points(warehouse, question, axis, capacity_blocks)
        empty = {name: pl.lit(None, dtype) for name, dtype in _SCHEMA.items() if name not in found.columns}
        found = found.with_columns(**empty)
        return found.select(*_SCHEMA, *(c for c in found.columns if c not in _SCHEMA))
    if question.definition != "tracetower":
        from analysis.peers.peer_definitions import peer_curve

        if ttl_s or tiers_blocks or axis != "all":
            raise BadQuestion(
                f"{question.definition} has capacities only: no TTL, no tiers, no axis", "definition", ["tracetower"]
            )
        return pl.DataFrame(peer_curve(warehouse, question, capacity_blocks), schema=_SCHEMA)
    chosen = select(warehouse, question, axis)
    block = prepared.block_size
    rows: list[dict[str, Any]] = []
    if cross and capacity_blocks and ttl_s:
        hits = hits_cross(
            chosen.distance, chosen.blocks, chosen.gap_s, np.array(capacity_blocks), np.array(ttl_s), chosen.run_group,
            max(1, len(chosen.groups)),
        )  # fmt: skip
        for g, group in enumerate(chosen.groups):
            for c, capacity in enumerate(capacity_blocks):
                for t, ttl in enumerate(ttl_s):
                    rows.append(_row(chosen, g, group, block, int(hits[g, c, t]), capacity=capacity, ttl=ttl))
        return pl.DataFrame(rows, schema=_SCHEMA)
    if capacity_blocks is not None or not (ttl_s or tiers_blocks):
        bends = capacity_curve(chosen.distance, chosen.blocks, chosen.run_group, max(1, len(chosen.groups)))
        points = capacity_blocks or capacity_grid(needed_blocks(bends)).tolist()
        hits = hit_blocks_at(bends, np.array(points))
        rows += [
            _row(chosen, g, group, block, int(hits[g, c]), capacity=int(capacity))
            for g, group in enumerate(chosen.groups)
            for c, capacity in enumerate(points)
        ]
    if ttl_s:
        gaps = ttl_curve(chosen.gap_s, chosen.blocks, chosen.run_group, max(1, len(chosen.groups)))
        hits = hit_blocks_within(gaps, np.array(ttl_s))
        rows += [
            _row(chosen, g, group, block, int(hits[g, t]), ttl=ttl)
            for g, group in enumerate(chosen.groups)
            for t, ttl in enumerate(ttl_s)
        ]
    if tiers_blocks:
        bends = capacity_curve(chosen.distance, chosen.blocks, chosen.run_group, max(1, len(chosen.groups)))
        together = np.cumsum if tier_mode == "exclusive" else np.maximum.accumulate
        upto = together(np.array(tiers_blocks, np.int64))
        hits = np.diff(hit_blocks_at(bends, upto), axis=1, prepend=0)
        rows += [
            _row(chosen, g, group, block, int(hits[g, t]), capacity=int(size), tier=t + 1)
            for g, group in enumerate(chosen.groups)
            for t, size in enumerate(tiers_blocks)
        ]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _row(
    chosen: Selected, g: int, group: str, block: int, hits: int, capacity: int | None = None, ttl: float | None = None,
    tier: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    prefix = int(chosen.prefix_tokens[g])
    too_large = None
    if capacity is not None and tier is None:
        too_large = int(((chosen.request_group == g) & (chosen.request_blocks > capacity)).sum())
    return {
        "group": group,
        "capacity_blocks": capacity,
        "capacity_tokens": None if capacity is None else capacity * block,
        "capacity_bytes": None,
        "ttl_s": ttl,
        "tier": tier,
        "hit_tokens": hits * block,
        "prefix_tokens": prefix,
        "hit_rate": hits * block / prefix if prefix else None,
        "unschedulable_requests": too_large,
    }


def with_bytes(frame: pl.DataFrame, bytes_per_token: float) -> pl.DataFrame:
    """Fill capacity_bytes for a model's KV bytes per token."""
    return frame.with_columns(capacity_bytes=(pl.col("capacity_tokens") * bytes_per_token).round().cast(pl.Int64))


def hit_tokens_at(warehouse: Warehouse, question: Question, capacity_blocks: int) -> tuple[int, int]:
    """(hit tokens, prefix tokens) of the whole trace at one capacity, looked up in the cached curve.

    Raises:
        NeedsArrivals: times are relative and no arrival model is named.
        BadQuestion: the question has filters (use `curve`).
    """
    if question.where or question.window != "all" or question.definition != "tracetower":
        row = curve(warehouse, question, capacity_blocks=[capacity_blocks]).row(0, named=True)
        return int(row["hit_tokens"]), int(row["prefix_tokens"])
    prepared = warehouse.prepare(question)
    warehouse.need_times(prepared, "a cache of finite capacity")
    caches, key = warehouse.dataset.caches, (prepared.block_size, arrival_models.parse(question.arrivals))
    path = caches.find("capacity_curve", key)
    if path is None:
        chosen = select(warehouse, question)
        bends = capacity_curve(chosen.distance, chosen.blocks)
        frame = pl.DataFrame({"position": bends.position, "slope": bends.slope, "moment": bends.moment})
        about = {"prefix_tokens": int(chosen.prefix_tokens.sum())}
        path = caches.keep("capacity_curve", key, frame, about)
    hits = _look_up(path, min(capacity_blocks, MOST_BLOCKS)) * prepared.block_size
    return hits, int(caches.about(path)["prefix_tokens"])


def _look_up(path: Path, capacity_blocks: int) -> int:
    """Hit blocks at one capacity, read from the row group of a cached curve that holds the last bend below it."""
    import pyarrow.parquet as pq

    with path.open("rb") as opened:
        file = pq.ParquetFile(opened)
        low, high = 0, file.metadata.num_row_groups if file.metadata.num_rows else 0
        while low < high:  # binary search: how many row groups start below the capacity
            middle = (low + high) // 2
            if file.metadata.row_group(middle).column(0).statistics.min < capacity_blocks:
                low = middle + 1
            else:
                high = middle
        if not low:
            return 0
        rows = file.read_row_group(low - 1)
    position, slope, moment = (rows[name].to_numpy() for name in ("position", "slope", "moment"))
    return int(look_up(position, slope, moment, np.array([capacity_blocks]))[0])
