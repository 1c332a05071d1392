"""A table of sessions: who sent them, how long they are, where their tokens went, and what they lost."""

from __future__ import annotations

import numpy as np
import polars as pl

from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.causes import CAUSES
from analysis.why.misses import Misses
from analysis.why.session_losses import REMEDIES, losses_by_session


def session_table(warehouse: Warehouse, question: Question, found: Misses, losses: pl.DataFrame) -> pl.DataFrame:
    """One row per session that has selected requests with a known prompt, those that lost most first.

    Args:
        warehouse, question: the dataset, and which requests count.
        found: where their tokens went.
        losses: `analysis.why.session_losses.request_losses` of them.

    Returns:
        session_id, input_label, parent_session_id, agent, model (of its first request), models (how many), role,
        trajectory_type, turns, start_s (first arrival), length_s (first arrival to the last end, or the last arrival
        where ends are unknown), sub_agents (sessions that it started, filtered or not), prefix_tokens, output_tokens,
        a column for each of `CAUSES` (they sum to prefix_tokens), hit_rate, reported_rate, lost_tokens, remedy (what
        brings most of them back; null where nothing is lost), and a column for each of `REMEDIES` (they sum to
        lost_tokens).
    """
    requests, arrival = warehouse.loaded().requests, warehouse.arrived(question.arrivals).arrival_s
    about = requests.select("session_id", "model", "agent", "parent_session_id", "output_tokens").with_columns(
        row=pl.Series(np.arange(requests.height)),
        start_s=pl.Series(arrival, nan_to_null=True),
        end_s=pl.Series(arrival, nan_to_null=True) + requests["duration_s"].fill_null(0),
    )
    chosen = warehouse.grouped(question, "all").select("row")
    split = (
        chosen.join(about, on="row", how="inner", maintain_order="left")
        .filter(pl.col("session_id").is_not_null())
        .join(found.rows.select("row", *CAUSES), on="row", how="inner", maintain_order="left")
        .group_by("session_id")
        .agg(
            pl.col("agent", "parent_session_id", "model").first(),
            pl.col("model").n_unique().alias("models"),
            pl.col("start_s").min(),
            (pl.col("end_s").max() - pl.col("start_s").min()).alias("length_s"),
            pl.when(pl.col("output_tokens").is_not_null().any()).then(pl.col("output_tokens").sum()),
            pl.col(*CAUSES).sum(),
        )
    )
    return (
        losses_by_session(warehouse, losses)
        .drop("hit")
        .join(split, on="session_id", how="left", maintain_order="left")
        .join(_children(warehouse), on="session_id", how="left", maintain_order="left")
        .with_columns(pl.col("sub_agents").fill_null(0))
        .select(
            "session_id", "input_label", "parent_session_id", "agent", "model", "models", "role", "trajectory_type",
            turns="requests", start_s="start_s", length_s="length_s", sub_agents="sub_agents",
            prefix_tokens="prefix_tokens", output_tokens="output_tokens",
            **{name: name for name in (*CAUSES, "hit_rate", "reported_rate", "lost_tokens", "remedy", *REMEDIES)},
        )
    )  # fmt: skip


def _children(warehouse: Warehouse) -> pl.DataFrame:
    """The number of sessions that each session started."""
    parents = warehouse.dataset.read("sessions").select(session_id="parent_session_id").drop_nulls()
    return parents.group_by("session_id").agg(pl.len().cast(pl.Int64).alias("sub_agents"))
