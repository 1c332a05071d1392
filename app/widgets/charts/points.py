"""Points in a plane: policies by hit rate and evenness, speeds by concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from app.widgets import formats
from app.widgets.charts.lines import spread
from app.widgets.charts.scales import (
    ALL,
    CHOSEN,
    HEIGHT,
    NEUTRAL,
    RATE_SCALE,
    groups_of,
    legend_of,
    limited,
    palette,
    rate_axis,
    tipped,
)

if TYPE_CHECKING:
    from analysis.replica.interactivity import Point


def frontier(rows: pl.DataFrame, band: Sequence[float] | None) -> Any:
    """Hit rate against dispersion of load; up and to the left is better. Dominated policies are grey.

    Args:
        rows: policy, hit_rate, vmr_running_requests, p99_running_requests, one_cache_hit_rate, dominated.
        band: 95 % of one look at loads that are pure luck, shaded; None: not drawn.
    """
    places = _places(rows)
    text, tooltip = tipped(
        rows.with_columns(
            side=pl.when("dominated").then(pl.lit("dominated")).otherwise(pl.lit("on the frontier")),
            place=pl.Series(places, dtype=pl.Float64),
        ),
        {"Policy": ("policy", None), "Hit rate": ("hit_rate", formats.rate),
         "Variance / mean": ("vmr_running_requests", lambda v: formats.plain(v, 2)),
         "p99 running": ("p99_running_requests", formats.plain)},
    )  # fmt: skip
    highest = max(rows["vmr_running_requests"].drop_nulls().to_list(), default=0.0)  # only how far the axis goes
    log = highest > 4  # herding policies would push all others into one corner
    scale = alt.Scale(type="symlog", constant=1, domainMin=0) if log else alt.Scale(domain=[0, 1.15 * max(highest, 1)])
    x = alt.X(
        "vmr_running_requests:Q", scale=scale, title="Variance over mean of running requests (lower is more even)",
        axis=alt.Axis(values=[0, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512] if log else alt.Undefined),
    )  # fmt: skip
    shown = [*rows["hit_rate"].to_list(), *rows["one_cache_hit_rate"].to_list()]
    low, high = min(shown), max(shown)
    margin = max(0.01, 0.12 * (high - low))
    axis = alt.Axis(
        title="Hit rate", labelExpr="datum.value > 1 ? '' : format(datum.value * 100, '.3~f') + ' %'", tickCount=6
    )
    ends = [max(0.0, low - margin), min(1.0, high + margin), *places]  # names may stand above 100 %
    y_scale = alt.Scale(domain=[min(ends), max(ends)], nice=False)
    colour = alt.Color(
        "side:N", legend=alt.Legend(orient="top", title=None),
        scale=alt.Scale(domain=["on the frontier", "dominated"], range=[ALL, NEUTRAL]),
    )  # fmt: skip
    base = alt.Chart(text).encode(
        x=x,
        tooltip=tooltip,
    )
    points = base.mark_point(filled=True, size=90, opacity=1).encode(
        y=alt.Y("hit_rate:Q", scale=y_scale, axis=axis), color=colour
    )
    names = base.mark_text(align="left", dx=9, fontWeight=600, clip=False).encode(
        y=alt.Y("place:Q", scale=y_scale), text="policy:N", color=colour
    )
    layers = []
    if band is not None:
        luck = alt.Chart(pl.DataFrame({"low": [band[0]], "high": [min(band[1], 1.15 * max(highest, 1))]}))
        layers.append(
            luck.mark_rect(color=NEUTRAL, opacity=0.13, clip=True).encode(x=alt.X("low:Q", scale=scale), x2="high:Q")
        )
    best = fmean(rows["one_cache_hit_rate"].to_list())
    rule = alt.Chart(pl.DataFrame({"rate": [best]})).encode(y=alt.Y("rate:Q", scale=y_scale))
    layers.append(rule.mark_rule(strokeDash=[6, 4], color=NEUTRAL, strokeWidth=1.5))
    edge = base.transform_filter("datum.side == 'on the frontier'").mark_line(
        color=ALL, opacity=0.35, strokeWidth=1.5, interpolate="step-after"
    )
    layers.append(edge.encode(y=alt.Y("hit_rate:Q", scale=y_scale), order="vmr_running_requests:Q"))
    return alt.layer(*layers, points, names).properties(
        height=400, padding={"right": 110, "left": 5, "top": 5, "bottom": 5}
    )


def _places(rows: pl.DataFrame) -> list[float]:
    """Where on the rate axis the names stand: beside their points, moved apart where they would overlap."""
    rates = rows["hit_rate"].to_list()
    order = sorted(range(len(rates)), key=rates.__getitem__)
    apart = 0.055 * max(0.02, 1.24 * (max(rates) - min(rates)))
    moved = spread([rates[k] for k in order], apart)
    places = list(rates)
    for k, place in zip(order, moved, strict=True):
        places[k] = place
    return places


def speed_lines(points: Sequence[Point], fits: float) -> Any:
    """Tokens/s of a user against tokens/s of a GPU over concurrency: the careful and the bold end of the assumptions.

    Args:
        points: one a batch.
        fits: sessions that the cache holds at once; larger batches are drawn hollow.
    """
    rows = [
        {
            "end": end,
            "batch": p.batch,
            "user": p.tokens_per_s_per_user[i],
            "gpu": p.tokens_per_s_per_gpu[i],
            "held": "fits" if p.batch <= fits else "more than the cache holds",
        }
        for i, end in enumerate(("careful", "bold"))
        for p in points
    ]
    frame = pl.DataFrame(rows)
    log = alt.Scale(type="log", base=2, nice=False, padding=16)
    x = alt.X("user:Q", title="Tokens a second of one user", scale=log)
    y = alt.Y("gpu:Q", title="Tokens a second of one GPU", scale=log)
    ends = alt.Scale(domain=["careful", "bold"], range=["#56a0c9", "#1f6fb2"])
    base = alt.Chart(frame).encode(x=x, y=y, order="batch:Q")
    line = base.mark_line(strokeWidth=2).encode(
        color=alt.Color("end:N", scale=ends, legend=alt.Legend(orient="top", title="End of the assumptions"))
    )
    held = ["fits", "more than the cache holds"]
    dots = base.mark_point(size=60, strokeWidth=1.5).encode(
        color=alt.Color("end:N", scale=ends),
        fill=alt.Fill("end:N", scale=ends, legend=None),
        fillOpacity=alt.FillOpacity("held:N", scale=alt.Scale(domain=held, range=[1, 0]), legend=None),
        tooltip=[
            alt.Tooltip("batch:Q", title="Requests at once"),
            alt.Tooltip("user:Q", title="Tokens/s, user", format=",.0f"),
            alt.Tooltip("gpu:Q", title="Tokens/s, GPU", format=",.0f"),
            alt.Tooltip("held:N", title="KV cache"),
        ],
    )
    text = base.mark_text(align="left", dx=7, dy=-5, color=NEUTRAL, fontSize=11).encode(text="batch:Q")
    return alt.layer(line, dots, text).properties(height=340)


def at_once_lines(rows: pl.DataFrame, ceiling: float, knee: int | None) -> Any:
    """Hit rate over sessions at once. Columns: group, at_once, hit_rate; `knee`: a number to mark."""
    groups = groups_of(rows)
    frame, tooltip = tipped(
        rows,
        {"Sessions": ("at_once", formats.count), "Which run": ("group", None), "Hit rate": ("hit_rate", formats.rate)},
    )
    x = alt.X("at_once:Q", title="Sessions at once", axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False))
    colour = alt.Color("group:N", scale=palette(groups), legend=legend_of(groups))
    line = alt.Chart(frame).mark_line(strokeWidth=2.5, point=True).encode(
        x=x, y=alt.Y("hit_rate:Q", scale=RATE_SCALE, axis=rate_axis("Hit rate")), color=colour, tooltip=tooltip
    )  # fmt: skip
    top = alt.Chart(pl.DataFrame({"rate": [ceiling]})).mark_rule(strokeDash=[6, 4], color=NEUTRAL, strokeWidth=1.5)
    layers = [line, top.encode(y=alt.Y("rate:Q", scale=RATE_SCALE))]
    if knee is not None and knee <= int(rows["at_once"].max()):  # type: ignore[arg-type]
        mark = alt.Chart(pl.DataFrame({"at_once": [knee], "text": [f"knee: {knee}"]})).encode(x=x)
        layers.append(mark.mark_rule(color=CHOSEN, strokeWidth=1.5))
        text = mark.mark_text(align="left", baseline="bottom", dx=6, color=CHOSEN, fontWeight=600)
        layers.append(text.encode(y=alt.datum(0.03, scale=RATE_SCALE), text="text:N"))
    return alt.layer(*layers).properties(height=HEIGHT)


def plain_chart(frame: pl.DataFrame, x: str, y: str) -> Any:
    """A user's own rows: a line where `x` is a number or a time, else bars, in the order of the rows."""
    rows = limited(frame.select(x=pl.col(x), y=pl.col(y)))
    upright = alt.Y("y:Q", title=y)
    if rows["x"].dtype.is_numeric() or rows["x"].dtype.is_temporal():
        kind = "T" if rows["x"].dtype.is_temporal() else "Q"
        along = alt.X(f"x:{kind}", title=x)
        return alt.Chart(rows).mark_line(point=True, color=ALL).encode(x=along, y=upright).properties(height=HEIGHT)
    along = alt.X("x:N", title=x, sort=None, axis=alt.Axis(labelLimit=160))
    return alt.Chart(rows.with_columns(pl.col("x").cast(pl.String))).mark_bar(color=ALL).encode(
        x=along, y=upright
    ).properties(height=HEIGHT)  # fmt: skip


