"""A figure with what belongs to it: a metric with its definition, a chart with its downloads and its source."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.widgets import formats
from app.widgets.plain_text import spreadsheet_safe

if TYPE_CHECKING:
    import polars as pl

    Made = pl.DataFrame | Callable[[], pl.DataFrame]

DRAWING_S = 0.5
"""What the browser gets for a visitor's first chart before more is sent."""


class Source(NamedTuple):
    """Where a figure comes from.

    Attributes:
        dataset: the name of the dataset, for the names of files.
        query: the query of the catalogue; "" where none gives it.
        command: the command line that gives the same figures.
        means: what the figure is, where no query says it.
        computed: the figure's name in `analysis.headline.computed.COMPUTED`; "" where the query computes it.
        values: what its equivalent query takes; None where that query does not hold for this question.
    """

    dataset: str
    query: str
    command: str
    means: str = ""
    computed: str = ""
    values: dict[str, object] | None = None


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
    """One figure with its definition as help; `note` is small print under it (coverage, range, "estimated")."""
    with st.container(border=True, height="stretch", gap="xxsmall"):
        st.metric(label, value, help=help)
        st.caption(note or formats.SPACE)


def figure(key: str, title: str, chart: Any, frame: pl.DataFrame, alt: str, source: Source, note: str = "") -> None:
    """A chart under its heading, and below it what to take away: CSV, Parquet, PNG, definition, SQL, command.

    Args:
        key: unique on the page; names the files.
        title: what the chart shows.
        chart: an Altair chart.
        frame: what is drawn, as it is downloaded.
        alt: the chart in words.
        source: where the figures come from.
        note: one sentence under the title.
    """
    if title:
        st.subheader(title, anchor=False)
    if note:
        st.caption(note)
    st.altair_chart(chart, width="stretch", alt=alt, key=f"chart-{key}")
    _let_it_be_drawn()
    downloads(key, frame, source, chart)


def _let_it_be_drawn() -> None:
    """Hold back what comes below a visitor's first chart for a moment.

    A browser that is sent a whole page at once draws none of it before it has loaded what every part needs.
    """
    if "chart_seen" not in st.session_state:
        st.session_state["chart_seen"] = True
        time.sleep(DRAWING_S)


def downloads(key: str, frame: Made, source: Source, chart: Any = None) -> None:
    """The row under a chart or table. Files are made on click, and so is `frame` where it is a function."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        files(key, frame, source.dataset, chart)
        with st.popover("How is this computed?", type="tertiary", icon=":material/function:"):
            _explained(source)


def files(key: str, frame: Made, dataset: str, chart: Any = None) -> None:
    """The buttons for CSV, Parquet and, with a chart, PNG and SVG."""
    name = f"{dataset.replace('/', '-').replace(' ', '-')}-{key}"

    def made() -> pl.DataFrame:
        return frame() if callable(frame) else frame

    _button(f"{name}.csv", "CSV", lambda: spreadsheet_safe(made()).write_csv(), "text/csv", key)
    _button(f"{name}.parquet", "Parquet", lambda: _parquet(made()), "application/vnd.apache.parquet", key)
    if chart is not None:
        _button(f"{name}.png", "PNG", lambda: _picture(chart, "png"), "image/png", key)
        _button(f"{name}.svg", "SVG", lambda: _picture(chart, "svg"), "image/svg+xml", key)


def safe(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame whose texts can be shown, and taken as CSV by the browser's own button."""
    return spreadsheet_safe(frame)


def _button(file: str, label: str, make: Any, mime: str, key: str) -> None:
    st.download_button(
        label, data=make, file_name=file, mime=mime, on_click="ignore", key=f"{key}-{label}", type="tertiary",
        icon=":material/download:",
    )  # fmt: skip


def _parquet(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


def _picture(chart: Any, form: str) -> bytes:
    from app.widgets.charts.scales import picture

    return picture(chart, form)


def _explained(source: Source) -> None:
    from analysis.store.catalog import queries

    query = queries().get(source.query)
    st.markdown(source.means or (query.help if query else ""))
    if source.computed:
        computing(source.computed, source.values)
    st.markdown("The same on the command line:")
    st.code(source.command, language="bash", wrap_lines=True)
    if query:
        st.markdown(f"The query `{query.name}` of the catalogue:" if source.computed else "The query that ran:")
        _query(query.sql)


def computing(computed: str, values: dict[str, object] | None = None) -> None:
    """The function that computes a figure, and a query that is equivalent; `values` None: there is none here."""
    from analysis.headline.computed import COMPUTED, equivalent

    how = COMPUTED[computed]
    st.markdown(f"Computed by the function `{how.function}`.")
    if how.without_query:
        st.caption(how.without_query)
    elif values is None:
        st.caption("With these settings no query is equivalent.")
    else:
        st.markdown("An equivalent query. It did not run here; tests hold its digits equal to the function's:")
        _query(equivalent(computed, **values))


def _query(sql: str) -> None:
    """A query; long ones scroll."""
    st.code(sql, language="sql", height=260 if sql.count("\n") > 9 else "content", wrap_lines=True)
