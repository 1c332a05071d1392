"""The report: every headline figure of a dataset with its definition, as `tracetower report` prints them."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from analysis.headline.definitions import MEANINGS
from analysis.store.prepared import Prepared
from analysis.store.question import Question, engine_of
from analysis.store.warehouse import Warehouse

DEFAULT_AXES = ("trajectory_type",)
_OWN_FIGURES = (
    "ceiling_low",
    "ceiling_high",
    "ceiling_mean_per_request",
    "ceiling_block_weighted",
    "ceiling_with_output",
    "gap",
)


def definition(prepared: Prepared) -> dict[str, Any]:
    """What each figure means, printed with the figures."""
    q = prepared.question
    return {
        "name": q.definition,
        "block_size": prepared.block_size,
        "arrivals": q.arrivals,
        "window": q.window,
        "where": [f"{axis}={value}" for axis, value in q.where],
        "timezone": q.timezone,
        "order": "ascending arrival, ties by input name, then record",
        **MEANINGS[q.definition],
        "times": "inside a session only: figures that depend on times or order across sessions are null"
        if prepared.unanchored
        else "as named by arrivals",
    }


def report(warehouse: Warehouse, question: Question, axes: tuple[str, ...] = DEFAULT_AXES) -> dict[str, Any]:
    """All headline figures, and the main ones by each axis."""
    prepared = warehouse.prepare(question)
    workload = warehouse.query("workload", question).to_dicts()[0]
    overlap = warehouse.query("overlap", question).to_dicts()[0]
    if not overlap["prefix_tokens"]:
        overlap = dict.fromkeys(overlap)
    hit_rate = warehouse.query("hit_rate", question).to_dicts()[0]
    by = {axis: warehouse.query("by_axis", question, axis=axis).to_dicts() for axis in axes}
    if question.definition != "tracetower":
        _redefine(warehouse, question, hit_rate, by)
    return {
        "definition": definition(prepared) | {"assumed": assumed(warehouse, question)},
        "workload": workload,
        "overlap": overlap,
        "hit_rate": hit_rate,
        "by": by,
    }


def _redefine(
    warehouse: Warehouse, question: Question, hit_rate: dict[str, Any], by: dict[str, list[dict[str, Any]]]
) -> None:
    """Replace the ceiling with that of another definition; figures that it does not define become unknown."""
    if engine_of(question.definition):
        from analysis.peers.engine_curve import engine_ceiling

        found = engine_ceiling(warehouse, question, tuple(by))
        hit_rate |= {"ceiling": None, "ceiling_hit_tokens": None} | found.pop("all").get("all", {})
    else:
        from analysis.peers.peer_definitions import peer_ceiling

        found = {axis: {} for axis in by}
        hit_rate |= {"ceiling_hit_tokens": None} | peer_ceiling(warehouse, question)
    ceiling = hit_rate["ceiling"]
    hit_rate |= dict.fromkeys(_OWN_FIGURES) | {
        "nines": -math.log10(1 - ceiling) if ceiling is not None and ceiling < 1 else None
    }
    for axis, rows in by.items():
        for row in rows:
            row |= {"ceiling": None, "ceiling_hit_tokens": None} | found[axis].get(row["group"], {})


def assumed(warehouse: Warehouse, question: Question) -> str | None:
    """What the hit rates assume about prompts of which only the length is known; None if there are none."""
    rows = warehouse.answer(
        question,
        "SELECT sum(prefix_tokens) FILTER (prompt_completeness = 'lengths') / nullif(sum(prefix_tokens), 0) AS share "
        "FROM selected",
    )
    share = rows["share"][0]
    if not share:
        return None
    return (
        f"{100 * share:.1f} % of prefix tokens are of prompts known by length alone: inside a session such a prompt is "
        "taken to share what the shorter of it and the previous one has (an upper bound), across sessions nothing"
    )


def table(figures: dict[str, Any]) -> pl.DataFrame:
    """The report's single figures as a frame (figure, value)."""
    rows = [
        {"part": part, "figure": name, "value": None if value is None else float(value)}
        for part in ("workload", "overlap", "hit_rate")
        for name, value in figures[part].items()
    ]
    return pl.DataFrame(rows, schema={"part": pl.String, "figure": pl.String, "value": pl.Float64})
