"""What all charts share: colours, scales, axes, tooltips, the limit of rows, pictures.

Colour is the trajectory type everywhere, in one order. The palette keeps its steps apart under the common kinds of
colour blindness and on light and dark ground.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import altair as alt
import polars as pl

from app.widgets import formats

MOST_ROWS = 2000
HEIGHT = 320
LINES_WITH_LABELS = 6

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
PAIR = ["#9db4c8", "#d55e00"]
RATES = [0, 0.2, 0.4, 0.6, 0.8, 1]


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


def picture(chart: Any, form: str) -> bytes:
    """The chart as a PNG at 2 × or an SVG, always on white."""
    drawn = chart.configure(background="white").properties(width=760)
    if form == "svg":
        text = io.StringIO()
        drawn.save(text, format="svg")
        return text.getvalue().encode()
    out = io.BytesIO()
    drawn.save(out, format="png", scale_factor=2)
    return out.getvalue()


Tips = dict[str, tuple[str, Callable[[Any], str] | None]]
"""Title in a tooltip -> its column, and how a page writes it (None: as it is)."""


def tipped(frame: pl.DataFrame, tips: Tips) -> tuple[pl.DataFrame, list[alt.Tooltip]]:
    """The frame, if a chart may have it, with a text column for each written tip; and the tooltips.

    Raises:
        TooManyRows: above `MOST_ROWS` rows.
    """
    texts = {
        f"{column}_text": pl.Series([write(value) for value in frame[column].to_list()], dtype=pl.String)
        for column, write in tips.values()
        if write is not None
    }
    shown = [
        alt.Tooltip(f"{column}{'' if write is None else '_text'}:N", title=title)
        for title, (column, write) in tips.items()
    ]  # fmt: skip
    return limited(frame).with_columns(**texts), shown


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
    return alt.Axis(title=title, labelExpr=formats.VEGA_RATE, values=RATES, **more)


RATE_SCALE = alt.Scale(domain=[0, 1], clamp=False)


def legend_of(groups: list[str]) -> Any:
    """A legend where there is more than one group."""
    return None if len(groups) < 2 else alt.Legend(orient="top", title=None)
