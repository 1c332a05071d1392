"""The sessions to look at first: tokens lost in the requested cache or the provider's, and what would avoid the
loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.misses import Misses
from analysis.why.provider.gap import provider_losses

REMEDIES = {
    "longer_ttl": "a longer TTL",
    "more_capacity": "a larger cache",
    "same_replica": "route to the replica that has the prefix",
    "wait": "wait for the prompt that is being computed",
    "keep_history": "keep the history as it was sent",
    "go_on_from_last": "go on from the last prompt as it was sent",
    "cache_marks": "set the provider's cache marks further back",
    "provider_rules": "nothing: below the provider's minimum or step",
    "unexplained": "not known",
}
"""Remedy -> what would bring the lost tokens back, in words."""

_OF_CAUSE = {
    "ttl_5m": "longer_ttl", "ttl_1h": "longer_ttl", "concurrent": "wait", "divergence": "keep_history",
    "breakpoint": "cache_marks", "minimum": "provider_rules", "rounding": "provider_rules",
}  # fmt: skip
"""The provider's cause (`analysis.why.provider.gap.CAUSES`) -> remedy; any other is unexplained."""

_MODELLED = {"ttl": "longer_ttl", "capacity": "more_capacity", "routing": "same_replica", "in_flight": "wait"}


def request_losses(warehouse: Warehouse, question: Question, found: Misses) -> pl.DataFrame:
    """The tokens that each selected request with a known prompt lost, by remedy.

    Shared tokens that missed are lost in the requested cache (`found`), or in the provider's (achievable − reported).
    Each token counts once: for each request the larger of the two losses. keep_history and go_on_from_last (fork,
    rewind) are tokens of the session's last prompt that this one does not share. No cache could have served them, so
    they are added to either loss.

    Returns:
        row, prefix_tokens, hit (in the requested cache), reported_tokens, reported_prefix_tokens (null if the
        provider's reads are not known), provider_lost_tokens, a column for each of `REMEDIES`, lost_tokens (their sum).
    """
    losses = provider_losses(warehouse, question, found).select(
        "row", "cause", reported_tokens="read", reported_prefix_tokens="prefix_tokens",
        provider_lost_tokens=pl.col("gap").clip(lower_bound=0),
    )  # fmt: skip
    chosen = warehouse.grouped(question, "all").select("row")
    frame = (
        found.rows.with_columns(transition=warehouse.kinds()["transition"])
        .join(chosen, on="row", how="semi", maintain_order="left")
        .join(losses, on="row", how="left", maintain_order="left")
    )
    modelled = pl.sum_horizontal(*_MODELLED)
    provider = pl.col("provider_lost_tokens").fill_null(0)
    by_provider = provider > modelled
    remedy = pl.col("cause").replace_strict(_OF_CAUSE, default="unexplained", return_dtype=pl.String)
    branches = pl.col("transition").is_in(["fork", "rewind"]).fill_null(False)
    parts = {name: pl.when(by_provider & (remedy == name)).then(provider).otherwise(0) for name in REMEDIES}
    for cause, name in _MODELLED.items():
        parts[name] += pl.when(by_provider).then(0).otherwise(pl.col(cause))
    parts["keep_history"] += pl.when(branches).then(0).otherwise(pl.col("lost_tokens"))
    parts["go_on_from_last"] += pl.when(branches).then(pl.col("lost_tokens")).otherwise(0)
    return frame.select(
        "row", "prefix_tokens", "hit", "reported_tokens", "reported_prefix_tokens", "provider_lost_tokens",
        **{name: part.cast(pl.Int64) for name, part in parts.items()},
    ).with_columns(lost_tokens=pl.sum_horizontal(*REMEDIES))  # fmt: skip


def session_losses(warehouse: Warehouse, question: Question, losses: pl.DataFrame) -> pl.DataFrame:
    """`losses_by_session` without the sessions that lost nothing; those that lost most first.

    Returns:
        session_id, input_label, trajectory_type, role, requests, prefix_tokens, hit_rate (of the requested cache),
        reported_rate (null unknown), lost_tokens, what_brings_it_back (the remedy for most of them, in words), remedy
        (its name), a column for each of `REMEDIES`, provider_lost_tokens.
    """
    return (
        losses_by_session(warehouse, losses)
        .filter(pl.col("lost_tokens") > 0)
        .with_columns(what_brings_it_back=pl.col("remedy").replace_strict(REMEDIES, return_dtype=pl.String))
        .select(
            "session_id", "input_label", "trajectory_type", "role", "requests", "prefix_tokens", "hit_rate",
            "reported_rate", "lost_tokens", "what_brings_it_back", "remedy", *REMEDIES, "provider_lost_tokens",
        )
    )  # fmt: skip


def losses_by_session(warehouse: Warehouse, losses: pl.DataFrame) -> pl.DataFrame:
    """`request_losses` summed by session, those that lost most first: the columns of `session_losses`.

    `remedy` is the one that brings most back, null where nothing is lost.
    """
    requests, kinds = warehouse.loaded().requests, warehouse.kinds()
    about = pl.DataFrame(
        {
            "row": np.arange(requests.height),
            "session_id": requests["session_id"],
            "role": requests["role"],
            "trajectory_type": kinds["trajectory_type"],
        }
    )
    labels = warehouse.dataset.read("sessions").select("session_id", "input_label")
    frame = (
        losses.join(about, on="row", how="inner", maintain_order="left")
        .filter(pl.col("session_id").is_not_null())
        .group_by("session_id", maintain_order=True)
        .agg(
            pl.col("trajectory_type", "role").first(),
            pl.len().cast(pl.Int64).alias("requests"),
            pl.col("prefix_tokens", "hit", "lost_tokens", *REMEDIES).sum(),
            *(_sum_or_null(name) for name in ("provider_lost_tokens", "reported_tokens", "reported_prefix_tokens")),
        )
    )
    most = pl.max_horizontal(*REMEDIES)
    first = pl.coalesce(pl.when((most > 0) & (pl.col(name) == most)).then(pl.lit(name)) for name in REMEDIES)
    return (
        frame.join(labels, on="session_id", how="left", maintain_order="left")
        .with_columns(
            hit_rate=_ratio("hit", "prefix_tokens"),
            reported_rate=_ratio("reported_tokens", "reported_prefix_tokens"),
            remedy=first,
        )
        .sort("lost_tokens", "prefix_tokens", "session_id", descending=[True, True, False])
    )


def remedy_totals(warehouse: Warehouse, losses: pl.DataFrame) -> list[dict[str, Any]]:
    """Requests, sessions (null if none is known) and tokens of each remedy that brings anything back, most first."""
    session = warehouse.loaded().requests["session_id"].gather(losses["row"])
    rows = []
    for name, meaning in REMEDIES.items():
        lost = losses[name] > 0
        if lost.any():
            sessions = session.filter(lost).drop_nulls().n_unique()
            tokens = int(losses[name].sum())
            rows.append(
                {"remedy": name, "meaning": meaning, "requests": int(lost.sum()), "sessions": sessions or None,
                 "lost_tokens": tokens}
            )  # fmt: skip
    return sorted(rows, key=lambda row: -int(row["lost_tokens"]))


def _sum_or_null(name: str) -> pl.Expr:
    return pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name)


def _ratio(part: str, whole: str) -> pl.Expr:
    return pl.when(pl.col(whole) > 0).then(pl.col(part) / pl.col(whole))
