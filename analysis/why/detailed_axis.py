"""An additional axis for misses: transitions in detail."""

from __future__ import annotations

from typing import Any

import polars as pl

from analysis.store.axes import AXES, unknown_axis
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse
from analysis.why.causes import CAUSES
from analysis.why.misses import Misses, by_group
from analysis.why.transition_losses import detailed

DETAILED = "transition_detail"
"""The axis of `analysis.why.transition_losses.detailed`: warm and cold starts, sub-agents, side requests, …"""


def check_miss_axis(axis: str) -> str:
    """Return `axis` if misses can be grouped by it.

    Raises:
        BadQuestion: the message lists the axes.
    """
    if axis in AXES or axis == DETAILED:
        return axis
    raise BadQuestion(unknown_axis(axis, (DETAILED,)), "axis", [*AXES, DETAILED])


def groups(warehouse: Warehouse, question: Question, axis: str) -> pl.DataFrame:
    """row and group of the selected requests whose prompt is known, by row."""
    if axis != DETAILED:
        return warehouse.grouped(question, axis).select("row", "group")
    rows = warehouse.grouped(question, "all").select("row")
    return rows.with_columns(group=detailed(warehouse).gather(rows["row"]).fill_null("unknown"))


def grouped_misses(warehouse: Warehouse, question: Question, found: Misses, axis: str = "all") -> list[dict[str, Any]]:
    """`analysis.why.misses.by_group`, by transitions in detail too."""
    if axis != DETAILED:
        return by_group(warehouse, question, found, axis)
    mine = groups(warehouse, question, axis)
    session = warehouse.loaded().requests["session_id"]
    frame = (
        mine.join(found.rows, on="row", how="inner", maintain_order="left")
        .with_columns(session=session.gather(mine["row"]))
        .group_by("group")
        .agg(
            pl.len().cast(pl.Int64).alias("requests"),
            pl.col("session").drop_nulls().n_unique().cast(pl.Int64).alias("sessions"),
            pl.col("prefix_tokens", *CAUSES, "lost_tokens").sum(),
        )
        .sort("group")
    )
    roles = mine.join(found.roles, on="row", how="inner").group_by("group", "role").agg(pl.col("tokens").sum())
    by_role: dict[str, dict[str, int]] = {}
    for group, role, tokens in roles.sort("tokens", "role", descending=[True, False]).rows():
        by_role.setdefault(group, {})[role] = tokens
    return [{"axis": axis, **row, "first_seen_by_role": by_role.get(row["group"], {})} for row in frame.to_dicts()]