def forest(rows: pl.DataFrame) -> Any:
    """Relative differences with their intervals, and the line of no difference. Columns: metric, change, low, high."""
    frame, tooltip = tipped(
        rows, {"Figure": ("metric", None), "Difference": ("change", formats.rate), "From": ("low", formats.rate),
               "To": ("high", formats.rate)},
    )  # fmt: skip
    axis = alt.Axis(title="Difference, relative to A", labelExpr=formats.VEGA_RATE)
    y = alt.Y("metric:N", sort=None, title=None, axis=alt.Axis(labelLimit=220))
    base = alt.Chart(frame).encode(y=y, tooltip=tooltip)
    none = alt.Chart(pl.DataFrame({"change": [0.0]})).mark_rule(color=NEUTRAL, strokeDash=[6, 4]).encode(x="change:Q")
    scale = alt.Scale(domain=[-1, 2], clamp=True, nice=False)  # what lies beyond ends at the edge
    whisker = base.mark_rule(color=ALL, strokeWidth=2).encode(x=alt.X("low:Q", axis=axis, scale=scale), x2="high:Q")
    place = alt.X("change:Q", axis=axis, scale=scale)
    point = base.mark_point(filled=True, size=80, color=ALL, opacity=1).encode(x=place)
    return alt.layer(none, whisker, point).properties(height=28 * rows.height + 60)
