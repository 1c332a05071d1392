"""Charts of the page Replicas: the frontier, load per replica over time, fleets against an objective."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import altair as alt
import polars as pl

from app.widgets import charts, curve_charts, formats

VERDICTS = {"keeps it": "#009e73", "breaks it": "#d55e00", "unknown": charts.NEUTRAL}


def frontier(rows: pl.DataFrame, band: Sequence[float] | None) -> Any:
    """Hit rate against dispersion of load; up and to the left is better. Dominated policies are grey.

    Args:
        rows: policy, hit_rate, vmr_running_requests, p99_running_requests, one_cache_hit_rate, dominated.
        band: 95 % of one look at loads that are pure luck, shaded; None: not drawn.
    """
    places = _places(rows)
    text = charts.limited(rows).with_columns(
        rate=pl.col("hit_rate").map_elements(formats.rate, pl.String),
        spread=pl.col("vmr_running_requests").map_elements(lambda v: formats.plain(v, 2), pl.String),
        side=pl.when("dominated").then(pl.lit("dominated")).otherwise(pl.lit("on the frontier")),
        place=pl.Series(places, dtype=pl.Float64),
    )
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
        scale=alt.Scale(domain=["on the frontier", "dominated"], range=[charts.ALL, charts.NEUTRAL]),
    )  # fmt: skip
    base = alt.Chart(text).encode(
        x=x,
        tooltip=[
            alt.Tooltip("policy:N", title="Policy"),
            alt.Tooltip("rate:N", title="Hit rate"),
            alt.Tooltip("spread:N", title="Variance / mean"),
            alt.Tooltip("p99_running_requests:Q", title="p99 running", format=".1f"),
        ],
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
            luck.mark_rect(color=charts.NEUTRAL, opacity=0.13, clip=True).encode(
                x=alt.X("low:Q", scale=scale), x2="high:Q"
            )
        )
    best = fmean(rows["one_cache_hit_rate"].to_list())
    rule = alt.Chart(pl.DataFrame({"rate": [best]})).encode(y=alt.Y("rate:Q", scale=y_scale))
    layers.append(rule.mark_rule(strokeDash=[6, 4], color=charts.NEUTRAL, strokeWidth=1.5))
    edge = base.transform_filter("datum.side == 'on the frontier'").mark_line(
        color=charts.ALL, opacity=0.35, strokeWidth=1.5, interpolate="step-after"
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
    moved = curve_charts.spread([rates[k] for k in order], apart)
    places = list(rates)
    for k, place in zip(order, moved, strict=True):
        places[k] = place
    return places


def load_map(rows: pl.DataFrame) -> Any:
    """Requests in flight per replica over time. Columns: replica, from_s, to_s, running."""
    text = charts.limited(rows).with_columns(
        said=pl.col("running").map_elements(lambda v: formats.plain(v, 1), pl.String),
        since=pl.col("from_s").map_elements(formats.seconds, pl.String),
    )
    replicas = rows["replica"].n_unique()
    return (
        alt.Chart(text)
        .mark_rect(color=charts.ALL)
        .encode(
            x=alt.X(
                "from_s:Q", title="Time since the first arrival", scale=alt.Scale(nice=False),
                axis=alt.Axis(labelExpr=formats.VEGA_SECONDS, values=_round_times(rows["to_s"].to_list())),
            ),
            x2="to_s:Q",
            y=alt.Y("replica:O", title="Replica", axis=alt.Axis(labelOverlap="greedy")),
            opacity=alt.Opacity(
                "running:Q", scale=alt.Scale(range=[0.03, 1], domainMin=0),
                legend=alt.Legend(orient="top", title="Requests in flight", symbolType="square"),
            ),
            tooltip=[
                alt.Tooltip("replica:O", title="Replica"),
                alt.Tooltip("since:N", title="From"),
                alt.Tooltip("said:N", title="In flight, mean"),
            ],
        )
        .properties(height=min(480, 24 * replicas + 120))
    )  # fmt: skip


def _round_times(seconds: Sequence[float]) -> list[float]:
    """At most nine ticks at round times up to the last of `seconds`."""
    last = max(seconds)
    steps = (1, 5, 15, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)
    step = next((s for s in steps if last / s <= 8), last / 8)
    return [step * k for k in range(int(last / step) + 1)]


def objective_map(rows: pl.DataFrame, order: Sequence[str]) -> Any:
    """Which fleets keep an objective. Columns: policy, fleet, verdict, said; `order`: fleets from left to right."""
    base = alt.Chart(charts.limited(rows)).encode(
        x=alt.X(
            "fleet:N", sort=list(order), title="Replicas × cache of each", axis=alt.Axis(orient="top", labelAngle=0)
        ),
        y=alt.Y(
            "policy:N",
            title=None,
            sort=rows["policy"].unique(maintain_order=True).to_list(),
            axis=alt.Axis(labelLimit=200),
        ),
        tooltip=[
            alt.Tooltip("policy:N", title="Policy"),
            alt.Tooltip("fleet:N", title="Fleet"),
            alt.Tooltip("verdict:N", title="Objective"),
            alt.Tooltip("said:N", title="Figures"),
        ],
    )
    cells = base.mark_rect(opacity=0.85, stroke="white", strokeWidth=1).encode(
        color=alt.Color(
            "verdict:N", legend=alt.Legend(orient="top", title=None),
            scale=alt.Scale(domain=list(VERDICTS), range=list(VERDICTS.values())),
        )
    )  # fmt: skip
    text = base.mark_text(color="white", fontWeight=600).encode(text="said:N")
    return alt.layer(cells, text).properties(height=34 * rows["policy"].n_unique() + 90)
