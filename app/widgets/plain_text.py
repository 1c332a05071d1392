"""Text that comes from data, made harmless: for a terminal, for Markdown, for a spreadsheet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""C0 and C1 controls but tab and newline; marks that are not seen or turn the reading direction; lone surrogates."""


def printable(text: str) -> str:
    r"""Text for a terminal: control characters and marks of direction as \x1b, \u202e; lines and tabs stay."""
    return _CONTROL.sub(lambda match: _escaped(ord(match[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def markdown(text: str) -> str:
    """Text without Markdown's meaning."""
    for sign in "\\`*_[]$<>~#:":
        text = text.replace(sign, f"\\{sign}")
    return printable(text)


def cell(text: str) -> str:
    """Text as a spreadsheet's cell: what a program would read as a formula gets an apostrophe in front."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def spreadsheet_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame for a CSV file: lists and structs as text, and no text that a spreadsheet takes for a formula."""
    import polars as pl

    columns = []
    for series in frame:
        if series.dtype.is_nested():
            columns.append(pl.Series(series.name, [None if v is None else cell(str(v)) for v in series.to_list()]))
        elif series.dtype in (pl.String, pl.Categorical):
            columns.append(series.cast(pl.String).str.replace(r"^([=+\-@\t\r])", "'$1"))
        else:
            columns.append(series)
    return pl.DataFrame(columns)
