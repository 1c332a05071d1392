"""Bars: stacked across or upright, and rates with their marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from app.widgets import formats
from app.widgets.charts.scales import (
    HEIGHT,
    NEUTRAL,
    PAIR,
    RATE_SCALE,
    Tips,
    groups_of,
    legend_of,
    palette,
    rate_axis,
    tipped,
)

if TYPE_CHECKING:
    from analysis.replica.kv_budget import Budget

GIB = 1 << 30
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
MEMORY_COLOURS = {"weights": "#1f5a8c", "reserve": "#8a8a2b", "not used": NEUTRAL, "free for KV": "#009e73"}
MISSING = "#d55e00"
TRIGGER_COLOURS = {"user": "#56a0c9", "tool": "#1f5a8c", "unknown": NEUTRAL}


def _named(part: str, colours: dict[str, str], title: str | None = None, columns: int | None = None) -> alt.Color:
    """The colours of named parts, with a legend above."""
    legend = alt.Legend(orient="top", title=title, columns=columns or alt.Undefined)
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{part}:N", scale=scale, legend=legend)


def _across(
    frame: pl.DataFrame, group: alt.Y, length: alt.X, colour: alt.Color, order: Any, tips: Tips, band: float = 0.62
) -> Any:
    """Horizontal bars, one per group, stacked by part."""
    rows, tooltip = tipped(frame, tips)
    bars = alt.Chart(rows).mark_bar(height={"band": band})
    return bars.encode(y=group, x=length, color=colour, order=order, tooltip=tooltip)


def _upright(frame: pl.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, tips: Tips, order: Any = alt.Undefined) -> Any:
    """Upright bars, stacked by part."""
    rows, tooltip = tipped(frame, tips)
    bars = alt.Chart(rows).mark_bar(cornerRadiusEnd=2)
    return bars.encode(x=x, y=y, color=colour, order=order, tooltip=tooltip).properties(height=HEIGHT)


def missed_bars(frame: pl.DataFrame) -> Any:
    """By group: tokens that no cache could have hit, with the ceiling beside them.

    Columns: group, missed_tokens, ceiling, reported, requests, input_tokens.
    """
    said = [f"{formats.tokens(missed)} · ceiling {formats.rate(rate)}" for missed, rate in
            frame.select("missed_tokens", "ceiling").iter_rows()]  # fmt: skip
    rows, tooltip = tipped(
        frame.with_columns(said=pl.Series(said, dtype=pl.String)),
        {
            "Group": ("group", None), "Not reusable": ("missed_tokens", formats.tokens),
            "Ceiling": ("ceiling", formats.rate), "Reported": ("reported", formats.rate),
            "Requests": ("requests", formats.count), "Input tokens": ("input_tokens", formats.tokens),
        },
    )  # fmt: skip
    groups = groups_of(frame)
    most = max((value for value in frame["missed_tokens"].to_list() if value is not None), default=0)
    x = alt.X(
        "missed_tokens:Q", title="Prompt tokens", axis=alt.Axis(labelExpr=formats.VEGA_TOKENS),
        scale=alt.Scale(domain=[0, max(1, 1.35 * most)], nice=False),  # room for the text
    )  # fmt: skip
    base = alt.Chart(rows).encode(
        x=x, y=alt.Y("group:N", title=None, sort=groups, axis=alt.Axis(labelLimit=180)), tooltip=tooltip
    )
    bars = base.mark_bar(height={"band": 0.62}, cornerRadiusEnd=3).encode(
        color=alt.Color("group:N", scale=palette(groups), legend=None)
    )
    beside = base.mark_text(align="left", dx=8, color=NEUTRAL, fontWeight=600).encode(text="said:N")
    return alt.layer(bars, beside).properties(height=40 * len(groups) + 60)


def turn_bars(frame: pl.DataFrame) -> Any:
    """Main sessions by number of turns. Columns: group, turns_from, turns, sessions."""
    sort = frame.unique("turns_from").sort("turns_from")["turns"].to_list()
    groups = groups_of(frame)
    return _upright(
        frame,
        alt.X("turns:N", title="Turns of a session", sort=sort, axis=alt.Axis(labelAngle=0)),
        alt.Y("sessions:Q", title="Sessions", axis=alt.Axis(tickMinStep=1, format="d")),
        alt.Color("group:N", title="Trajectory type", scale=palette(groups), legend=legend_of(groups)),
        {"Turns": ("turns", None), "Type": ("group", None), "Sessions": ("sessions", formats.count)},
        alt.Order("group:N"),
    )


def gap_bars(frame: pl.DataFrame) -> Any:
    """Gaps between a session's requests by bucket. Columns of the query gaps."""
    sort = frame.group_by("gap_group").agg(pl.col("gap_s_min").min()).sort("gap_s_min")["gap_group"].to_list()
    return _upright(
        frame,
        alt.X("gap_group:N", title="Gap to the session's next request", sort=sort, axis=alt.Axis(labelAngle=0)),
        alt.Y("requests:Q", title="Requests", axis=alt.Axis(tickMinStep=1, format="~s")),
        _named("trigger", TRIGGER_COLOURS, "The request answers"),
        {"Gap": ("gap_group", None), "Trigger": ("trigger", None), "Requests": ("requests", formats.count)},
    )


