"""Charts made of rectangles in tokens: the tower of a session, and the icicle of the prefix tree."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from app.widgets import formats
from app.widgets.charts.bars import CAUSE_COLOURS
from app.widgets.charts.scales import CHOSEN, HEIGHT, NEUTRAL, limited, tipped

LEFT = 70
"""Pixels left of the plot, so that charts below one another have their turns in one line."""
PICK = "pick"
"""Name of the selection that a click makes."""


def _zoom() -> alt.Parameter:
    """Zooming and moving along the turns; without Shift the page scrolls."""
    return alt.selection_interval(bind="scales", encodings=["x"], zoom="wheel![event.shiftKey]")


def _turns(first: int, last: int, title: str | None) -> alt.X:
    scale = alt.Scale(domain=[first, last + 1], nice=False)
    axis = alt.Axis(title=title, format="d", tickMinStep=1, grid=False)
    return alt.X("x0:Q", scale=scale, axis=axis)


def tower_chart(rectangles: pl.DataFrame, marks: pl.DataFrame, unread: pl.DataFrame, turn: int | None) -> Any:
    """A session's prompts as stacks of tokens by cause, with a triangle above those that do not extend the last one.

    Args:
        rectangles: turn, x0, x1, y0, y1, cause (its label), transition.
        marks: turn, y, transition: what the triangles say.
        unread: turn, x0, x1, y0, y1, tokens: stretches to outline, which the provider did not read.
        turn: the turn that is open; None: none.
    """
    rows, tooltip = tipped(
        rectangles.with_columns(tokens=pl.col("y1") - pl.col("y0")),
        {"Turn": ("turn", None), "Tokens": ("cause", None), "Count": ("tokens", formats.tokens),
         "To the last prompt": ("transition", None)},
    )  # fmt: skip
    first, last = int(rectangles["x0"].min() or 0), int(rectangles["x1"].max() or 1) - 1  # type: ignore[arg-type]
    present = set(rectangles["cause"].to_list())
    colours = {cause: colour for cause, colour in CAUSE_COLOURS.items() if cause in present}
    pick = alt.selection_point(PICK, fields=["turn"], on="click", empty=True, clear=False)
    y = alt.Y("y0:Q", title="Prompt tokens", axis=_token_axis())
    stacks = (
        alt.Chart(rows)
        .mark_rect(strokeWidth=0)
        .encode(
            x=_turns(first, last, "Turn"), x2="x1:Q", y=y, y2="y1:Q",
            color=alt.Color("cause:N", legend=alt.Legend(orient="top", title=None, columns=3),
                            scale=alt.Scale(domain=list(colours), range=list(colours.values()))),
            opacity=alt.condition(pick, alt.value(1), alt.value(0.55)),
            tooltip=tooltip,
        )
        .add_params(pick, _zoom())
    )  # fmt: skip
    # always there: if only its data change, the browser keeps the zoom
    here = pl.DataFrame({"x": [] if turn is None else [turn + 0.5]}, schema={"x": pl.Float64})
    layers = [stacks, alt.Chart(here).mark_rule(color=CHOSEN, strokeWidth=1.5).encode(x="x:Q")]
    if not unread.is_empty():
        missed, notes = tipped(unread, {"Turn": ("turn", None), "Not read by the provider": ("tokens", formats.tokens)})
        outline = alt.Chart(missed).mark_rect(fillOpacity=0, fill=CHOSEN, stroke=CHOSEN, strokeWidth=1.5)
        layers.append(outline.encode(x="x0:Q", x2="x1:Q", y="y0:Q", y2="y1:Q", tooltip=notes))
    if not marks.is_empty():
        shown, says = tipped(
            marks.with_columns(x=pl.col("turn") + 0.5),
            {"Turn": ("turn", None), "This prompt": ("transition", None)},
        )
        layers.append(
            alt.Chart(shown)
            .mark_point(shape="triangle-down", filled=True, size=55, color=CHOSEN, yOffset=-7, opacity=1)
            .encode(x="x:Q", y="y:Q", tooltip=says)
        )
    return alt.layer(*layers).properties(height=HEIGHT + 40)


def _token_axis() -> alt.Axis:
    return alt.Axis(labelExpr=formats.VEGA_TOKENS, minExtent=LEFT, maxExtent=LEFT)


def gap_strip(turns: pl.DataFrame) -> Any:
    """Below the tower: the pause before each turn, and a diamond where a turn started sub-agents.

    Args:
        turns: x0, x1, gap_s (null unknown), sub_agents.
    """
    first, last = int(turns["x0"].min() or 0), int(turns["x1"].max() or 1) - 1  # type: ignore[arg-type]
    known = turns.filter(pl.col("gap_s") > 0)
    least = float(known["gap_s"].min() or 0.1) / 2  # type: ignore[arg-type]
    rows, tooltip = tipped(
        known.with_columns(floor=pl.lit(least)),
        {"Turn": ("x0", None), "Pause before it": ("gap_s", formats.seconds)},
    )
    y = alt.Y(
        "gap_s:Q", title="Pause", scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(labelExpr=formats.VEGA_SECONDS, minExtent=LEFT, maxExtent=LEFT, tickCount=3),
    )  # fmt: skip
    x = _turns(first, last, None)
    layers = [
        alt.Chart(rows)
        .mark_rect(color=NEUTRAL, strokeWidth=0)
        .encode(x=x, x2="x1:Q", y=y, y2="floor:Q", tooltip=tooltip)
    ]
    started = turns.filter(pl.col("sub_agents") > 0)
    if not started.is_empty():
        shown, says = tipped(
            started.with_columns(x=(pl.col("x0") + pl.col("x1")) / 2),
            {"Turn": ("x0", None), "Sub-agents started": ("sub_agents", formats.count)},
        )
        diamonds = alt.Chart(shown).mark_point(shape="diamond", filled=True, size=60, color=CHOSEN, opacity=1)
        layers.append(diamonds.encode(x="x:Q", y=alt.value(6), tooltip=says))
    return alt.layer(*layers).properties(height=95)


def icicle_chart(frame: pl.DataFrame, requests: int) -> Any:
    """The prefix tree: width is requests, depth is tokens; a click takes a stretch as the root.

    Args:
        frame: node, x0, x1, y0, y1, part (shared or branches), requests, words (what it is), role, session.
        requests: of the whole width.
    """
    limited(frame)
    tips = {
        "Requests": ("requests", formats.count), "From token": ("y0", formats.tokens),
        "To token": ("y1", formats.tokens),
        "Prompt tokens": ("tokens", formats.tokens),
        "Distinct tokens": ("distinct_tokens", formats.tokens), "Mostly": ("role", None), "Session": ("session", None),
        "What": ("words", None),
    }  # fmt: skip
    rows, tooltip = tipped(frame, tips)  # type: ignore[arg-type]
    pick = alt.selection_point(PICK, fields=["node"], on="click", empty=True, clear=False)
    x = alt.X("x0:Q", title="Requests", scale=alt.Scale(domain=[0, requests], nice=False),
              axis=alt.Axis(format=",d", grid=False, tickMinStep=1))  # fmt: skip
    base = alt.Chart(rows).encode(
        x=x, x2="x1:Q", tooltip=tooltip,
        y=alt.Y("y0:Q", title="Token of the prompt", scale=alt.Scale(reverse=True, nice=False, zero=False),
                axis=_token_axis()), y2="y1:Q",
    )  # fmt: skip
    colour = alt.Color(
        "requests:Q", scale=alt.Scale(type="log"),
        legend=alt.Legend(orient="top", title="Requests that share it", gradientLength=220, tickCount=4, format="~s"),
    )  # fmt: skip
    shared = (
        base.transform_filter("datum.part == 'shared'")
        .mark_rect(strokeWidth=0.4, stroke="white", strokeOpacity=0.5)
        .encode(color=colour)
        .add_params(pick)
    )
    small = base.transform_filter("datum.part == 'branches'").mark_rect(color=NEUTRAL, opacity=0.45)
    return alt.layer(shared, small).properties(height=HEIGHT + 120)
