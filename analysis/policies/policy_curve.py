"""Hit rates of eviction rules at several capacities, and how much of LRU's distance to the optimum each closes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from analysis.headline.curves import curve
from analysis.policies.block_tree import block_tree, uses
from analysis.policies.eviction import RULES, Order, replay
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse

POINTS = 10
"""How many capacities are replayed where none is named."""
LEAST_SHARE = 0.01
"""Of the most hits: from which capacity on they are chosen then."""


def policy_curve(
    warehouse: Warehouse,
    question: Question,
    rules: Sequence[str],
    axis: str = "all",
    capacity_blocks: Sequence[int] | None = None,
) -> pl.DataFrame:
    """Hit tokens and rates, one row per rule, group and capacity, with the columns of `curve` and `policy`.

    Every rule but lru is replayed once per capacity. `lru` is replayed as well, and equals `curve`.

    Raises:
        NeedsArrivals, BadQuestion: as `curve`; an unknown rule, or a trace too large for `belady`.
    """
    for rule in rules:
        if rule not in RULES:
            raise BadQuestion(f"unknown policy {rule!r}. Policies: {', '.join(RULES)}", "policies", RULES)
    if question.definition != "tracetower":
        raise BadQuestion("eviction policies follow Tracetower's definition of a hit", "definition", ["tracetower"])
    found = curve(warehouse, question, axis, None if capacity_blocks is None else list(capacity_blocks))
    points = found["capacity_blocks"].unique().sort().to_list()
    if capacity_blocks is None:  # below, a cache is too small to matter
        hit = found.group_by("capacity_blocks").agg(pl.col("hit_tokens").sum()).sort("capacity_blocks")
        points = hit.filter(pl.col("hit_tokens") >= LEAST_SHARE * pl.col("hit_tokens").max())[
            "capacity_blocks"
        ].to_list()
        found = found.filter(pl.col("capacity_blocks").is_in(points))
    if capacity_blocks is None and len(points) > POINTS:
        points = [points[i] for i in np.linspace(0, len(points) - 1, POINTS).round().astype(int)]
        found = found.filter(pl.col("capacity_blocks").is_in(points))
    loaded, arrived = warehouse.loaded(), warehouse.arrived(question.arrivals)
    block = warehouse.prepare(question).block_size
    tree, leaf = block_tree(loaded.tree.parent, loaded.tree.start, loaded.tree.end, loaded.leaf, block)
    order = _order(loaded, arrived.order, leaf)
    try:
        used = uses(tree, order.leaf) if "belady" in rules else None
    except ValueError as error:
        raise BadQuestion(str(error), "policies", [rule for rule in rules if rule != "belady"] or ["lru"]) from None
    groups = warehouse.grouped(question, axis).select("row", "group")
    parts = []
    for rule in dict.fromkeys(rules):
        hits = []
        for capacity in points:
            by_row = np.zeros(len(leaf), np.int64)
            by_row[arrived.order] = replay(tree, order, rule, capacity, used) * block
            sums = groups.with_columns(hit=pl.Series(by_row[groups["row"].to_numpy()])).group_by("group")
            hits.append(sums.agg(pl.col("hit").sum()).with_columns(capacity_blocks=pl.lit(capacity, pl.Int64)))
        rows = found.join(pl.concat(hits), on=["group", "capacity_blocks"], how="left", maintain_order="left")
        parts.append(
            rows.with_columns(hit_tokens=pl.col("hit"), hit_rate=pl.col("hit") / pl.col("prefix_tokens"))
            .drop("hit")
            .insert_column(1, pl.lit(rule).alias("policy"))
        )
    return pl.concat(parts)


def _order(loaded: Any, order: np.ndarray[Any, Any], leaf: np.ndarray[Any, Any]) -> Order:
    session = loaded.session[order].astype(np.int32)
    ends = np.zeros(len(order), np.bool_)
    last = np.full(loaded.sessions, -1, np.int64)
    known = session >= 0
    last[session[known]] = np.flatnonzero(known)  # the last write of each session stays
    ends[last[last >= 0]] = True
    main = (~loaded.requests["role"].is_in(["subagent", "side"]).fill_null(value=False)).to_numpy()[order]
    return Order(leaf[order], session, ends, main)


def closed(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Of LRU's distance to the optimum, the share that each rule closes: group, capacity_blocks, policy, closed.

    Only where both `lru` and `belady` were asked for and differ; negative where a rule hits less than LRU.
    """
    bounds = {}
    for name in ("lru", "belady"):
        part = rows.filter(pl.col("policy") == name).select("group", "capacity_blocks", "hit_tokens")
        bounds[name] = {(group, capacity): hits for group, capacity, hits in part.rows()}
    found = []
    for group, rule, capacity, hits in rows.select("group", "policy", "capacity_blocks", "hit_tokens").rows():
        lru, best = (bounds[name].get((group, capacity)) for name in ("lru", "belady"))
        if rule not in ("lru", "belady") and lru is not None and best is not None and best > lru:
            found.append(
                {"group": group, "capacity_blocks": capacity, "policy": rule, "closed": (hits - lru) / (best - lru)}
            )
    return found


def in_words(rows: pl.DataFrame) -> str:
    """One sentence: where LRU is furthest from the optimum, and which rule comes closest there."""
    whole = rows.filter(pl.col("group") == "all") if "all" in rows["group"].to_list() else rows
    wide = whole.pivot("policy", index=["group", "capacity_tokens", "capacity_blocks"], values="hit_rate")
    if not {"lru", "belady"} <= set(wide.columns) or not wide.height:
        return ""
    worst = (
        wide.with_columns(gap=pl.col("belady") - pl.col("lru"))
        .sort("gap", descending=True, nulls_last=True)
        .row(0, named=True)
    )
    if not worst["gap"]:
        return "LRU hits as much as any rule could at these capacities."
    text = (
        f"LRU is furthest from the optimum at {worst['capacity_tokens']:,} tokens: {100 * worst['lru']:.1f} % against "
        f"{100 * worst['belady']:.1f} %"
    )
    shares = [
        row
        for row in closed(whole)
        if (row["group"], row["capacity_blocks"]) == (worst["group"], worst["capacity_blocks"])
    ]
    if not shares:
        return f"{text}."
    best = max(shares, key=lambda row: row["closed"])
    if best["closed"] <= 0:
        return f"{text}; none of the other rules hits more than LRU there."
    return f"{text}; {best['policy']} closes {100 * best['closed']:.0f} % of that, the most of those asked for."
