"""The figures of one group of requests in a profile."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.headline.bootstrap import ratio_interval
from analysis.profile.buckets import buckets
from analysis.profile.distributions import describe
from traces.dataset.published_names import KNOWN_STOPS


def group_figures(rows: pl.DataFrame, hits: dict[str, Any]) -> dict[str, Any]:
    """Figures of the requests in `rows` (facts with the additional columns family and depth).

    Args:
        rows: facts of the group.
        hits: at_capacity and at_ttl rates of the group.
    """
    who = rows["family"].to_numpy()
    prompt = _floats(rows, "prefix_tokens")
    hit = _floats(rows, "hit_tokens")
    isl = np.where(np.isnan(prompt), _floats(rows, "input_tokens"), prompt)
    output = _floats(rows, "output_tokens")
    later = _floats(rows.select(turn=pl.col("turn").fill_null(0)), "turn") > 0
    new = np.where(later, prompt - _floats(rows, "shared_previous_tokens"), np.nan)
    reported = rows.filter(pl.col("cache_read_tokens").is_not_null() & pl.col("input_tokens").is_not_null())
    known = ~np.isnan(prompt)
    gap = _floats(rows, "gap_s")
    trigger = rows["trigger"].fill_null("unknown").to_numpy()
    main = rows.filter(pl.col("session_id").is_not_null() & (pl.col("depth") == 0))
    turns = main.group_by("session_id").agg(n=pl.len(), family=pl.col("family").first())
    both = ~np.isnan(isl) & ~np.isnan(output)
    return {
        "requests": rows.height,
        "sessions": rows["session_id"].drop_nulls().n_unique(),
        "main_sessions": turns.height,
        "input_tokens": describe(isl, who),
        "new_tokens_per_turn": describe(new, who),
        "added_tokens_per_turn": describe(_added(rows), who),
        "first_input_tokens": describe(np.where(later | (rows["depth"].to_numpy() > 0), np.nan, isl), who),
        "output_tokens": describe(output, who),
        "reasoning_tokens": describe(_floats(rows, "reasoning_tokens"), who),
        "input_output_ratio": _rate(isl[both].sum(), output[both].sum()),
        "input_output_ratio_interval": _interval(isl[both], output[both], who[both]),
        "cached": {
            "ceiling": _rate(hit[known].sum(), prompt[known].sum()),
            "ceiling_interval": _interval(hit[known], prompt[known], who[known]),
            "ceiling_tokens": describe(hit, who),
            "reported": _rate(int(reported["cache_read_tokens"].sum()), int(reported["input_tokens"].sum())),
            "reported_tokens": describe(_floats(reported, "cache_read_tokens"), reported["family"].to_numpy()),
            **hits,
        },
        "buckets": buckets(isl, output, hit),
        "turns": describe(_floats(turns, "n"), turns["family"].to_numpy()),
        "gap_s": {
            "all": describe(gap, who),
            "tool": describe(np.where(trigger == "tool", gap, np.nan), who),
            "human": describe(np.where(trigger == "user", gap, np.nan), who),
            "unknown": describe(np.where((trigger != "tool") & (trigger != "user"), gap, np.nan), who),
        },
        "duration_s": describe(_floats(rows, "duration_s"), who),
        "subagents": subagents(rows),
        "compactions": _compactions(rows, turns.height),
        "transitions": _shares(rows["transition"]),
        "context_max_tokens": None if not both.size or np.isnan(isl).all() else int(np.nanmax(isl)),
        "stop_reasons": stop_reasons(rows),
    }


def _added(rows: pl.DataFrame) -> NDArray[np.float64]:
    """Tokens that an append adds after the previous prompt and its whole answer; NaN if it adds none or is no
    append."""
    found = (
        _floats(rows, "prefix_tokens")
        - _floats(rows, "previous_prefix_tokens")
        - _floats(rows, "previous_output_tokens")
    )
    append = (rows["transition"] == "append").fill_null(False).to_numpy()
    return np.where(append & (found > 0), found, np.nan)


def _floats(rows: pl.DataFrame, name: str) -> NDArray[np.float64]:
    return rows[name].cast(pl.Float64).fill_null(np.nan).to_numpy()


def _rate(top: float, bottom: float) -> float | None:
    return float(top / bottom) if bottom else None


def _interval(part: NDArray[Any], whole: NDArray[Any], unit: NDArray[Any]) -> list[float] | None:
    interval = ratio_interval(part, whole, unit)
    return None if interval is None else list(interval)


def _shares(values: pl.Series) -> dict[str, float]:
    """Share of each value, largest first; unknown is left out."""
    counts = values.drop_nulls().value_counts(sort=True)
    total = counts["count"].sum()
    return {
        str(name): n / total for name, n in counts.sort(["count", values.name], descending=[True, False]).iter_rows()
    }


def stop_reasons(rows: pl.DataFrame) -> dict[str, float]:
    """Share of each stop reason among the known ones; those that could contain text are called other."""
    stop = rows["stop_reason"].drop_nulls()
    named = pl.Series("stop_reason", [s if s in KNOWN_STOPS else "other" for s in stop.to_list()], dtype=pl.String)
    return _shares(named)


def subagents(rows: pl.DataFrame) -> dict[str, Any]:
    """Sub-agents per top-level session, their fan-out per spawning session, depth and share of requests and input."""
    agents = rows.filter(pl.col("depth") > 0)
    mains = rows.filter(pl.col("depth") == 0)["family"].n_unique()
    fan = agents.group_by("parent_session_id").agg(n=pl.col("session_id").n_unique(), family=pl.col("family").first())
    count = agents["session_id"].n_unique()
    total = int(rows["input_tokens"].sum())
    return {
        "per_main_session": count / mains if mains else None,
        "fan_out": describe(_floats(fan, "n"), fan["family"].to_numpy()),
        "depth_max": int(rows["depth"].max() or 0) if rows.height else 0,  # type: ignore[arg-type]  # a number
        "share_of_requests": agents.height / rows.height if rows.height else None,
        "share_of_input": int(agents["input_tokens"].sum()) / total if total else None,
    }


def _compactions(rows: pl.DataFrame, sessions: int) -> dict[str, Any] | None:
    if rows["transition"].null_count() == rows.height:
        return None
    found = rows.filter(pl.col("transition") == "compaction")
    share = found["prefix_tokens"].cast(pl.Float64) / found["previous_prefix_tokens"]
    before = _floats(found, "previous_prefix_tokens")
    who = found["family"].to_numpy()
    return {
        "count": found.height,
        "per_main_session": found.height / sessions if sessions else None,
        "before_tokens": describe(before, who),
        "size_share": describe(share.fill_null(np.nan).to_numpy(), who),
    }
