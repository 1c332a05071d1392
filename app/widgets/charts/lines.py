"""Lines over capacity, TTL, turns, time and context, with bands and marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import polars as pl

from app.widgets import formats
from app.widgets.charts.scales import (
    ALL,
    CHOSEN,
    HEIGHT,
    LINES_WITH_LABELS,
    NEUTRAL,
    RATE_SCALE,
    REPLICA,
    groups_of,
    legend_of,
    palette,
    rate_axis,
    tipped,
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


def _lines(rows: pl.DataFrame, x: alt.X, field: str, title: str, written: Callable[[Any], str]) -> list[Any]:
    groups = groups_of(rows)
    named = len(groups) > LINES_WITH_LABELS
    frame, tooltip = tipped(
        rows, {"Group": ("group", None), title: (field, written), "Hit rate": ("hit_rate", formats.rate)}
    )
    line = (
        alt.Chart(frame)
        .mark_line(strokeWidth=2.5, interpolate="linear")
        .encode(
            x=x,
            y=alt.Y("hit_rate:Q", scale=RATE_SCALE, axis=rate_axis("Hit rate")),
            color=alt.Color("group:N", scale=palette(groups), legend=legend_of(groups) if named else None),
            tooltip=tooltip,
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
    unit = 1000.0 if bytes_per_token is None else (1 << 30) / bytes_per_token
    first, last = math.ceil(math.log2(low / unit)), math.floor(math.log2(high / unit))
    return [unit * 2.0**k for k in range(first, last + 1)]


def growth_lines(frame: pl.DataFrame) -> Any:
    """Prompt length by turn: the median as a line, p10 to p90 as a band. Columns of the query context_growth."""
    groups = groups_of(frame)
    rows, tooltip = tipped(
        frame,
        {"Type": ("group", None), "Turn": ("turn", formats.count),
         "Sessions that get here": ("sessions", formats.count), "p10": ("input_tokens_p10", formats.tokens),
         "Median": ("input_tokens_p50", formats.tokens), "p90": ("input_tokens_p90", formats.tokens)},
    )  # fmt: skip
    base = alt.Chart(rows).encode(
        x=alt.X("turn:Q", title="Turn (0 is the first request)", axis=alt.Axis(tickMinStep=1, format="d")),
        color=alt.Color("group:N", scale=palette(groups), legend=legend_of(groups)),
        tooltip=tooltip,
    )
    axis = alt.Axis(title="Prompt tokens", labelExpr=formats.VEGA_TOKENS)
    line = base.mark_line(strokeWidth=2.5, interpolate="step-after").encode(y=alt.Y("input_tokens_p50:Q", axis=axis))
    points = (
        base.transform_filter("datum.group == 'single'").mark_point(filled=True, size=60).encode(y="input_tokens_p50:Q")
    )
    if len(groups) > 1:
        return alt.layer(line, points).properties(height=HEIGHT)
    band = base.mark_area(opacity=0.2, interpolate="step-after").encode(
        y=alt.Y("input_tokens_p10:Q", axis=axis), y2="input_tokens_p90:Q"
    )
    return alt.layer(band, line, points).properties(height=HEIGHT)


def rate_over_time(frame: pl.DataFrame) -> Any:
    """Hit rate of each stretch and of all so far; warm-up is shaded. Columns of the query hit_rate_over_time."""
    x = alt.X("until_s:Q", title="Time since the first request", axis=alt.Axis(labelExpr=formats.VEGA_SECONDS))
    rows, tooltip = tipped(
        frame,
        {"Until": ("until_s", formats.seconds), "Hit rate": ("hit_rate", formats.rate),
         "Requests": ("requests", formats.count)},
    )  # fmt: skip
    scale = alt.Scale(domain=[0, 1])
    axis = alt.Axis(title="Hit rate", labelExpr=formats.VEGA_RATE)
    base = alt.Chart(rows).encode(x=x)
    points = base.mark_point(filled=True, size=36, color="#2f7fc1").encode(
        y=alt.Y("hit_rate:Q", scale=scale, axis=axis),
        opacity=alt.condition("datum.warming_up", alt.value(0.35), alt.value(0.9)),
        tooltip=tooltip,
    )
    line = base.mark_line(color=NEUTRAL, strokeWidth=2).encode(y=alt.Y("hit_rate_so_far:Q", scale=scale, axis=axis))
    warm = rows.filter("warming_up")
    if warm.is_empty():
        return alt.layer(line, points).properties(height=HEIGHT)
    shade = pl.DataFrame({"from_s": [0.0], "until_s": [float(warm["until_s"].max())]})  # type: ignore[arg-type]
    band = alt.Chart(shade).mark_rect(color=NEUTRAL, opacity=0.12).encode(x=alt.X("from_s:Q"), x2="until_s:Q")
    return alt.layer(band, line, points).properties(height=HEIGHT)


def age_lines(frame: pl.DataFrame, block: int) -> Any:
    """Age by cache size, median and p10 to p90: of reused blocks, or of evicted ones (`eviction_age`)."""
    sized = frame.with_columns(capacity_tokens=pl.col("capacity_blocks") * block)
    rows, tooltip = tipped(sized, {"Median age": ("age_s_p50", formats.seconds)})
    x = alt.X(
        "capacity_tokens:Q", title="Cache size, tokens", scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(labelExpr=formats.VEGA_TOKENS),
    )  # fmt: skip
    y = alt.Y("age_s_p50:Q", title="Time since last use", axis=alt.Axis(labelExpr=formats.VEGA_SECONDS))
    base = alt.Chart(rows).encode(x=x)
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("age_s_p10:Q"), y2="age_s_p90:Q")
    line = base.mark_line(point=True).encode(y=y, tooltip=tooltip)
    return alt.layer(band, line).properties(height=HEIGHT)


def session_lines(rows: pl.DataFrame, marks: Sequence[tuple[str, float]]) -> Any:
    """Sessions at once over their context. Columns: context_tokens, sessions, low, high; marks: (label, tokens)."""
    ranges = [f"{low:.1f} to {high:.1f}" for low, high in zip(rows["low"], rows["high"], strict=True)]
    text, tooltip = tipped(
        rows.with_columns(range=pl.Series(ranges, dtype=pl.String)),
        {"Context": ("context_tokens", formats.tokens), "Sessions": ("sessions", formats.plain),
         "Range": ("range", None)},
    )  # fmt: skip
    low, high = rows["context_tokens"].to_list()[0], rows["context_tokens"].to_list()[-1]
    x = alt.X(
        "context_tokens:Q", scale=alt.Scale(type="log", base=2, domain=[low, high], nice=False),
        axis=alt.Axis(labelExpr=formats.VEGA_TOKENS, labelOverlap="greedy", values=[1000 * 2**k for k in range(14)],
                      title="Tokens of a session: context and the reply in flight"),
    )  # fmt: skip
    floor = 0.8 * max(0.05, min(rows["low"].to_list()))
    y = alt.Scale(type="log", domainMin=floor, clamp=True)
    base = alt.Chart(text).encode(
        x=x,
        tooltip=tooltip,
    )
    area = base.mark_area(opacity=0.18, color=ALL).encode(
        y=alt.Y("low:Q", scale=y, title="Sessions that fit at once"), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2.5, color=ALL).encode(y=alt.Y("sessions:Q", scale=y))
    layers = [area, line]
    if marks:
        frame = pl.DataFrame(
            {"context_tokens": [float(m[1]) for m in marks], "label": [m[0] for m in marks],
             "row": [i % 2 for i in range(len(marks))]}
        )  # fmt: skip
        at = alt.Chart(frame).encode(x=x)
        layers.append(at.mark_rule(strokeDash=[4, 4], color=NEUTRAL))
        layers += [
            at.transform_filter(f"datum.row == {row}")
            .mark_text(align="left", baseline="top", dx=4, color=NEUTRAL)
            .encode(y=alt.value(4 + 15 * row), text="label:N")
            for row in (0, 1)
        ]
    return alt.layer(*layers).properties(height=300)
