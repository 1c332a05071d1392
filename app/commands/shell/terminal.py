"""Text, tables and JSON on stdout. Whatever comes from data is printed without its control characters."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from app.widgets.formats import figure
from app.widgets.plain_text import printable

if TYPE_CHECKING:
    import polars as pl


def say(text: str = "", err: bool = False) -> None:
    """A line, or several, on stdout or stderr."""
    click.echo(printable(text), err=err)


def note(text: str) -> None:
    """A line on stderr."""
    say(text, err=True)


def emit_json(value: Any) -> None:
    """One JSON object on stdout. Unknown is null, and so are NaN and infinities; bytes are hexadecimal."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.hex()
    if hasattr(value, "item"):
        return _plain(value.item())
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def emit_rows(rows: list[dict[str, Any]], leave_out: tuple[str, ...] = ()) -> None:
    """A table of rows on stdout, columns without any value left out."""
    if not rows:
        say("(nothing)")
        return
    names = [n for n in rows[0] if n not in leave_out and any(r.get(n) is not None for r in rows)]
    cells = [[_cell(n, r.get(n)) for n in names] for r in rows]
    widths = [max(len(n), *(len(c[i]) for c in cells)) for i, n in enumerate(names)]
    text = [isinstance(rows[0].get(n), str) for n in names]
    line = "  ".join(n.ljust(w) if t else n.rjust(w) for n, w, t in zip(names, widths, text, strict=True))
    say(line.rstrip())
    say("  ".join("─" * w for w in widths))
    for row in cells:
        line = "  ".join(c.ljust(w) if t else c.rjust(w) for c, w, t in zip(row, widths, text, strict=True))
        say(line.rstrip())


def _cell(name: str, value: Any) -> str:
    """A figure, on one line whatever it holds."""
    return printable(figure(name, value).replace("\n", "\\n").replace("\t", "\\t"))


def emit_frame(frame: pl.DataFrame) -> None:
    """A frame as a table on stdout."""
    emit_rows(frame.to_dicts())


def emit_figures(title: str, figures: dict[str, Any]) -> None:
    """Named figures, one per line."""
    say(title)
    width = max((len(n) for n in figures), default=0)
    for name, value in figures.items():
        say(f"  {name.ljust(width)}  {figure(name, value)}")
