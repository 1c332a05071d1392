"""Charts of hit rate over capacity, time to live and tiers."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from app.widgets import formats
from app.widgets.charts import (
    CHOSEN,
    LINES_WITH_LABELS,
    NEUTRAL,
    RATE_SCALE,
    REPLICA,
    groups_of,
    legend_of,
    limited,
    palette,
    rate_axis,
)


def capacity_lines(
    frame: pl.DataFrame,
    ceiling: float | None,
    chosen: tuple[int, float | None] | None = None,
    bytes_per_token: float | None = None,
    replica: tuple[str, int, float | None] | None = None,
) -> Any:
    """Hit rate over capacity. Columns: group, capacity_tokens, hit_rate.

    Args:
        frame: the curve of each group.
        ceiling: the unbounded rate, dashed.
        chosen: (capacity in tokens, hit rate there) to mark.
        bytes_per_token: KV bytes, for a second line of axis labels in GiB.
        replica: (its configuration, its capacity in tokens, hit rate there) to mark; the axis reaches as far as it.
    """
    rows = frame.select("group", "capacity_tokens", "hit_rate")
    sizes = rows["capacity_tokens"].unique().sort().to_list()
    low, high = sizes[0], max(sizes[-1], 2 * sizes[0])
    if replica is not None:
        low, high = min(low, replica[1]), max(high, round(1.1 * replica[1]))
    axis = alt.Axis(
        labelExpr=formats.vega_capacity(bytes_per_token), values=_doublings(low, high, bytes_per_token),
        labelOverlap="greedy", title="Capacity of one replica's KV cache" + ("" if bytes_per_token else ", tokens"),
    )  # fmt: skip
    x = alt.X("capacity_tokens:Q", scale=alt.Scale(type="log", base=2, domain=[low, high], nice=False), axis=axis)
    layers = _lines(rows, x, "capacity_tokens", "Capacity", formats.tokens)
    drawn = _with_marks(layers, ceiling, low, x, chosen, "capacity_tokens")
    if replica is None:
        return drawn
    right = replica[1] ** 2 > low * high  # right of the middle of a log axis the label stands to the left
    place = pl.DataFrame(
        {"capacity_tokens": [replica[1]], "text": [replica[0]], "hit_rate": [replica[2]]},
        schema_overrides={"hit_rate": pl.Float64},
    )
    at = alt.Chart(place).encode(x=x)
    rule = at.mark_rule(color=REPLICA, strokeWidth=1.5, strokeDash=[2, 3])
    label = at.mark_text(
        align="right" if right else "left", baseline="bottom", dx=-6 if right else 6, color=REPLICA, fontWeight=600
    ).encode(y=alt.datum(0.03, scale=RATE_SCALE), text="text:N")
    point = at.mark_point(filled=True, size=110, color=REPLICA, opacity=1).encode(
        y=alt.Y("hit_rate:Q", scale=RATE_SCALE)
    )
    return drawn + rule + point + label


def ttl_lines(frame: pl.DataFrame, ceiling: float | None, marks: tuple[float, ...] = ()) -> Any:
    """Hit rate over TTL. Columns: group, ttl_s, hit_rate. `marks`: TTLs to point out, in seconds."""
    rows = frame.select("group", "ttl_s", "hit_rate")
    times = rows["ttl_s"].unique().sort().to_list()
    ticks = [t for t in (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400) if times[0] <= t <= times[-1]]
    axis = alt.Axis(labelExpr=formats.VEGA_SECONDS, values=ticks, title="Time to live since last use")
    x = alt.X("ttl_s:Q", scale=alt.Scale(type="log", domain=[times[0], times[-1]], nice=False), axis=axis)
    drawn = _with_marks(_lines(rows, x, "ttl_s", "TTL", formats.seconds), ceiling, times[0], x, None, "ttl_s")
    rules = alt.Chart(pl.DataFrame({"ttl_s": list(marks)})).mark_rule(color=NEUTRAL, opacity=0.6).encode(x=x)
    return drawn + rules if marks else drawn


def tier_bars(frame: pl.DataFrame) -> Any:
    """Share of prompt tokens found in each tier. Columns: group, part, rate, order."""
    parts = frame.unique("order").sort("order")["part"].to_list()
    shades = [*("#1f5a8c", "#3a85c2", "#7db2da", "#a5cae6")[: len(parts) - 2], NEUTRAL, "#d55e00"]
    groups = groups_of(frame)
    rows = limited(frame).with_columns(text=pl.col("rate").map_elements(formats.rate, pl.String))
    return (
        alt.Chart(rows)
        .mark_bar(height={"band": 0.62})
        .encode(
            y=alt.Y("group:N", title=None, sort=groups),
            x=alt.X("rate:Q", axis=rate_axis("Share of prompt tokens"), scale=RATE_SCALE),
            color=alt.Color("part:N", scale=alt.Scale(domain=parts, range=shades), legend=legend_of(parts)),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("group:N", title="Group"),
                alt.Tooltip("part:N", title="Found in"),
                alt.Tooltip("text:N", title="Share"),
            ],
        )
        .properties(height=44 * len(groups) + 130)
    )


def _lines(rows: pl.DataFrame, x: alt.X, field: str, title: str, written: Any) -> list[Any]:
    groups = groups_of(rows)
    named = len(groups) > LINES_WITH_LABELS
    frame = limited(rows).with_columns(
        rate_text=pl.col("hit_rate").map_elements(formats.rate, pl.String),
        x_text=pl.col(field).map_elements(written, pl.String),
    )
    line = (
        alt.Chart(frame)
        .mark_line(strokeWidth=2.5, interpolate="linear")
        .encode(
            x=x,
            y=alt.Y("hit_rate:Q", scale=RATE_SCALE, axis=rate_axis("Hit rate")),
            color=alt.Color("group:N", scale=palette(groups), legend=legend_of(groups) if named else None),
            tooltip=[
                alt.Tooltip("group:N", title="Group"),
                alt.Tooltip("x_text:N", title=title),
                alt.Tooltip("rate_text:N", title="Hit rate"),
            ],
        )
    )
    if named or groups == ["all"]:
        return [line]
    ends = rows.drop_nulls("hit_rate").group_by("group", maintain_order=True).last().sort("hit_rate")
    labels = ends.with_columns(place=pl.Series(spread(ends["hit_rate"].to_list()), dtype=pl.Float64))
    text = (
        alt.Chart(labels)
        .mark_text(align="left", dx=6, fontWeight=600, clip=False)
        .encode(
            x=x,
            y=alt.Y("place:Q", scale=RATE_SCALE),
            text="group:N",
            color=alt.Color("group:N", scale=palette(groups), legend=None),
        )
    )
    return [line, text]


def spread(places: list[float], apart: float = 0.055) -> list[float]:
    """Ascending places on the 0–1 axis, moved apart until labels of height `apart` do not overlap."""
    found = list(places)
    for _ in range(200):
        moved = False
        for i in range(1, len(found)):
            short = apart - (found[i] - found[i - 1])
            if short > 1e-9:
                found[i - 1] -= short / 2
                found[i] += short / 2
                moved = True
        if not moved:
            break
    return found


def _with_marks(
    layers: list[Any], ceiling: float | None, low: float, x: alt.X, chosen: tuple[int, float | None] | None, field: str
) -> Any:
    labelled = len(layers) > 1
    if ceiling is not None:
        dashed = pl.DataFrame({"rate": [ceiling], field: [float(low)], "text": [f"ceiling {formats.rate(ceiling)}"]})
        base = alt.Chart(dashed).encode(y=alt.Y("rate:Q", scale=RATE_SCALE))
        layers.append(base.mark_rule(strokeDash=[6, 4], color=NEUTRAL, strokeWidth=1.5))
        layers.append(
            base.mark_text(align="left", baseline="bottom", dx=6, dy=-4, color=NEUTRAL).encode(x=x, text="text:N")
        )
    if chosen is not None:
        point = pl.DataFrame(
            {field: [chosen[0]], "hit_rate": [chosen[1]]}, schema={field: pl.Int64, "hit_rate": pl.Float64}
        )
        base = alt.Chart(point).encode(x=x)
        layers.append(base.mark_rule(color=CHOSEN, strokeWidth=1.5, opacity=0.8))
        layers.append(
            base.mark_point(filled=True, size=110, color=CHOSEN, opacity=1).encode(
                y=alt.Y("hit_rate:Q", scale=RATE_SCALE)
            )
        )
    right = 84 if labelled else 12  # room for the labels at the lines' ends
    return alt.layer(*layers).properties(height=380, padding={"right": right, "left": 5, "top": 5, "bottom": 5})


def _doublings(low: float, high: float, bytes_per_token: float | None) -> list[float]:
    """Ticks that double: in GiB where a model is chosen, else in thousands of tokens (1 k, 2 k, 4 k, …, 1.02 M)."""
    import math

    unit = 1000.0 if bytes_per_token is None else (1 << 30) / bytes_per_token
    first, last = math.ceil(math.log2(low / unit)), math.floor(math.log2(high / unit))
    return [unit * 2.0**k for k in range(first, last + 1)]
