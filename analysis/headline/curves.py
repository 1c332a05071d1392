"""Hit rate over capacity, TTL and tiers, exact at every point, by any axis.

The whole-trace curve is kept as an events table with prefix sums (analysis.kernel.sorted_runs), so that any one
capacity is a
look-up in one row group; groups and filters are summed from the reuse runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.sorted_runs import (
    CapacityEvents,
    build_events,
    build_gaps,
    capacity_grid,
    hits_cross,
    hits_within,
    needed_blocks,
)
from analysis.kernel.sorted_runs import hits_at as hits_of_events
from analysis.store.prepared import Prepared
from analysis.store.question import BadQuestion, Question, engine_of
from analysis.store.warehouse import Warehouse

DEFAULT_TTLS_S = (60.0, 300.0, 3600.0)
EVENT_GROUP_ROWS = 1 << 16

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
    """The runs of the selected requests with a group code each, and each group's totals."""

    groups: list[str]
    run_group: NDArray[np.int64]
    blocks: NDArray[np.int64]
    distance: NDArray[np.int64]
    gap_s: NDArray[np.float64]
    prefix_tokens: NDArray[np.int64]
    request_group: NDArray[np.int64]
    request_blocks: NDArray[np.int64]  # blocks a prompt takes, a partial last one included


def select(warehouse: Warehouse, question: Question, axis: str = "all") -> Selected:
    """The runs that count for the question, grouped by an axis."""
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
) -> pl.DataFrame:
    """Hit tokens and rates: one row per group and point.

    Without capacities, TTLs or tiers: a log-spaced grid of capacities up to where the curve is flat. Capacities and
    TTLs are separate rows unless `cross`.

    Raises:
        NeedsArrivals, BadQuestion: where the answer depends on times that the dataset does not have.
    """
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
        events = build_events(chosen.distance, chosen.blocks, chosen.run_group, max(1, len(chosen.groups)))
        points = capacity_blocks or capacity_grid(needed_blocks(events)).tolist()
        hits = hits_of_events(events, np.array(points))
        rows += [
            _row(chosen, g, group, block, int(hits[g, c]), capacity=int(capacity))
            for g, group in enumerate(chosen.groups)
            for c, capacity in enumerate(points)
        ]
    if ttl_s:
        gaps = build_gaps(chosen.gap_s, chosen.blocks, chosen.run_group, max(1, len(chosen.groups)))
        hits = hits_within(gaps, np.array(ttl_s))
        rows += [
            _row(chosen, g, group, block, int(hits[g, t]), ttl=ttl)
            for g, group in enumerate(chosen.groups)
            for t, ttl in enumerate(ttl_s)
        ]
    if tiers_blocks:
        events = build_events(chosen.distance, chosen.blocks, chosen.run_group, max(1, len(chosen.groups)))
        upto = np.cumsum(np.array(tiers_blocks, np.int64))
        hits = np.diff(hits_of_events(events, upto), axis=1, prepend=0)
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


def hits_at(warehouse: Warehouse, question: Question, capacity_blocks: int) -> tuple[int, int]:
    """(hit tokens, prefix tokens) of the whole trace at one capacity, from the kept events table: a look-up.

    Raises:
        NeedsArrivals: where times are relative and no arrival model is named.
        BadQuestion: where the question filters (use `curve`).
    """
    if question.where or question.window != "all" or question.definition != "tracetower":
        row = curve(warehouse, question, capacity_blocks=[capacity_blocks]).row(0, named=True)
        return int(row["hit_tokens"]), int(row["prefix_tokens"])
    prepared = warehouse.prepare(question)
    warehouse.need_times(prepared, "a cache of finite capacity")
    path = prepared.facts.with_name(prepared.facts.name.replace("facts-", "events-"))
    if not path.is_file():
        _keep_events(warehouse, question, prepared)
    return _look_up(path, capacity_blocks, prepared.block_size)


def _keep_events(warehouse: Warehouse, question: Question, prepared: Prepared) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    chosen = select(warehouse, question)
    events: CapacityEvents = build_events(chosen.distance, chosen.blocks)
    table = pa.table({"position": events.position, "slope": events.slope, "moment": events.moment})
    table = table.replace_schema_metadata({"prefix_tokens": str(int(chosen.prefix_tokens.sum()))})
    path = prepared.facts.with_name(prepared.facts.name.replace("facts-", "events-"))
    part = path.with_suffix(".part")
    pq.write_table(table, part, row_group_size=EVENT_GROUP_ROWS, compression="zstd")
    part.replace(path)


def _look_up(path: Any, capacity_blocks: int, block: int) -> tuple[int, int]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    prefix = int(file.schema_arrow.metadata[b"prefix_tokens"])
    slope = moment = 0
    # the last group that starts below the capacity (a trace without any reuse has no rows)
    low, high = 0, file.metadata.num_row_groups if file.metadata.num_rows else 0
    while low < high:
        middle = (low + high) // 2
        if file.metadata.row_group(middle).column(0).statistics.min < capacity_blocks:
            low = middle + 1
        else:
            high = middle
    if low:
        group = file.read_row_group(low - 1)
        at = int(np.searchsorted(group["position"].to_numpy(), capacity_blocks, side="left"))
        if at:
            slope, moment = group["slope"][at - 1].as_py(), group["moment"][at - 1].as_py()
    # slope is 0 behind the last event, so an unbounded capacity cannot overflow
    return (capacity_blocks * slope - moment) * block, prefix
