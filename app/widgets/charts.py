"""Frames to charts. Nothing is computed here but where things are drawn; a chart gets at most `MOST_ROWS` rows.

Colour is the trajectory type everywhere, in one order. The palette keeps its steps apart under the common kinds of
colour blindness and on light and dark ground.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from app.widgets import formats

MOST_ROWS = 2000
HEIGHT = 320

TYPE_COLOURS = {
    "append": "#2f7fc1",
    "branched": "#c77c00",
    "compacted": "#009e73",
    "edited": "#d55e00",
    "single": "#b8608f",
    "unknown": "#8a8a2b",
    "all": "#7a7f88",
}
OTHER_COLOURS = ["#2f7fc1", "#c77c00", "#009e73", "#d55e00", "#b8608f", "#56a0c9", "#8a8a2b", "#7a7f88"]
NEUTRAL = "#7a7f88"
ALL = "#2f7fc1"
CHOSEN = "#e0457b"
REPLICA = "#c77c00"
LINES_WITH_LABELS = 6


class TooManyRows(ValueError):
    """A frame that was not aggregated before it came here."""


def limited(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame, if a chart may have it.

    Raises:
        TooManyRows: above `MOST_ROWS` rows.
    """
    if frame.height > MOST_ROWS:
        raise TooManyRows(f"{frame.height} rows; a chart gets at most {MOST_ROWS}, aggregated in SQL")
    return frame


def png(chart: Any) -> bytes:
    """The chart as a PNG at 2 ×, always on white."""
    import io

    out = io.BytesIO()
    chart.configure(background="white").properties(width=760).save(out, format="png", scale_factor=2)
    return out.getvalue()


def palette(groups: list[str]) -> alt.Scale:
    """A colour for each group: the trajectory type's own, else the palette's in order."""
    if groups == ["all"]:
        return alt.Scale(domain=groups, range=[ALL])
    others = [g for g in groups if g != "all"]
    if all(g in TYPE_COLOURS for g in groups):
        shown = [g for g in TYPE_COLOURS if g in groups]
        return alt.Scale(domain=shown, range=[TYPE_COLOURS[g] for g in shown])
    colours = [OTHER_COLOURS[i % len(OTHER_COLOURS)] for i in range(len(others))]
    if "all" in groups:
        return alt.Scale(domain=[*others, "all"], range=[*colours, TYPE_COLOURS["all"]])
    return alt.Scale(domain=others, range=colours)


def groups_of(frame: pl.DataFrame) -> list[str]:
    """The groups of a frame, in order."""
    return frame["group"].unique(maintain_order=True).to_list()


def rate_axis(title: str, **more: Any) -> alt.Axis:
    """An axis of rates."""
    return alt.Axis(title=title, labelExpr=formats.VEGA_RATE, values=[0, 0.2, 0.4, 0.6, 0.8, 1], **more)


RATE_SCALE = alt.Scale(domain=[0, 1], clamp=False)


def ceiling_bars(frame: pl.DataFrame) -> Any:
    """By group: the ceiling as a bar, the reported rate as a tick. Columns: group, ceiling, reported, requests."""
    rows = limited(frame).with_columns(
        label=pl.Series([formats.rate(v) for v in frame["ceiling"]]),
        reported_text=pl.Series([formats.rate(v) for v in frame["reported"]]),
        input_text=pl.Series([formats.tokens(v) for v in frame["input_tokens"]]),
    )
    groups = groups_of(frame)
    base = alt.Chart(rows).encode(
        y=alt.Y("group:N", title=None, sort=groups, axis=alt.Axis(labelLimit=180)),
        tooltip=[
            alt.Tooltip("group:N", title="Group"),
            alt.Tooltip("label:N", title="Ceiling"),
            alt.Tooltip("reported_text:N", title="Reported"),
            alt.Tooltip("requests:Q", title="Requests", format=","),
            alt.Tooltip("input_text:N", title="Input tokens"),
        ],
    )
    bars = base.mark_bar(height={"band": 0.62}, cornerRadiusEnd=3).encode(
        x=alt.X("ceiling:Q", scale=RATE_SCALE, axis=rate_axis("Share of prompt tokens")),
        color=alt.Color("group:N", scale=palette(groups), legend=None),
    )
    inside = base.transform_filter("datum.ceiling >= 0.2").mark_text(
        align="right", dx=-6, color="white", fontWeight=600
    )
    beside = base.transform_filter("datum.ceiling < 0.2").mark_text(align="left", dx=8, color=NEUTRAL, fontWeight=600)
    layers = [bars, *(text.encode(x="ceiling:Q", text="label:N") for text in (inside, beside))]
    if frame["reported"].null_count() < frame.height:
        layers.append(
            base.mark_tick(color=CHOSEN, thickness=3, height={"band": 0.9}).encode(
                x=alt.X("reported:Q", scale=RATE_SCALE)
            )
        )
    return alt.layer(*layers).properties(height=40 * len(groups) + 60)