def transition_bars(frame: pl.DataFrame) -> Any:
    """Prompt tokens by transition, split into hit and miss. Columns of the query transitions."""
    sort = frame.sort("prefix_tokens", descending=True, nulls_last=True)["transition"].to_list()
    long = _parts(frame, ["transition", "requests"], shared=pl.col("hit_tokens"),
                  new=pl.col("prefix_tokens") - pl.col("hit_tokens"))  # fmt: skip
    return _across(
        long,
        alt.Y("transition:N", title=None, sort=sort),
        alt.X("tokens:Q", title="Prompt tokens", axis=alt.Axis(labelExpr=formats.VEGA_TOKENS)),
        _named("part", dict(zip(("shared", "new"), PAIR, strict=True))),
        alt.Order("part:N", sort="descending"),
        {"Transition": ("transition", None), "Tokens": ("part", None), "Count": ("tokens", formats.tokens),
         "Requests": ("requests", formats.count)},
    ).properties(height=34 * frame.height + 110)  # fmt: skip


def tier_bars(frame: pl.DataFrame) -> Any:
    """Share of prompt tokens found in each tier. Columns: group, part, rate, order."""
    parts = frame.unique("order").sort("order")["part"].to_list()
    shades = [*("#1f5a8c", "#3a85c2", "#7db2da", "#a5cae6")[: len(parts) - 2], NEUTRAL, "#d55e00"]
    groups = groups_of(frame)
    return _across(
        frame,
        alt.Y("group:N", title=None, sort=groups),
        alt.X("rate:Q", axis=rate_axis("Share of prompt tokens"), scale=RATE_SCALE),
        _named("part", dict(zip(parts, shades, strict=True))),
        alt.Order("order:Q"),
        {"Group": ("group", None), "Found in": ("part", None), "Share": ("rate", formats.rate)},
    ).properties(height=44 * len(groups) + 130)


def cause_bars(frame: pl.DataFrame) -> Any:
    """Stacked shares of each group's prompt tokens. Columns: group, cause, tokens, share, place."""
    lost = set(frame.filter(pl.col("tokens") > 0)["cause"].to_list())
    colours = {cause: colour for cause, colour in CAUSE_COLOURS.items() if cause in lost}
    return _across(
        frame.filter(pl.col("cause").is_in(list(colours))),
        alt.Y("group:N", title=None, sort=groups_of(frame), axis=alt.Axis(labelLimit=180)),
        alt.X("share:Q", axis=rate_axis("Share of prompt tokens"), scale=alt.Scale(domain=[0, 1])),
        _named("cause", colours, columns=4),
        alt.Order("place:Q"),
        {"Group": ("group", None), "Tokens": ("cause", None), "Share": ("share", formats.rate),
         "Count": ("tokens", formats.tokens)},
        0.72,
    ).properties(height=alt.Step(44))  # fmt: skip


