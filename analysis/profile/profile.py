"""The workload profile: all that a planner or load generator needs to know about a workload, without ids, paths or
text.

profile_schema.json (JSON Schema 2020-12) publishes the document's shape; `version` counts its changes. Version 2 adds
to
version 1: the age of what first prompts share, gaps session by session if the end of the trace cuts sessions, sessions
turn by turn if there are few, which sessions start alike, and the share of sessions with times.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.headline.bootstrap import ratio_intervals, sampling_units
from analysis.headline.report import definition
from analysis.kernel.sorted_runs import capacity_curve, hit_blocks_at, hit_blocks_within, needed_blocks, ttl_curve
from analysis.profile.distributions import describe
from analysis.profile.generator import generator
from analysis.profile.groups import group_figures
from analysis.profile.prefix_layers import prefix_layers
from analysis.profile.whole_sessions import FEW
from analysis.store.prepared import Prepared
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from traces.dataset.published_names import KNOWN_AGENTS

SCHEMA, VERSION = "tracetower.profile", 2
READABLE = (1, 2)
"""Versions that can be read: later ones only add fields."""

TTLS_S = (60.0, 300.0, 3600.0)
SMALLEST_CAPACITY_TOKENS = 1 << 18
MOST_RESAMPLED = 4096
SMALLEST_GROUP = 0.01
"""Groups with a smaller share of requests than this are merged."""

_PLAIN_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,79}")


def schema() -> dict[str, Any]:
    """The JSON Schema of a profile."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / "profile_schema.json").read_text("utf-8"))
    return found


def profile(warehouse: Warehouse, block_size: int | None = None, arrivals: str = "recorded") -> dict[str, Any]:
    """Profile a dataset at a block size under an arrival model.

    Raises:
        BadQuestion: a block size or arrival model that does not fit the dataset.
    """
    question = Question(block_size, arrivals)
    prepared = warehouse.prepare(question)
    anchored = not prepared.unanchored and prepared.timed
    rows = _rows(warehouse, prepared)
    labels, merged = _labels(rows)
    runs = prepared.read_runs()
    whole = np.zeros(rows.height, np.int64)
    hit = _hits(runs, rows, whole, 1, prepared, anchored)[0]
    if anchored:
        _with_intervals(hit, runs, rows, prepared.block_size)
    overall = group_figures(rows, hit)
    code = labels["code"].to_numpy()
    named = labels.unique(subset="code").sort("code")
    hits = _hits(runs, rows, code, named.height, prepared, anchored)
    groups = [
        {
            "model": label["model"], "agent": label["agent"], "trajectory_type": label["trajectory_type"],
            **group_figures(rows.filter(pl.Series(code == label["code"])), hits[label["code"]]),
        }
        for label in named.to_dicts()
    ]  # fmt: skip
    first = rows.filter((pl.col("depth") == 0) & (pl.col("turn").fill_null(0) == 0) & pl.col("prefix_id").is_not_null())
    loaded = warehouse.loaded()
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "definition": definition(prepared),
        "coverage": _coverage(rows, anchored),
        "warnings": _warnings(rows, prepared, merged, len(warehouse.native_blocks())),
        "overall": overall,
        "arrivals": _arrivals(rows, anchored),
        "prefix_layers": prefix_layers(
            loaded.tree, first["prefix_id"].to_numpy().astype(np.int64),
            first["head_tokens"].cast(pl.Float64).fill_null(np.nan).to_numpy(),
        ),
        "groups": groups,
        "generator": generator(rows, runs, loaded.tree, prepared.block_size, anchored),
    }  # fmt: skip


def _rows(warehouse: Warehouse, prepared: Prepared) -> pl.DataFrame:
    """Facts with family, depth (0 top-level), head, spawning row and the deepest earlier prompt of the session."""
    loaded = warehouse.loaded()
    facts = prepared.read_facts()
    kinds = warehouse.kinds()
    extra = loaded.requests.select("spawn_request_id", "head_tokens", "input_rank", "record_ordinal", "basis")
    facts = pl.concat([facts, extra], how="horizontal").with_columns(
        family=pl.Series(sampling_units(loaded)), depth=pl.Series(_depths(loaded.requests)),
        deepest_row=kinds["deepest_row"], deepest_shared_tokens=kinds["deepest_shared_tokens"],
        previous_row=kinds["previous_row"],
        trajectory_type=pl.col("trajectory_type").fill_null("unknown"),
        model=pl.Series([_model(m) for m in facts["model"].to_list()], dtype=pl.String),
        agent=pl.Series([_agent(a) for a in facts["agent"].to_list()], dtype=pl.String),
    )  # fmt: skip
    return facts


