"""Compares what the provider's cache reported with what was achievable, and gives one cause for every loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.transitions import TEXT_TOLERANCE_TOKENS
from analysis.store.facts import head_ends
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.matches import matches
from analysis.why.misses import Misses
from analysis.why.provider.caches import rules_frame

TTLS_S = (300.0, 3600.0)
"""Times to live that providers offer: 5 minutes and 1 hour after the last use."""

CAUSES = {
    "minimum": "nothing was read, and the prompt or what it shares is shorter than the provider caches",
    "breakpoint": "what was read is all that the prompt it shares with had read and written: the rest lies after its "
    "last cache mark",
    "rounding": "less than one step of the provider's cache",
    "concurrent": "the prompt that shares most was still running",
    "ttl_1h": "what it shares was last used more than 1 hour before",
    "ttl_5m": "what it shares was last used more than 5 minutes before",
    "divergence": "the prompt parts from its session's last one, whose end the provider had kept",
    "unexplained": "the rest",
}
"""Causes of a loss and their meaning, in the order in which they are tried: the first that fits is the cause.
`analysis.why.provider.caches` has the minima, steps and marks."""

ABOVE = "above ceiling"
"""The cause of a negative loss: more was read than any known earlier prompt shares."""

ABOVE_REASONS = {
    "counting": "more was read than the prompt holds: a counting problem",
    "unobserved_head": "what was read lies in the head of the prompt, which is not in the files: others had sent it",
    "estimate": "the prompt is as long as a tokenizer says, the reads are the provider's count",
    "unlogged": "an earlier prompt that is not in the files, or a counting problem: the data does not show which",
}
"""Why more may have been read than is shared, in the order in which they are tried."""

ESTIMATE_SHARE = 0.2
"""A tokenizer's count can explain a difference up to this share of the tokens read."""


def provider_losses(warehouse: Warehouse, question: Question, found: Misses) -> pl.DataFrame:
    """The selected requests whose cache reads and prompt are known.

    Returns:
        row, prefix_tokens, achievable (tokens shared with an earlier prompt, to the token), read, gap (achievable −
        read, not clamped), above (tokens read beyond the achievable ones, else 0), gap_s (time from the last use of the
        closest earlier prompt to its arrival; null unknown), cause (one of `CAUSES` if gap > 0, `ABOVE` if gap < 0,
        else null), above_reason (one of `ABOVE_REASONS` if gap < 0).
    """
    prepared = warehouse.prepare(question)
    loaded, arrived, kinds = warehouse.loaded(), warehouse.arrived(question.arrivals), warehouse.kinds()
    match = matches(warehouse, prepared)
    r = loaded.requests
    base = match.row
    arrival = arrived.arrival_s
    at = np.maximum(base, 0)
    end = arrival + r["duration_s"].fill_null(np.nan).to_numpy()
    parted = kinds["shared_previous_tokens"].to_numpy() + TEXT_TOLERANCE_TOKENS
    previous = kinds["previous_row"].to_numpy().astype(np.int64)
    prefix = r["prefix_tokens"].fill_null(0).to_numpy()
    left = r["cache_read_tokens"] + r["cache_write_tokens"]
    counted = warehouse.dataset.read("sources").select("source_id", "lengths")
    frame = pl.DataFrame(
        {
            "row": np.arange(r.height),
            "prefix_tokens": prefix,
            "achievable": match.tokens,
            "read": r["cache_read_tokens"],
            "gap_s": pl.Series(np.where(base >= 0, arrival - arrival[at], np.nan), nan_to_null=True),
            "input": r["input_tokens"].fill_null(pl.Series(prefix)),
            "left": _of(left, base),
            "left_before": _of(left, previous),
            "running": (base >= 0) & (end[at] > arrival),
            "diverged": (previous >= 0) & (parted < np.minimum(prefix, prefix[np.maximum(previous, 0)])),
            "head": head_ends(loaded.tree)[np.maximum(loaded.leaf, 0)],
            "source_id": r["source_id"],
        }
    ).hstack(rules_frame(r["model"]))
    frame = frame.join(counted, on="source_id", how="left", maintain_order="left")
    selected = warehouse.grouped(question, "all").select("row")
    frame = frame.join(selected, on="row", how="semi", maintain_order="left").filter(pl.col("read").is_not_null())
    return frame.with_columns(gap=pl.col("achievable") - pl.col("read")).select(
        "row", "prefix_tokens", "achievable", "read", "gap", "gap_s",
        above=(-pl.col("gap")).clip(lower_bound=0),
        cause=pl.when(pl.col("gap") < 0).then(pl.lit(ABOVE)).when(pl.col("gap") > 0).then(_cause()),
        above_reason=pl.when(pl.col("gap") < 0).then(_above_reason()),
    )  # fmt: skip


