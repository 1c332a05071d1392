"""Frames to charts for the page Why: where tokens went, rates over time, the working set, ages of what is re-used."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from app.widgets import formats
from app.widgets.charts import HEIGHT, NEUTRAL, limited

CAUSE_COLOURS = {
    "hit": "#9db4c8",
    "in flight": "#b8608f",
    "routing": "#8a8a2b",
    "TTL": "#56a0c9",
    "capacity": "#2f7fc1",
    "block rounding": "#c77c00",
    "rewritten": "#d55e00",
    "first seen": "#7a7f88",
}
"""Cause -> colour, in the order in which tokens are attributed."""

_SHARE = alt.Axis(title="Share of prompt tokens", labelExpr=formats.VEGA_RATE, values=[0, 0.2, 0.4, 0.6, 0.8, 1])


def cause_bars(frame: pl.DataFrame) -> Any:
    """Stacked shares of each group's prompt tokens. Columns: group, cause, tokens, share, place."""
    groups = frame["group"].unique(maintain_order=True).to_list()
    found = set(frame.filter(pl.col("tokens") > 0)["cause"].to_list())
    present = [cause for cause in CAUSE_COLOURS if cause in found]
    rows = limited(frame.filter(pl.col("cause").is_in(present))).with_columns(
        share_text=pl.col("share").map_elements(formats.rate, pl.String),
        tokens_text=pl.col("tokens").map_elements(formats.tokens, pl.String),
    )
    return (
        alt.Chart(rows)
        .mark_bar(height={"band": 0.72})
        .encode(
            y=alt.Y("group:N", title=None, sort=groups, axis=alt.Axis(labelLimit=180)),
            x=alt.X("share:Q", axis=_SHARE, scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "cause:N", scale=alt.Scale(domain=present, range=[CAUSE_COLOURS[c] for c in present]),
                legend=alt.Legend(orient="top", title=None, columns=4),
            ),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("group:N", title="Group"),
                alt.Tooltip("cause:N", title="Tokens"),
                alt.Tooltip("share_text:N", title="Share"),
                alt.Tooltip("tokens_text:N", title="Count"),
            ],
        )
        .properties(height=alt.Step(44))
    )  # fmt: skip


def rate_over_time(frame: pl.DataFrame) -> Any:
    """Hit rate of each stretch and of all so far; warm-up is shaded. Columns of the query hit_rate_over_time."""
    x = alt.X("until_s:Q", title="Time since the first request", axis=alt.Axis(labelExpr=formats.VEGA_SECONDS))
    rows = limited(frame).with_columns(
        rate_text=pl.col("hit_rate").map_elements(formats.rate, pl.String),
        time_text=pl.col("until_s").map_elements(formats.seconds, pl.String),
    )
    scale = alt.Scale(domain=[0, 1])
    axis = alt.Axis(title="Hit rate", labelExpr=formats.VEGA_RATE)
    base = alt.Chart(rows).encode(x=x)
    points = base.mark_point(filled=True, size=36, color="#2f7fc1").encode(
        y=alt.Y("hit_rate:Q", scale=scale, axis=axis),
        opacity=alt.condition("datum.warming_up", alt.value(0.35), alt.value(0.9)),
        tooltip=[
            alt.Tooltip("time_text:N", title="Until"),
            alt.Tooltip("rate_text:N", title="Hit rate"),
            alt.Tooltip("requests:Q", title="Requests", format=","),
        ],
    )
    line = base.mark_line(color=NEUTRAL, strokeWidth=2).encode(y=alt.Y("hit_rate_so_far:Q", scale=scale, axis=axis))
    warm = rows.filter("warming_up")
    if warm.is_empty():
        return alt.layer(line, points).properties(height=HEIGHT)
    shade = pl.DataFrame({"from_s": [0.0], "until_s": [float(warm["until_s"].max())]})  # type: ignore[arg-type]
    band = alt.Chart(shade).mark_rect(color=NEUTRAL, opacity=0.12).encode(x=alt.X("from_s:Q"), x2="until_s:Q")
    return alt.layer(band, line, points).properties(height=HEIGHT)


def working_set_area(frame: pl.DataFrame) -> Any:
    """Tokens touched in each stretch of time, and how many of them are new. Columns of the query working_set."""
    long = pl.concat(
        limited(frame).select("until_s", "live_sessions", part=pl.lit(part), tokens=tokens)
        for part, tokens in (
            ("used again", pl.col("touched_tokens") - pl.col("new_tokens")),
            ("new", pl.col("new_tokens")),
        )
    ).with_columns(
        tokens_text=pl.col("tokens").map_elements(formats.tokens, pl.String),
        time_text=pl.col("until_s").map_elements(formats.seconds, pl.String),
    )
    return (
        alt.Chart(long)
        .mark_bar()
        .encode(
            x=alt.X("until_s:Q", title="Time since the first request", axis=alt.Axis(labelExpr=formats.VEGA_SECONDS)),
            y=alt.Y("tokens:Q", title="Distinct tokens touched", axis=alt.Axis(labelExpr=formats.VEGA_TOKENS)),
            color=alt.Color(
                "part:N", scale=alt.Scale(domain=["used again", "new"], range=["#2f7fc1", "#d55e00"]),
                legend=alt.Legend(orient="top", title=None),
            ),
            tooltip=[
                alt.Tooltip("time_text:N", title="Until"),
                alt.Tooltip("part:N", title="Tokens"),
                alt.Tooltip("tokens_text:N", title="Count"),
                alt.Tooltip("live_sessions:Q", title="Sessions live", format=","),
            ],
        )
        .properties(height=HEIGHT)
    )  # fmt: skip


def age_lines(frame: pl.DataFrame, block: int) -> Any:
    """Age by cache size, median and p10 to p90: of what is re-used, or of what is evicted (`eviction_age`)."""
    rows = limited(frame).with_columns(
        capacity_tokens=pl.col("capacity_blocks") * block,
        age_text=pl.col("age_s_p50").map_elements(formats.seconds, pl.String),
    )
    x = alt.X(
        "capacity_tokens:Q", title="Cache size, tokens", scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(labelExpr=formats.VEGA_TOKENS),
    )  # fmt: skip
    y = alt.Y("age_s_p50:Q", title="Time since last use", axis=alt.Axis(labelExpr=formats.VEGA_SECONDS))
    base = alt.Chart(rows).encode(x=x)
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("age_s_p10:Q"), y2="age_s_p90:Q")
    line = base.mark_line(point=True).encode(y=y, tooltip=[alt.Tooltip("age_text:N", title="Median age")])
    return alt.layer(band, line).properties(height=HEIGHT)
