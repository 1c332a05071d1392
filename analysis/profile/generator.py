"""The part of a profile from which similar sessions can be generated (traces.synth.workload).

Sessions fall into strata: top-level or sub-agent, model, agent, trajectory type, and number of turns. For each stratum
the profile has quantile functions and the correlation of turns inside a session, and for transitions other than append
a sample of numbers. It contains only lengths, times and shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.profile.cut_sessions import SAMPLE, TRIGGERS, cut_by_the_end, waits_of
from analysis.profile.distributions import LEVELS, grid, normal_scores, persistence
from analysis.profile.event_examples import LENGTH_EDGES, events, sample
from analysis.profile.first_prompts import with_first_prompts
from analysis.profile.whole_sessions import are_few, whole_sessions, with_agents_started
from traces.dataset.layout import Tree

TURN_EDGES = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513)
"""Lower edges of the strata by number of turns."""

BAND_EDGES = (1, 2, 8, 32, 128)
"""Lower edges (turns from 0) of the bands of turns; each band has its own growth."""

ORDER = 10_000
"""The most entries of the sequence of strata in order of session starts, spread evenly over all sessions."""


def generator(rows: pl.DataFrame, runs: pl.DataFrame, tree: Tree, block: int, anchored: bool) -> dict[str, Any]:
    """Strata of sessions.

    Args:
        rows: facts in row order, with family, depth, spawn_request_id, deepest_row, deepest_shared_tokens and
            previous_row.
        runs: the reuse runs of the facts.
        tree: the prefix tree.
        block: block size of the profile.
        anchored: whether starts of sessions are known.
    """
    lone = rows["session_id"].is_null().to_numpy()
    key = np.where(lone, -1 - np.arange(rows.height), rows["session_id"].fill_null(0).to_numpy())
    _, code = np.unique(key, return_inverse=True)
    n = rows["prefix_tokens"].fill_null(rows["input_tokens"]).cast(pl.Float64).fill_null(np.nan).to_numpy()
    frame = rows.with_columns(
        s=pl.Series(code.reshape(-1)), n=pl.Series(n, nan_to_null=True), at=pl.int_range(rows.height, dtype=pl.Int64),
        t=pl.col("turn").fill_null(0).cast(pl.Int64),
    )  # fmt: skip
    frame = _with_previous(frame, n)
    frame = with_first_prompts(frame, runs, tree, block, anchored)
    sessions = _with_agents(_sessions(frame), frame)
    frame = frame.join(sessions.select("s", "stratum"), on="s", how="left", maintain_order="left")
    keys = sessions.select("level", "model", "agent", "trajectory_type", "band", "stratum").unique().sort("stratum")
    levels = dict(sessions.group_by("level").len().rows())
    order = frame.filter((pl.col("t") == 0) & (pl.col("depth") == 0)).sort("rank")["stratum"]
    starts = np.sort(frame.group_by("family").agg(pl.col("arrival_s").min())["arrival_s"].to_numpy())
    native = block if frame["prompt_completeness"].eq("hashes").any() else 1
    few = are_few(frame)
    cut = anchored and not few and cut_by_the_end(frame)
    frame = with_agents_started(frame)
    return {
        "levels": LEVELS.tolist(),
        "length_edges": list(LENGTH_EDGES),
        "band_edges": list(BAND_EDGES),
        "native_block_tokens": native,
        "main_sessions": int(levels.get(0, 0)),
        "start_s": grid(starts - starts[0]) if anchored else None,
        "start_gap_s": grid(np.diff(starts)) if anchored and starts.size > 1 else None,
        "order": _spread(order, ORDER, ordered=True),
        "relative": not anchored,
        "strata": [
            _stratum(
                k, frame.filter(pl.col("stratum") == k["stratum"]), sessions.filter(pl.col("stratum") == k["stratum"]),
                levels[k["level"]], native, anchored, cut, few,
            )
            for k in keys.to_dicts()
        ],
    }  # fmt: skip


def _with_previous(frame: pl.DataFrame, n: NDArray[np.float64]) -> pl.DataFrame:
    """Adds to each request the previous prompt's length, and the closest earlier prompt's length and turns back."""
    turn = frame["t"].to_numpy()
    previous = frame["previous_row"].fill_null(-1).to_numpy().astype(np.int64)
    deepest = frame["deepest_row"].fill_null(-1).to_numpy().astype(np.int64)
    has = previous >= 0
    known = pl.Series(np.where(has, n[np.maximum(previous, 0)], np.nan), nan_to_null=True)
    return frame.with_columns(
        # if only lengths are known, no previous prompt is
        m=pl.coalesce(known, pl.col("n").shift(1).over("s", order_by="t")),
        lag=pl.Series(np.where(deepest >= 0, turn - turn[np.maximum(deepest, 0)], 1)),
        kept=pl.Series(np.where(deepest >= 0, frame["deepest_shared_tokens"].fill_null(0).to_numpy(), 0)),
    )


def _sessions(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per session: its stratum."""
    found = frame.group_by("s").agg(
        level=(pl.col("depth").first() > 0).cast(pl.Int64), model=pl.col("model").mode().sort().first(),
        agent=pl.col("agent").first(), trajectory_type=pl.col("trajectory_type").first(), turns=pl.len().cast(pl.Int64),
    )  # fmt: skip
    band = np.searchsorted(np.array(TURN_EDGES), found["turns"].to_numpy(), side="right") - 1
    found = found.with_columns(band=pl.Series(band))
    keys = ["level", "model", "agent", "trajectory_type", "band"]
    strata = found.select(keys).unique().sort(keys).with_row_index("stratum").cast({"stratum": pl.Int64})
    return found.join(strata, on=keys, how="left", maintain_order="left").sort("s")


