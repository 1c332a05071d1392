"""The report: every headline figure of a dataset with its definition (command-line contract `report`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.question import Question
from analysis.warehouse import Prepared, Warehouse

DEFAULT_AXES = ("trajectory_type",)


def definition(prepared: Prepared) -> dict[str, Any]:
    """What the figures mean: printed with every number."""
    q = prepared.question
    return {
        "name": q.definition,
        "block_size": prepared.block_size,
        "arrivals": q.arrivals,
        "window": q.window,
        "where": [f"{axis}={value}" for axis, value in q.where],
        "timezone": q.timezone,
        "order": "ascending arrival, ties by input name, then record",
        "hit": "leading full blocks shared with an earlier request; a partial last block never hits",
        "rate": "hit tokens / prefix tokens of requests whose prompt is known (token-weighted)",
        "ceiling": "unbounded, one shared cache, prompt tokens only",
        "eviction": "LRU, a request's blocks touched last to first; capacity is per replica",
        "times": "inside a session only: what depends on times or order across sessions is null"
        if prepared.unanchored
        else "as named by arrivals",
    }


def report(warehouse: Warehouse, question: Question, axes: tuple[str, ...] = DEFAULT_AXES) -> dict[str, Any]:
    """Every headline figure, and the main ones by each axis."""
    prepared = warehouse.prepare(question)
    anchored = not prepared.unanchored and prepared.timed
    workload = warehouse.query("workload", question, anchored=anchored).to_dicts()[0]
    distinct = distinct_tokens(warehouse, question)
    overlap = warehouse.query("overlap", question, block=prepared.block_size, distinct_tokens=distinct).to_dicts()[0]
    if not overlap["prefix_tokens"]:
        overlap = dict.fromkeys(overlap)
    rates = warehouse.query("hit_rate", question, block=prepared.block_size, order_known=prepared.order_known)
    hit_rate = rates.to_dicts()[0]
    if question.definition != "tracetower":
        from analysis.peer_definitions import peer_ceiling

        hit_rate |= peer_ceiling(warehouse, question)
    by = {
        axis: warehouse.query("by_axis", question, axis=axis, order_known=prepared.order_known).to_dicts()
        for axis in axes
    }
    return {
        "definition": definition(prepared),
        "workload": workload,
        "overlap": overlap,
        "hit_rate": hit_rate,
        "by": by,
    }


def distinct_tokens(warehouse: Warehouse, question: Question) -> int | None:
    """Tokens of tree nodes on some selected prompt's path; None where no prompt is known."""
    rows = warehouse.sql("SELECT prefix_id FROM selected WHERE prefix_id IS NOT NULL", question)
    if rows.is_empty():
        return None
    from analysis.reuse import reuse

    loaded = warehouse.loaded()
    leaf = rows["prefix_id"].to_numpy().astype(np.int64)
    order = np.arange(leaf.size)
    tree = loaded.tree
    # at block size 1 every token that is not a hit is met for the first time
    runs = reuse(tree.parent, tree.start, tree.end, leaf, order, order.astype(np.float64), 1, None, loaded.paths)
    return runs.distinct_blocks


def table(figures: dict[str, Any]) -> pl.DataFrame:
    """A flat frame (figure, value) of the report's single figures."""
    rows = [
        {"part": part, "figure": name, "value": None if value is None else float(value)}
        for part in ("workload", "overlap", "hit_rate")
        for name, value in figures[part].items()
    ]
    return pl.DataFrame(rows, schema={"part": pl.String, "figure": pl.String, "value": pl.Float64})