def working_set_bars(frame: pl.DataFrame) -> Any:
    """Tokens touched in each stretch of time, and how many of them are new. Columns of the query working_set."""
    long = _parts(frame, ["until_s", "live_sessions"], **{
        "used again": pl.col("touched_tokens") - pl.col("new_tokens"), "new": pl.col("new_tokens"),
    })  # fmt: skip
    rows, tooltip = tipped(
        long,
        {"Until": ("until_s", formats.seconds), "Tokens": ("part", None), "Count": ("tokens", formats.tokens),
         "Sessions live": ("live_sessions", formats.count)},
    )  # fmt: skip
    bars = alt.Chart(rows).mark_bar()
    return bars.encode(
        x=alt.X("until_s:Q", title="Time since the first request", axis=alt.Axis(labelExpr=formats.VEGA_SECONDS)),
        y=alt.Y("tokens:Q", title="Distinct tokens touched", axis=alt.Axis(labelExpr=formats.VEGA_TOKENS)),
        color=_named("part", {"used again": "#2f7fc1", "new": "#d55e00"}),
        tooltip=tooltip,
    ).properties(height=HEIGHT)


def _parts(frame: pl.DataFrame, keep: list[str], **parts: pl.Expr) -> pl.DataFrame:
    """A row for each part of each row: the kept columns, `part` and its `tokens`."""
    return pl.concat(frame.select(*keep, part=pl.lit(name), tokens=tokens) for name, tokens in parts.items())


def memory_bar(budget: Budget) -> Any:
    """One GPU's memory by what takes it, in GiB, with the GPU's size as a rule where more is asked than there is."""
    kept = budget.gpu_bytes * (1 - budget.utilization)
    free = budget.free_bytes_per_gpu
    reserve = budget.gpu_bytes - kept - budget.weights_bytes_per_gpu - free
    sizes = {
        "weights": budget.weights_bytes_per_gpu,
        "reserve": reserve,
        "not used": kept,
        "free for KV": max(0.0, free),
    }
    # what is missing lies beyond the GPU: the other parts already fill it by so much
    parts = [part for part in MEMORY_COLOURS if sizes.get(part, 0.0) > 0]
    frame = pl.DataFrame(
        {"part": parts, "gib": [sizes[p] / GIB for p in parts], "text": [formats.size(sizes[p]) for p in parts],
         "order": list(range(len(parts)))}
    )  # fmt: skip
    total = max(budget.gpu_bytes, sum(sizes.values())) / GIB
    x = alt.X("gib:Q", stack="zero", scale=alt.Scale(domain=[0, total]), title="GiB of one GPU")
    bars = (
        alt.Chart(frame)
        .mark_bar(height=30)
        .encode(
            x=x,
            color=_named("part", {part: MEMORY_COLOURS[part] for part in parts}),
            order="order:Q",
            tooltip=[alt.Tooltip("part:N", title="Part"), alt.Tooltip("text:N", title="Size")],
        )
    )  # fmt: skip
    size = pl.DataFrame(
        {"gib": [budget.gpu_bytes / GIB], "text": [f"all of the GPU: {formats.size(budget.gpu_bytes)}"]}
    )
    at = alt.Chart(size).encode(x="gib:Q")
    rule = at.mark_rule(color=MISSING, strokeWidth=2.5)
    text = at.mark_text(align="right", dx=-6, color=MISSING, fontWeight=600).encode(y=alt.value(6), text="text:N")
    layers = [bars, rule, text] if free < 0 else [bars]
    # the legend and the axis take their room from the height; the bar needs what is left
    return alt.layer(*layers).properties(height=175)
