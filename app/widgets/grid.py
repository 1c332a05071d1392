"""Tables of numbers: sorted as numbers, written by the one formatter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import streamlit as st

from app.widgets import formats

SMALL_NOTE = "\\* fewer than 20 sessions: the interval says little."


WHOLE_ROWS = 30
"""Tables of up to so many rows are shown whole; longer ones scroll."""


class Heading(NamedTuple):
    """A column: its key in the rows, its heading, how a number is written (None: text), and a help text."""

    key: str
    title: str
    written: Callable[[Any], str] | None = None
    help: str | None = None


def exact_rate(value: float | None) -> str:
    """A rate with two decimals: differences between rows are that small."""
    return formats.rate(value, 2)


def interval(low: float | None, high: float | None) -> str | None:
    """A 95 % interval; None where there is none."""
    if low is None or high is None:
        return None
    return f"{formats.rate(low).removesuffix(f'{formats.SPACE}%')} – {formats.rate(high)}"


def grid(rows: Sequence[dict[str, Any]], columns: Sequence[Heading], alt: str, key: str | None = None) -> None:
    """Show rows; a column in which nothing is known is left out."""
    import pandas as pd  # type: ignore[import-untyped]  # Streamlit brings it

    shown = [c for c in columns if any(row.get(c.key) is not None for row in rows)]
    cells = {c.title: [row.get(c.key) for row in rows] for c in shown}
    for column in shown:
        if column.written is None:
            cells[column.title] = [formats.UNKNOWN if v is None else str(v) for v in cells[column.title]]
    styler = pd.DataFrame(cells).style.format(
        {column.title: _written(column.written) for column in shown if column.written is not None}
    )
    config: dict[str, Any] = {
        column.title: (st.column_config.TextColumn if column.written is None else st.column_config.NumberColumn)(
            help=column.help, alignment="left" if column.written is None else "right"
        )
        for column in shown
    }
    height: Any = "content" if len(rows) <= WHOLE_ROWS else "auto"
    st.dataframe(
        styler, hide_index=True, column_config=config, alt=alt, key=key, height=height, placeholder=formats.UNKNOWN
    )


def _written(write: Callable[[Any], str]) -> Callable[[Any], str]:
    def cell(value: Any) -> str:
        # pandas holds a missing number as NaN
        return formats.UNKNOWN if value is None or math.isnan(value) else write(value)

    return cell