def turn_bars(frame: pl.DataFrame) -> Any:
    """Main sessions by number of turns. Columns: group, turns_from, turns, sessions."""
    order = frame.unique("turns_from").sort("turns_from")["turns"].to_list()
    groups = groups_of(frame)
    return (
        alt.Chart(limited(frame))
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("turns:N", title="Turns of a session", sort=order, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("sessions:Q", title="Sessions", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color("group:N", title="Trajectory type", scale=palette(groups), legend=legend_of(groups)),
            order=alt.Order("group:N"),
            tooltip=[
                "turns:N",
                alt.Tooltip("group:N", title="Type"),
                alt.Tooltip("sessions:Q", title="Sessions", format=","),
            ],
        )
        .properties(height=HEIGHT)
    )


def legend_of(groups: list[str]) -> Any:
    """A legend where there is more than one group."""
    return None if len(groups) < 2 else alt.Legend(orient="top", title=None)


def growth_lines(frame: pl.DataFrame) -> Any:
    """Prompt length by turn: the median as a line, p10 to p90 as a band. Columns of the query context_growth."""
    groups = groups_of(frame)
    rows = limited(frame).with_columns(
        (pl.Series([formats.tokens(v) for v in frame[name]])).alias(f"{name}_text")
        for name in ("input_tokens_p10", "input_tokens_p50", "input_tokens_p90")
    )
    base = alt.Chart(rows).encode(
        x=alt.X("turn:Q", title="Turn (0 is the first request)", axis=alt.Axis(tickMinStep=1, format="d")),
        color=alt.Color("group:N", scale=palette(groups), legend=legend_of(groups)),
        tooltip=[
            alt.Tooltip("group:N", title="Type"),
            alt.Tooltip("turn:Q", title="Turn"),
            alt.Tooltip("sessions:Q", title="Sessions that get here", format=","),
            alt.Tooltip("input_tokens_p10_text:N", title="p10"),
            alt.Tooltip("input_tokens_p50_text:N", title="Median"),
            alt.Tooltip("input_tokens_p90_text:N", title="p90"),
        ],
    )
    title = "Prompt tokens"
    axis = alt.Axis(title=title, labelExpr=formats.VEGA_TOKENS)
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


def gap_bars(frame: pl.DataFrame) -> Any:
    """Gaps between a session's requests by bucket. Columns of the query gaps."""
    order = frame.group_by("gap_group").agg(pl.col("gap_s_min").min()).sort("gap_s_min")["gap_group"].to_list()
    return (
        alt.Chart(limited(frame))
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("gap_group:N", title="Gap to the session's next request", sort=order, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("requests:Q", title="Requests", axis=alt.Axis(tickMinStep=1, format="~s")),
            color=alt.Color(
                "trigger:N", legend=alt.Legend(orient="top", title="The request answers"),
                scale=alt.Scale(domain=["user", "tool", "unknown"], range=["#56a0c9", "#1f5a8c", NEUTRAL]),
            ),
            tooltip=[
                alt.Tooltip("gap_group:N", title="Gap"),
                alt.Tooltip("trigger:N", title="Trigger"),
                alt.Tooltip("requests:Q", title="Requests", format=","),
            ],
        )
        .properties(height=HEIGHT)
    )  # fmt: skip


def transition_bars(frame: pl.DataFrame) -> Any:
    """Prompt tokens by transition, split into hit and miss. Columns of the query transitions."""
    order = frame.sort("prefix_tokens", descending=True, nulls_last=True)["transition"].to_list()
    long = pl.concat(
        frame.select(
            "transition", "requests", part=pl.lit(part), tokens=tokens,
        )
        for part, tokens in (
            ("shared", pl.col("hit_tokens")),
            ("new", pl.col("prefix_tokens") - pl.col("hit_tokens")),
        )
    ).with_columns(text=pl.col("tokens").map_elements(formats.tokens, pl.String))  # fmt: skip
    parts = ["shared", "new"]
    return (
        alt.Chart(limited(long))
        .mark_bar(height={"band": 0.62})
        .encode(
            y=alt.Y("transition:N", title=None, sort=order),
            x=alt.X("tokens:Q", title="Prompt tokens", axis=alt.Axis(labelExpr=formats.VEGA_TOKENS)),
            color=alt.Color(
                "part:N", scale=alt.Scale(domain=parts, range=["#9db4c8", "#d55e00"]), legend=legend_of(parts)
            ),
            order=alt.Order("part:N", sort="descending"),
            tooltip=[
                alt.Tooltip("transition:N", title="Transition"),
                alt.Tooltip("part:N", title="Tokens"),
                alt.Tooltip("text:N", title="Count"),
                alt.Tooltip("requests:Q", title="Requests", format=","),
            ],
        )
        .properties(height=34 * frame.height + 110)
    )
