"""Pieces that pages share: a metric with its definition, a chart with its downloads, a table in people's words."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import streamlit as st

from app.widgets import formats

if TYPE_CHECKING:
    import polars as pl


DRAWING_S = 0.5
"""What the browser gets for a visitor's first chart before more is sent."""


class Opened(Protocol):
    """An open dataset: its name goes into the names of files."""

    @property
    def name(self) -> str:
        """The name that the visitor sees."""


class Asked(Protocol):
    """What a page asks, as far as figures need it."""

    @property
    def known(self) -> Opened:
        """The open dataset."""


def definition(query: str, label: str = "") -> str:
    """The sentence of a query's comment that starts with `label`, or the whole comment."""
    from analysis.store.catalog import queries

    text = queries()[query].help
    if label:
        for sentence in re.split(r"(?<=[.)]) (?=[A-Z])", text):
            if sentence.lower().startswith(label.lower()):
                return sentence
    return text


def metric(label: str, value: str, help: str, note: str = "") -> None:
    """One figure with its definition behind it; `note` is small print under it (coverage, range, "estimated")."""
    with st.container(border=True, height="stretch", gap="xxsmall"):
        st.metric(label, value, help=help)
        st.caption(note or formats.SPACE)


def figure(
    key: str,
    title: str,
    chart: Any,
    frame: pl.DataFrame,
    alt: str,
    asked: Asked,
    query: str,
    command: str,
    note: str = "",
) -> None:
    """A chart under its heading, and below it what to take away: CSV, Parquet, PNG, definition, SQL, command.

    Args:
        key: unique on the page; names the files.
        title: what the chart shows.
        chart: an Altair chart.
        frame: what is drawn, as it is downloaded.
        alt: the chart in words.
        asked: what was asked.
        query: the query of the catalogue that it comes from.
        command: the command line that gives the same figures.
        note: one sentence under the title.
    """
    if title:
        st.subheader(title, anchor=False)
    if note:
        st.caption(note)
    st.altair_chart(chart, width="stretch", alt=alt, key=f"chart-{key}")
    _let_it_be_drawn()
    downloads(key, frame, asked, query, command, chart)


def _let_it_be_drawn() -> None:
    """Hold back what comes below a visitor's first chart for a moment.

    A browser that is sent a whole page at once draws none of it before it has loaded what every part needs.
    """
    if "chart_seen" not in st.session_state:
        st.session_state["chart_seen"] = True
        time.sleep(DRAWING_S)


def downloads(
    key: str,
    frame: pl.DataFrame | Callable[[], pl.DataFrame],
    asked: Asked,
    query: str,
    command: str,
    chart: Any = None,
    means: str = "",
) -> None:
    """The row under a chart or table. Files are made when they are asked for, and so is `frame` where it is a function.

    `means` says what a table is that no query of the catalogue gives; `query` is empty then.
    """
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        files(key, frame, asked, chart)
        with st.popover("How is this computed?", type="tertiary", icon=":material/function:"):
            _explained(query, command, means)


def files(key: str, frame: pl.DataFrame | Callable[[], pl.DataFrame], asked: Asked, chart: Any = None) -> None:
    """The buttons for CSV, Parquet and, with a chart, PNG."""
    name = f"{asked.known.name.replace('/', '-').replace(' ', '-')}-{key}"

    def made() -> pl.DataFrame:
        return frame() if callable(frame) else frame

    _button(f"{name}.csv", "CSV", lambda: made().write_csv(), "text/csv", key)
    _button(f"{name}.parquet", "Parquet", lambda: _parquet(made()), "application/vnd.apache.parquet", key)
    if chart is not None:
        _button(f"{name}.png", "PNG", lambda: _png(chart), "image/png", key)


def _button(file: str, label: str, make: Any, mime: str, key: str) -> None:
    st.download_button(
        label, data=make, file_name=file, mime=mime, on_click="ignore", key=f"{key}-{label}", type="tertiary",
        icon=":material/download:",
    )  # fmt: skip


def _parquet(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def _png(chart: Any) -> bytes:
    from app.widgets import charts

    return charts.png(chart)


def _explained(query: str, command: str, means: str) -> None:
    from analysis.store.catalog import queries

    found = queries().get(query)
    st.markdown(means or (found.help if found else ""))
    st.markdown("The same on the command line:")
    st.code(command, language="bash", wrap_lines=True)
    if found:
        st.markdown("The query:")
        st.code(found.sql, language="sql", height=260)


COLUMNS: dict[str, tuple[str, Any]] = {
    "group": ("Group", str),
    "requests": ("Requests", formats.count),
    "sessions": ("Sessions", formats.count),
    "input_tokens": ("Input tokens", formats.tokens),
    "output_tokens": ("Output tokens", formats.tokens),
    "input_output_ratio": ("Input : output", formats.ratio),
    "turns_mean": ("Requests a session", formats.plain),
    "prefix_tokens": ("Prompt tokens known", formats.tokens),
    "missed_tokens": ("Not reusable", formats.tokens),
    "ceiling": ("Ceiling", formats.rate),
    "reported": ("Reported", formats.rate),
    "hit_rate": ("Hit rate", formats.rate),
    "transition": ("Transition", str),
}
"""Column -> (heading, how it is written)."""


def table(frame: pl.DataFrame, columns: list[str], first: str = "", alt: str = "") -> None:
    """A small table with every number written by the one formatter; unknown is a dash."""
    shown = {}
    for name in columns:
        heading, written = COLUMNS[name]
        cells = [formats.UNKNOWN if value is None else written(value) for value in frame[name].to_list()]
        shown[first if first and name == columns[0] else heading] = cells
    config = {
        heading: st.column_config.TextColumn(alignment="left" if i == 0 else "right") for i, heading in enumerate(shown)
    }
    st.dataframe(shown, hide_index=True, column_config=config, alt=alt or None)