def _with_agents(sessions: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
    """Adds to each session how many sub-agents it started, and how long after its spawning request's end it began."""
    first = frame.filter(pl.col("t") == 0)
    agents = first.filter(pl.col("parent_session_id").is_not_null()).group_by("parent_session_id").len("agents")
    ends = frame.select(
        spawn_request_id="request_id", spawn_end=pl.coalesce("end_s", "arrival_s"),
    )  # fmt: skip
    first = first.join(agents, left_on="session_id", right_on="parent_session_id", how="left").join(
        ends, on="spawn_request_id", how="left"
    )
    beside = first.select(
        "s", pl.col("agents").fill_null(0).cast(pl.Int64), spawn_delay_s=pl.col("arrival_s") - pl.col("spawn_end")
    )
    return sessions.join(beside, on="s", how="left", maintain_order="left")


def _spread(values: pl.Series, most: int = SAMPLE, ordered: bool = False) -> list[int]:
    """At most `most` of the values, spread evenly over all; ascending, or in the given order if `ordered`."""
    chosen = (values if ordered else values.sort()).to_numpy()
    count = min(most, chosen.size)
    return [int(v) for v in chosen[((np.arange(count) + 0.5) * chosen.size / max(1, count)).astype(np.int64)]]


def _stratum(
    key: dict[str, Any],
    rows: pl.DataFrame,
    sessions: pl.DataFrame,
    of_level: int,
    native: int,
    anchored: bool,
    cut: bool,
    few: bool,
) -> dict[str, Any]:
    s = rows["s"].to_numpy()
    first, later = rows.filter(pl.col("t") == 0), rows.filter(pl.col("t") > 0)
    # if only lengths are known, transitions are not: a prompt that grows is taken as an append
    grows = (pl.col("transition").fill_null("append") == "append") & (pl.col("n") > pl.col("m"))
    append, rest = later.filter(grows), later.filter(~grows.fill_null(False))
    growth = (append["n"] - append["m"]).to_numpy()
    alike = persistence(growth, append["s"].to_numpy())
    output = _floats(rows, "output_tokens")
    gap = _floats(rows, "gap_s")
    trigger = rows["trigger"].fill_null("unknown")
    reasoning = _floats(rows, "reasoning_tokens") / np.where(output > 0, output, np.nan)
    waits = waits_of(rows) if cut and not key["level"] else None
    whole = whole_sessions(rows) if few else None
    share = [
        "rank",
        "n",
        "whose",
        "first_kept",
        "first_lag",
        *(("first_age", "first_over", "first_from", "first_met", "first_own", "first_of") if anchored else ()),
    ]
    return {
        "level": key["level"],
        "model": key["model"],
        "agent": key["agent"],
        "trajectory_type": key["trajectory_type"],
        "weight": sessions.height / of_level,
        "turns": _spread(sessions["turns"]),
        "known_prompts": 1 - rows["prefix_tokens"].null_count() / rows.height,
        "first": sample(
            first.filter(pl.col("n").is_not_null()).select(share), "rank"
        ),
        "new_tokens": _bands(append, growth),
        "new_tokens_persistence": alike,
        "new_tokens_by_turns": _by_turns(growth, append["s"].to_numpy(), sessions, alike),
        "events": events(rest, later, native),
        "output_tokens": grid(output),
        "output_known": float(np.mean(~np.isnan(output))),
        "output_persistence": persistence(output, s),
        "reasoning_share": grid(reasoning),
        "triggers": _triggers(later),
        "first_triggers": _triggers(first),
        "gap_s": _gaps(_floats(rows, "n"), gap, trigger.to_numpy()),
        "gap_persistence": persistence(gap, s),
        **({} if waits is None else {"waits": waits}),
        **({} if whole is None else {"sessions": whole}),
        "known_times": _share(rows.group_by("s").agg(pl.col("arrival_s").is_not_null().any())["arrival_s"]),
        "durations": _durations(rows, output),
        "duration_persistence": persistence(_floats(rows, "duration_s"), s),
        "calls_tools": _share(rows["work"].fill_null("unknown") != "unknown"),
        "head_tokens": _whole(np.nanmedian, _floats(first, "head_tokens")),
        "context_max_tokens": _whole(np.nanmax, _floats(rows, "n")),
        "subagents": _spread(sessions["agents"]),
        "spawn_delay_s": grid(_floats(sessions, "spawn_delay_s")),
    }  # fmt: skip


def _by_turns(growth: NDArray[np.float64], s: NDArray[Any], sessions: pl.DataFrame, alike: float) -> float:
    """Correlation, -1 to 1, between a session's number of turns and the growth that its turns have in common.

    It is the correlation of the normal scores of the number of turns with the mean scores of growth, corrected for the
    part of those means that comes from single turns.
    """
    who, place = np.unique(s, return_inverse=True)
    if alike <= 0 or who.size < 3:
        return 0.0
    mean = np.bincount(place.reshape(-1), weights=normal_scores(growth)) / np.bincount(place.reshape(-1))
    turns = sessions.filter(pl.col("s").is_in(who.tolist())).sort("s")["turns"].to_numpy().astype(np.float64)
    if turns.std() == 0 or mean.std() == 0:
        return 0.0
    found = float(np.corrcoef(normal_scores(turns), mean)[0, 1]) * float(mean.std()) / alike**0.5
    return float(np.clip(found, -1.0, 1.0))


def _share(chosen: pl.Series) -> float:
    """Share of true values; 0 if there are no values."""
    return int(chosen.sum()) / chosen.len() if chosen.len() else 0.0


def _triggers(rows: pl.DataFrame) -> dict[str, float]:
    trigger = rows["trigger"].fill_null("unknown")
    return {name: _share(trigger == name) for name in TRIGGERS}


def _whole(figure: Any, values: NDArray[np.float64]) -> int | None:
    """A figure of the known values as an integer; None if none is known."""
    return None if np.isnan(values).all() else int(figure(values))


def _gaps(lengths: NDArray[np.float64], gap: NDArray[np.float64], trigger: NDArray[Any]) -> dict[str, Any]:
    """Gaps by trigger and third of prompt lengths, with the lengths between the thirds."""
    known = ~np.isnan(gap) & ~np.isnan(lengths)
    edges = np.quantile(lengths[known], [1 / 3, 2 / 3]) if known.any() else np.zeros(2)
    third = np.searchsorted(edges, np.nan_to_num(lengths), side="right")
    by = {name: [grid(gap[known & (trigger == name) & (third == q)]) for q in range(3)] for name in TRIGGERS}
    return {"length_edges": edges.tolist(), **by}


def _floats(rows: pl.DataFrame, name: str) -> NDArray[np.float64]:
    return rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy()


def _bands(append: pl.DataFrame, growth: NDArray[np.float64]) -> list[list[float] | None]:
    """Growth of appends by band of turns; None for a band without appends."""
    band = np.searchsorted(np.array(BAND_EDGES), append["t"].to_numpy(), side="right") - 1
    return [grid(growth[band == b]) for b in range(len(BAND_EDGES))]


def _durations(rows: pl.DataFrame, output: NDArray[np.float64]) -> dict[str, Any] | None:
    """Durations by quarter of the output length; None if they are unknown."""
    duration = _floats(rows, "duration_s")
    known = ~np.isnan(duration)
    if not known.any():
        return None
    both = known & ~np.isnan(output)
    edges = np.quantile(output[both], [0.25, 0.5, 0.75]) if both.any() else np.zeros(3)
    place = np.searchsorted(edges, np.nan_to_num(output), side="right")
    whole = grid(duration[known])
    return {
        "known": float(known.mean()),
        "output_edges": edges.tolist(),
        "seconds": [grid(duration[known & (place == q)]) or whole for q in range(4)],
    }
