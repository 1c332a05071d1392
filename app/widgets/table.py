"""Tables: numbers sort as numbers and are written by the one formatter; unknown is a dash."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.widgets import formats
from app.widgets.labels import label
from app.widgets.plain_text import cell

if TYPE_CHECKING:
    import polars as pl

SMALL_NOTE = "\\* fewer than 20 sessions: the interval says little."

WHOLE_ROWS = 30
"""Tables of up to this many rows are shown whole; longer ones scroll."""


class Column(NamedTuple):
    """A column: its key in the rows, its heading, how a number is written (None: text), and a help text."""

    key: str
    title: str
    written: Callable[[Any], str] | None = None
    help: str | None = None


def columns_of(*names: str, first: str = "") -> list[Column]:
    """Columns by their labels; `first` is the heading of the first one."""
    labels = [label(name) for name in names]
    titles = [first or labels[0].words, *(found.words for found in labels[1:])]
    written = [None if found.unit == "text" else formats.WRITTEN[found.unit] for found in labels]
    return [Column(*parts) for parts in zip(names, titles, written, strict=True)]


def exact_rate(value: float | None) -> str:
    """A rate with two decimals: differences between rows are that small."""
    return formats.rate(value, 2)


def interval(low: float | None, high: float | None) -> str | None:
    """A 95 % interval; None where there is none."""
    if low is None or high is None:
        return None
    return f"{formats.rate(low).removesuffix(f'{formats.SPACE}%')} – {formats.rate(high)}"


def table(
    rows: Sequence[Mapping[str, Any]] | pl.DataFrame, columns: Sequence[Column], alt: str, key: str | None = None,
    pick: bool = False,
) -> Mapping[str, Any] | None:  # fmt: skip
    """Show rows; a column in which nothing is known is left out.

    With `pick` rows can be chosen (`key` is then needed): returns the chosen one, None before that.
    """
    import pandas as pd  # type: ignore[import-untyped]

    shown_rows = rows if isinstance(rows, Sequence) else rows.to_dicts()
    shown = [c for c in columns if any(row.get(c.key) is not None for row in shown_rows)]
    cells = {
        c.title: [_text(row.get(c.key)) if c.written is None else row.get(c.key) for row in shown_rows] for c in shown
    }
    styler = pd.DataFrame(cells).style.format(
        {column.title: _written(column.written) for column in shown if column.written is not None}
    )
    config = {
        column.title: (st.column_config.TextColumn if column.written is None else st.column_config.NumberColumn)(
            help=column.help, alignment="left" if column.written is None else "right"
        )
        for column in shown
    }
    chosen = _show(styler, config, len(shown_rows), alt, key, pick=pick)
    return shown_rows[chosen[0]] if chosen and chosen[0] < len(shown_rows) else None


def texts(
    columns: Mapping[str, Sequence[Any]], alt: str, numbers: Sequence[str] = (), help: Mapping[str, str] | None = None,
    pinned: str = "", row_height: int | None = None,
) -> None:  # fmt: skip
    """Show cells that are written already; the columns named in `numbers` are set to the right."""
    config = {
        title: st.column_config.TextColumn(
            alignment="right" if title in numbers else "left", help=(help or {}).get(title), pinned=title == pinned
        )
        for title in columns
    }
    cells = {t: list(c) if t in numbers else [_text(v) for v in c] for t, c in columns.items()}
    rows = max((len(column) for column in cells.values()), default=0)
    _show(cells, config, rows, alt, None, row_height)


def _show(
    data: Any, config: dict[str, Any], rows: int, alt: str, key: str | None, row_height: int | None = None,
    pick: bool = False,
) -> list[int]:  # fmt: skip
    """Draw the table; returns the places of the rows that are chosen, at their box or by a click on a cell."""
    height: Any = "content" if rows <= WHOLE_ROWS and row_height is None else "auto"
    given: dict[str, Any] = {} if not pick else {"on_select": "rerun", "selection_mode": ["single-row", "single-cell"]}
    event = st.dataframe(
        data, hide_index=True, column_config=config, alt=alt, key=key, height=height, placeholder=formats.UNKNOWN,
        row_height=row_height, **given,
    )  # fmt: skip
    if not pick:
        return []
    return [*event.selection.rows, *(cell[0] for cell in event.selection.cells)]


def _text(value: Any) -> str:
    """A text as a cell. The browser's own CSV button writes cells as they are shown."""
    return formats.UNKNOWN if value is None else cell(str(value))


def _written(write: Callable[[Any], str]) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        # pandas holds a missing number as NaN
        return formats.UNKNOWN if value is None or (isinstance(value, float) and math.isnan(value)) else write(value)

    return written
