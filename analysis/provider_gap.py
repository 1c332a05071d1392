"""What the provider's cache reported against what was achievable, and the one cause of every loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.misses import Misses, matches
from analysis.question import Question
from analysis.transitions import TEXT_TOLERANCE_TOKENS
from analysis.warehouse import Warehouse

MINIMUM_TOKENS = 1024
"""Shortest prefix that Anthropic's and OpenAI's caches take; what is lost below it is theirs to round."""

TTLS_S = (300.0, 3600.0)
"""Times to live that providers offer: 5 minutes and 1 hour after the last use."""

CAUSES = ("minimum", "concurrent", "divergence", "ttl_5m", "ttl_1h", "unexplained")
"""minimum: prompt or loss below 1,024 tokens · concurrent: the prompt that shares most was still running ·
divergence: the prompt parts from its session's last one, whose end the provider had kept · ttl_5m, ttl_1h: the last use
lies more than 5 minutes, more than 1 hour back · unexplained: the rest."""

ABOVE = "above ceiling"
"""More was read than any known earlier prompt shares: a counting problem, or a head that was not observed."""


def provider_losses(warehouse: Warehouse, question: Question, found: Misses) -> pl.DataFrame:
    """Each selected request whose cache reads and prompt are known.

    Returns:
        row, achievable (tokens shared with an earlier prompt), read, gap (achievable − read, not clamped), gap_s (from
        the last use of what it shares most to its arrival; null unknown), cause (one of `CAUSES` where gap > 0, `ABOVE`
        where more than a rounding was read beyond it, else null).
    """
    prepared = warehouse.prepare(question)
    loaded, arrived, kinds = warehouse.loaded(), warehouse.arrived(question.arrivals), warehouse.kinds()
    match = matches(warehouse, prepared)
    r = loaded.requests
    base = match.row
    at = np.maximum(base, 0)
    arrival = arrived.arrival_s
    end = arrival + r["duration_s"].fill_null(np.nan).to_numpy()
    gap_s = np.where(base >= 0, arrival - arrival[at], np.nan)
    parted = kinds["shared_previous_tokens"].to_numpy() + TEXT_TOLERANCE_TOKENS
    previous = kinds["previous_row"].to_numpy()
    prefix = r["prefix_tokens"].fill_null(0).to_numpy()
    diverged = (previous >= 0) & (parted < np.minimum(prefix, prefix[np.maximum(previous, 0)]))
    frame = pl.DataFrame(
        {
            "row": np.arange(r.height),
            "prefix_tokens": prefix,
            "achievable": match.tokens,
            "read": r["cache_read_tokens"],
            "gap_s": pl.Series(gap_s, nan_to_null=True),
            "running": (base >= 0) & (end[at] > arrival),
            "diverged": diverged,
        }
    )
    selected = warehouse.grouped(question, "all").select("row")
    frame = frame.join(selected, on="row", how="semi", maintain_order="left").filter(pl.col("read").is_not_null())
    gap = pl.col("achievable") - pl.col("read")
    cause = (
        pl.when(gap < -MINIMUM_TOKENS)
        .then(pl.lit(ABOVE))
        .when(gap <= 0)
        .then(None)
        .when((pl.col("prefix_tokens") < MINIMUM_TOKENS) | (gap < MINIMUM_TOKENS))
        .then(pl.lit("minimum"))
        .when("running")
        .then(pl.lit("concurrent"))
        .when("diverged")
        .then(pl.lit("divergence"))
        .when(pl.col("gap_s") > TTLS_S[1])
        .then(pl.lit("ttl_1h"))
        .when(pl.col("gap_s") > TTLS_S[0])
        .then(pl.lit("ttl_5m"))
        .otherwise(pl.lit("unexplained"))
    )
    return frame.with_columns(gap=gap, cause=cause).drop("running", "diverged")


def provider_gap(warehouse: Warehouse, question: Question, found: Misses, axis: str = "all") -> list[dict[str, Any]]:
    """Reported against achievable for each group of an axis (session, model, day, …).

    `requests` report their reads and have a known prompt; achievable_rate, reported_rate over the prefix tokens of
    these; gap_rate their difference; `lost_by_cause` tokens of the positive gaps by cause, `above_ceiling_requests`.
    """
    losses = provider_losses(warehouse, question, found)
    groups = warehouse.grouped(question, axis).select("row", "group")
    frame = losses.join(groups, on="row", how="inner", maintain_order="left")
    rows = []
    for (group,), part in frame.group_by("group", maintain_order=True):
        prefix = int(part["prefix_tokens"].sum())
        lost = part.filter(pl.col("gap") > 0).group_by("cause").agg(pl.col("gap").sum())
        by_cause = dict(lost.rows())
        rows.append(
            {
                "group": group,
                "requests": part.height,
                "prefix_tokens": prefix,
                "achievable_rate": part["achievable"].sum() / prefix if prefix else None,
                "reported_rate": part["read"].sum() / prefix if prefix else None,
                "gap_rate": part["gap"].sum() / prefix if prefix else None,
                "lost_by_cause": {cause: by_cause[cause] for cause in CAUSES if cause in by_cause},
                "above_ceiling_requests": int((part["cause"] == ABOVE).sum()),
            }
        )
    return sorted(rows, key=lambda row: (-sum(row["lost_by_cause"].values()), row["group"]))