def _model(name: str | None) -> str:
    """A model's name without leading folders, as servers write them; unknown if it is not a name."""
    plain = "" if name is None else name.rsplit("/", 1)[-1]
    return plain if _PLAIN_MODEL.fullmatch(plain) else ("unknown" if name is None else "other")


def _agent(name: str | None) -> str:
    return "unknown" if name is None else (name if name in KNOWN_AGENTS else "other")


def _depths(requests: pl.DataFrame) -> NDArray[np.int64]:
    """Per request: the number of ancestors of its session."""
    parent = dict(requests.select("session_id", "parent_session_id").unique().rows())
    depth: dict[int | None, int] = {}
    for session in parent:
        count, at, seen = 0, session, {session}
        while at is not None and (above := parent.get(at)) is not None and above in parent and above not in seen:
            seen.add(above)
            count, at = count + 1, above
        depth[session] = count
    return np.array([depth.get(s, 0) if s is not None else 0 for s in requests["session_id"].to_list()], np.int64)


def _labels(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """(model, agent, trajectory type, code) by row, with small groups merged as other; and how many were merged."""
    names = rows.select("model", "agent", "trajectory_type").with_columns(
        n=pl.len().over("model", "agent", "trajectory_type")
    )
    small = pl.col("n") < max(1, SMALLEST_GROUP * rows.height)
    merged = names.filter(small).select("model", "agent", "trajectory_type").n_unique()
    names = names.with_columns(
        [pl.when(small).then(pl.lit("other")).otherwise(c).alias(c) for c in ("model", "agent", "trajectory_type")]
    ).drop("n")
    kinds = names.unique().sort("model", "agent", "trajectory_type").with_row_index("code")
    return names.join(kinds, on=["model", "agent", "trajectory_type"], how="left", maintain_order="left").cast(
        {"code": pl.Int64}
    ), merged


def _hits(
    runs: pl.DataFrame, rows: pl.DataFrame, code: NDArray[np.int64], groups: int, prepared: Prepared, anchored: bool
) -> list[dict[str, Any]]:
    """Hit rates of each group at capacities and TTLs; None if times across sessions are not known."""
    if not anchored:
        return [{"at_capacity": None, "at_ttl": None} for _ in range(groups)]
    prefix = rows["prefix_tokens"].fill_null(0).to_numpy()
    totals = np.bincount(code, weights=prefix, minlength=groups)
    group = code[runs["request"].to_numpy()]
    distance, blocks = runs["distance_blocks"].to_numpy(), runs["blocks"].to_numpy()
    events = capacity_curve(distance, blocks, group, groups)
    size = prepared.block_size
    capacities = [SMALLEST_CAPACITY_TOKENS]
    while capacities[-1] < needed_blocks(events) * size:
        capacities.append(capacities[-1] * 2)
    at = hit_blocks_at(events, np.array(capacities) // size) * size
    gaps = ttl_curve(runs["gap_s"].fill_null(np.nan).to_numpy(), blocks, group, groups)
    within = hit_blocks_within(gaps, np.array(TTLS_S)) * size
    return [
        {
            "at_capacity": [
                {"capacity_tokens": c, "hit_rate": float(h / totals[g]) if totals[g] else None}
                for c, h in zip(capacities, at[g], strict=True)
            ],
            "at_ttl": [
                {"ttl_s": t, "hit_rate": float(h / totals[g]) if totals[g] else None}
                for t, h in zip(TTLS_S, within[g], strict=True)
            ],
        }
        for g in range(groups)
    ]


def _with_intervals(hit: dict[str, Any], runs: pl.DataFrame, rows: pl.DataFrame, block: int) -> None:
    """Add to each rate its 95 % interval, by resampling top-level sessions (or groups of them if there are many)."""
    family = rows["family"].to_numpy() % MOST_RESAMPLED
    count = int(family.max()) + 1
    group = family[runs["request"].to_numpy()]
    blocks = runs["blocks"].to_numpy()
    capacities = np.array([p["capacity_tokens"] for p in hit["at_capacity"]]) // block
    at = hit_blocks_at(capacity_curve(runs["distance_blocks"].to_numpy(), blocks, group, count), capacities)
    gaps = ttl_curve(runs["gap_s"].fill_null(np.nan).to_numpy(), blocks, group, count)
    within = hit_blocks_within(gaps, np.array([p["ttl_s"] for p in hit["at_ttl"]]))
    total = np.bincount(family, weights=rows["prefix_tokens"].fill_null(0).to_numpy(), minlength=count)
    for points, found in ((hit["at_capacity"], at), (hit["at_ttl"], within)):
        whole = np.repeat(total[:, None], len(points), axis=1)
        for point, interval in zip(points, ratio_intervals(found * block, whole, np.arange(count)), strict=True):
            point["interval"] = None if interval is None else list(interval)


def _coverage(rows: pl.DataFrame, anchored: bool) -> dict[str, Any]:
    count = max(1, rows.height)

    def known(name: str) -> float:
        return 1 - rows[name].null_count() / count

    span = rows["arrival_s"].max()
    return {
        "requests": rows.height,
        "sessions": rows["session_id"].drop_nulls().n_unique(),
        "main_sessions": rows.filter(pl.col("depth") == 0)["family"].n_unique(),
        "input_tokens": int(rows["input_tokens"].sum()),
        "output_tokens": int(rows["output_tokens"].sum()),
        "duration_s": float(span) if anchored and span is not None else None,  # type: ignore[arg-type]  # a number
        "known_prompts": known("prefix_tokens"),
        "known_outputs": known("output_tokens"),
        "known_durations": known("duration_s"),
        "known_reported_cache": known("cache_read_tokens"),
        "native_sessions": float((rows["session_source"] == "native").fill_null(False).mean() or 0.0),  # type: ignore[arg-type]
        "sources": sorted(rows["source"].drop_nulls().unique().to_list()),
    }


def _warnings(rows: pl.DataFrame, prepared: Prepared, merged: int, native_sizes: int) -> list[str]:
    found = []
    if prepared.unanchored:
        found.append(
            "times are only known inside a session: arrival process, rates, in-flight requests and hit rates at "
            "capacities and TTLs are null; name an arrival model for them"
        )
    if merged:
        found.append(f"{merged} small groups are published together as other")
    if native_sizes > 1:
        found.append("sources have different native block sizes")
    if (rows["session_source"] == "inferred").any():
        found.append("sessions are inferred from prompts: turns, gaps and growth depend on that")
    families = rows["family"].n_unique()
    if families < FEW:
        found.append(
            f"{families} top-level sessions only: intervals are wide, and sessions for synth are listed turn by turn "
            "(lengths and times, no text)"
        )
    if rows["output_complete"].eq(False).any():
        found.append("some outputs were recorded before they were complete and count as recorded")
    return found


def _arrivals(rows: pl.DataFrame, anchored: bool) -> dict[str, Any] | None:
    """Rates, peaks, requests in flight, gaps between starts of top-level sessions; None without a common clock."""
    if not anchored:
        return None
    arrival = np.sort(rows["arrival_s"].to_numpy())
    span = float(arrival[-1] - arrival[0])
    starts = np.sort(rows.group_by("family").agg(pl.col("arrival_s").min())["arrival_s"].to_numpy())
    gaps = np.diff(starts)
    minutes = np.bincount(((arrival - arrival[0]) // 60).astype(np.int64))
    mean = float(gaps.mean()) if gaps.size else 0.0
    variation = float(gaps.std() / mean) if mean > 0 else None
    timed = rows.filter(pl.col("end_s").is_not_null())
    return {
        "requests_per_s": (rows.height - 1) / span if span > 0 else None,
        "requests_per_s_peak_minute": float(minutes.max()) / 60,
        "sessions_per_s": (starts.size - 1) / span if span > 0 else None,
        "session_gap_s": describe(gaps, np.arange(gaps.size)),
        "session_gap_variation": variation,
        "process": None if variation is None else _process(variation),
        "in_flight_requests": _in_flight(timed["arrival_s"].to_numpy(), timed["end_s"].to_numpy(), span),
        "live_sessions": _live(rows, span),
    }


def _process(variation: float) -> str:
    """The name for a coefficient of variation of gaps: 0 is a clock, 1 a Poisson process."""
    return "regular" if variation < 0.5 else "poisson" if variation <= 1.5 else "bursty"


def _in_flight(start: NDArray[Any], end: NDArray[Any], span: float) -> dict[str, Any] | None:
    if not start.size:
        return None
    moments = np.concatenate([start, end])
    steps = np.concatenate([np.ones(start.size), -np.ones(end.size)])
    running = np.cumsum(steps[np.lexsort((steps, moments))])  # an end before a start at the same moment
    return {"mean": float((end - start).sum() / span) if span > 0 else None, "peak": int(running.max())}


def _live(rows: pl.DataFrame, span: float) -> dict[str, Any] | None:
    ends = pl.coalesce("end_s", "arrival_s")
    spans = rows.group_by("family").agg(a=pl.col("arrival_s").min(), b=ends.max())
    return _in_flight(spans["a"].to_numpy(), spans["b"].to_numpy(), span)