def _of(values: pl.Series, rows: NDArray[Any]) -> pl.Series:
    """The values of other rows; null where the row is −1."""
    return values.gather(np.maximum(rows, 0)).set(pl.Series(rows < 0), None)


def _cause() -> pl.Expr:
    """The cause of a loss; one of `CAUSES`."""
    short = (pl.col("read") == 0) & (pl.min_horizontal("prefix_tokens", "achievable") < pl.col("minimum"))
    marked = pl.col("marks") & (pl.col("read") > 0)
    whole = (pl.col("read") == pl.col("left")) | (pl.col("read") == pl.col("left_before"))
    return (
        pl.when(short)
        .then(pl.lit("minimum"))
        .when(marked & whole.fill_null(False))
        .then(pl.lit("breakpoint"))
        .when(pl.col("gap") < pl.col("step"))
        .then(pl.lit("rounding"))
        .when("running")
        .then(pl.lit("concurrent"))
        .when(pl.col("gap_s") > TTLS_S[1])
        .then(pl.lit("ttl_1h"))
        .when(pl.col("gap_s") > TTLS_S[0])
        .then(pl.lit("ttl_5m"))
        .when("diverged")
        .then(pl.lit("divergence"))
        .otherwise(pl.lit("unexplained"))
    )


def _above_reason() -> pl.Expr:
    """Why more was read than is shared; one of `ABOVE_REASONS`."""
    beyond = pl.col("read") - pl.col("achievable")
    estimated = (pl.col("lengths") == "tokenizer") & (pl.col("achievable") > 0)
    return (
        pl.when(pl.col("read") > pl.col("input"))
        .then(pl.lit("counting"))
        .when(pl.col("read") <= pl.col("head"))
        .then(pl.lit("unobserved_head"))
        .when(estimated & (beyond <= ESTIMATE_SHARE * pl.col("read")))
        .then(pl.lit("estimate"))
        .otherwise(pl.lit("unlogged"))
    )


def provider_gap(warehouse: Warehouse, question: Question, found: Misses, axis: str = "all") -> list[dict[str, Any]]:
    """Reported and achievable reads for each group of an axis (session, model, day, …), those that lose most first.

    `requests` counts those that report their reads and have a known prompt; all rates are over their prefix tokens.
    achievable_*: to the token, as providers count. reported_*: their reads. gap_* = achievable − reported; in tokens it
    is exactly the sum of `lost_by_cause` (positive gaps) minus `above_tokens` (negative gaps), which `above_by_reason`
    splits and `above_ceiling_requests` counts. ceiling_*: the ceiling of the same requests at the question's
    `block_size`, as in the report; low and high: the unobserved head is wholly private, or wholly shared by sessions of
    one agent, version and role.
    """
    losses = provider_losses(warehouse, question, found)
    groups = warehouse.grouped(question, axis).select("row", "group")
    frame = losses.join(groups, on="row", how="inner", maintain_order="left")
    block = warehouse.prepare(question).block_size
    reported = warehouse.query("reported_ceiling", question, axis=axis)
    ceilings = {row["group"]: row for row in reported.to_dicts()}
    rows = []
    for (group,), part in frame.group_by("group", maintain_order=True):
        prefix, achievable, read = (int(part[name].sum()) for name in ("prefix_tokens", "achievable", "read"))
        by_cause = dict(part.filter(pl.col("gap") > 0).group_by("cause").agg(pl.col("gap").sum()).rows())
        by_reason = dict(part.filter(pl.col("above") > 0).group_by("above_reason").agg(pl.col("above").sum()).rows())
        ceiling = ceilings[group]
        rows.append(
            {
                "group": group,
                "requests": part.height,
                "prefix_tokens": prefix,
                "achievable_tokens": achievable,
                "achievable_rate": achievable / prefix if prefix else None,
                "reported_tokens": read,
                "reported_rate": read / prefix if prefix else None,
                "gap_tokens": achievable - read,
                "gap_rate": (achievable - read) / prefix if prefix else None,
                "lost_by_cause": {cause: by_cause[cause] for cause in CAUSES if cause in by_cause},
                "above_tokens": int(part["above"].sum()),
                "above_by_reason": {why: by_reason[why] for why in ABOVE_REASONS if why in by_reason},
                "above_ceiling_requests": int((part["cause"] == ABOVE).sum()),
                "block_size": block,
                "ceiling_rate": ceiling["ceiling"],
                "ceiling_low_rate": ceiling["ceiling_low"],
                "ceiling_high_rate": ceiling["ceiling_high"],
            }
        )
    return sorted(rows, key=lambda row: (-sum(row["lost_by_cause"].values()), row["group"]))
