"""Frames to charts. Nothing is computed here but where things are drawn; a chart gets at most `MOST_ROWS` rows.

Colour is the trajectory type everywhere, in one order. The palette keeps its steps apart under the common kinds of
colour blindness and on light and dark ground.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from app import formats

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


def _groups(frame: pl.DataFrame) -> list[str]:
    return frame["group"].unique(maintain_order=True).to_list()


def _rate_axis(title: str, **more: Any) -> alt.Axis:
    return alt.Axis(title=title, labelExpr=formats.VEGA_RATE, values=[0, 0.2, 0.4, 0.6, 0.8, 1], **more)


_RATE_SCALE = alt.Scale(domain=[0, 1], clamp=False)


def ceiling_bars(frame: pl.DataFrame) -> Any:
    """By group: the ceiling as a bar, the reported rate as a tick. Columns: group, ceiling, reported, requests."""
    rows = limited(frame).with_columns(
        label=pl.Series([formats.rate(v) for v in frame["ceiling"]]),
        reported_text=pl.Series([formats.rate(v) for v in frame["reported"]]),
        input_text=pl.Series([formats.tokens(v) for v in frame["input_tokens"]]),
    )
    groups = _groups(frame)
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
        x=alt.X("ceiling:Q", scale=_RATE_SCALE, axis=_rate_axis("Share of prompt tokens")),
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
                x=alt.X("reported:Q", scale=_RATE_SCALE)
            )
        )
    return alt.layer(*layers).properties(height=40 * len(groups) + 60)


def turn_bars(frame: pl.DataFrame) -> Any:
    """Main sessions by number of turns. Columns: group, turns_from, turns, sessions."""
    order = frame.unique("turns_from").sort("turns_from")["turns"].to_list()
    groups = _groups(frame)
    return (
        alt.Chart(limited(frame))
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("turns:N", title="Turns of a session", sort=order, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("sessions:Q", title="Sessions", axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color("group:N", title="Trajectory type", scale=palette(groups), legend=_legend(groups)),
            order=alt.Order("group:N"),
            tooltip=[
                "turns:N",
                alt.Tooltip("group:N", title="Type"),
                alt.Tooltip("sessions:Q", title="Sessions", format=","),
            ],
        )
        .properties(height=HEIGHT)
    )


def _legend(groups: list[str]) -> Any:
    return None if len(groups) < 2 else alt.Legend(orient="top", title=None)


def growth_lines(frame: pl.DataFrame) -> Any:
    """Prompt length by turn: the median as a line, p10 to p90 as a band. Columns of the query context_growth."""
    groups = _groups(frame)
    rows = limited(frame).with_columns(
        (pl.Series([formats.tokens(v) for v in frame[name]])).alias(f"{name}_text")
        for name in ("input_tokens_p10", "input_tokens_p50", "input_tokens_p90")
    )
    base = alt.Chart(rows).encode(
        x=alt.X("turn:Q", title="Turn (0 is the first request)", axis=alt.Axis(tickMinStep=1, format="d")),
        color=alt.Color("group:N", scale=palette(groups), legend=_legend(groups)),
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
                "part:N", scale=alt.Scale(domain=parts, range=["#9db4c8", "#d55e00"]), legend=_legend(parts)
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
    ).encode(y=alt.datum(0.03, scale=_RATE_SCALE), text="text:N")
    point = at.mark_point(filled=True, size=110, color=REPLICA, opacity=1).encode(
        y=alt.Y("hit_rate:Q", scale=_RATE_SCALE)
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
    groups = _groups(frame)
    rows = limited(frame).with_columns(text=pl.col("rate").map_elements(formats.rate, pl.String))
    return (
        alt.Chart(rows)
        .mark_bar(height={"band": 0.62})
        .encode(
            y=alt.Y("group:N", title=None, sort=groups),
            x=alt.X("rate:Q", axis=_rate_axis("Share of prompt tokens"), scale=_RATE_SCALE),
            color=alt.Color("part:N", scale=alt.Scale(domain=parts, range=shades), legend=_legend(parts)),
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
    groups = _groups(rows)
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
            y=alt.Y("hit_rate:Q", scale=_RATE_SCALE, axis=_rate_axis("Hit rate")),
            color=alt.Color("group:N", scale=palette(groups), legend=_legend(groups) if named else None),
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
            y=alt.Y("place:Q", scale=_RATE_SCALE),
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
        base = alt.Chart(dashed).encode(y=alt.Y("rate:Q", scale=_RATE_SCALE))
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
                y=alt.Y("hit_rate:Q", scale=_RATE_SCALE)
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
