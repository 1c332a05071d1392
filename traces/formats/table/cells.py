"""Cells of tables as values: whatever JSON, CSV or Parquet makes of a number, a list, a status or usage."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from traces.formats.table.columns import Columns
from traces.source.clock import LONGEST_S, seconds_per
from traces.source.sources import parse_json
from traces.usage.containers import json_in, may_count, usage_in
from traces.usage.evidence import Meanings
from traces.usage.name_cache import by_names
from traces.usage.rules import Usage, normalise

_UNIT_IN_NAME = {"ms": "ms", "us": "us", "ns": "ns", "nano": "ns", "s": "s"}
_FAILED = re.compile(r"err|fail|timeout|timed.?out|cancel|abort|reject|denied|refused|exception|unavailable", re.I)


def first(row: dict[str, Any], columns: tuple[str, ...]) -> tuple[str, Any]:
    """The first of `columns` that has a value, and the value; NaN and empty texts are none."""
    for column in columns:
        value = row[column]
        if value is None or value == "" or (isinstance(value, float) and value != value):
            continue
        return column, value
    return "", None


def label(value: Any) -> str | None:
    """A value as a name; None for what is none (lists, objects)."""
    if value is None or isinstance(value, dict | list):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def number_in(text: str) -> float | None:
    """The number that `text` is, or None."""
    try:
        return float(text) if re.fullmatch(r"\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*", text) else None
    except ValueError:
        return None


@by_names(256)
def unit_in(column: str) -> str:
    """The unit that a column's name ends with; seconds without one."""
    tail = re.search(r"_(ms|us|ns|nano|s)$", column.lower())
    return _UNIT_IN_NAME[tail.group(1)] if tail else "s"


def duration(row: dict[str, Any], columns: Columns, meaning: str) -> float | None:
    """Seconds of a column of durations; None where it holds none."""
    column, value = first(row, columns.found.get(meaning, ()))
    number = number_in(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        return None
    seconds = float(number) * seconds_per(unit_in(column))
    return seconds if 0 <= seconds < LONGEST_S else None


def failed(status: Any) -> bool:
    """Whether a status is an HTTP error or a word for one."""
    if isinstance(status, bool):
        return not status
    if isinstance(status, str):
        number = number_in(status)
        if number is None:
            return bool(_FAILED.search(status))
        status = number
    return isinstance(status, int | float) and status >= 300


def failed_with(error: Any) -> bool:
    """Whether an error column says that there was one."""
    return error not in (None, False, 0, "", "null", "None", "none", "false") and error != {} and error != []


def usage_of(row: dict[str, Any], columns: Columns, meanings: Meanings | None) -> Usage:
    """Usage from the usage object, the flat columns and the answer, whichever have it.

    Raises:
        ValueError: where a count is no count.
    """
    model, provider = (label(first(row, columns.found.get(name, ()))[1]) for name in ("model", "provider"))
    flat: dict[str, Any] = {}
    for column, field in columns.usage:
        cell = row[column]
        if cell is None or cell == "" or (isinstance(cell, float) and cell != cell):
            continue
        if isinstance(cell, Decimal):
            cell = int(cell)
        if isinstance(cell, str) and len(cell) < 16 and cell.isascii() and cell.isdecimal():
            flat[field] = int(cell)
            continue
        if isinstance(cell, str):
            cell = cell.split(".")[0] if re.fullmatch(r"\s*\d+\.0*\s*", cell) else json_in(cell)
        if not may_count(column) or type(cell) is int or (isinstance(cell, str) and cell.strip().isdecimal()):
            flat[field] = cell
    usage = usage_in({**{name: row[name] for name in columns.objects}, **flat}, 1) if columns.objects else flat
    return normalise(usage, provider, meanings=meanings, model=model, anyone=True)


def parsed(value: Any) -> Any:
    """A value that may be JSON inside a text."""
    if not isinstance(value, str):
        return value
    return parse_json(value.encode("utf-8", "replace"))


def ids_of(value: Any, meaning: str) -> list[Any]:
    """A list of ids, from a list, JSON in a text, or words.

    Raises:
        ValueError: where it is none.
    """
    if isinstance(value, str):
        text = value.strip()
        if text[:1] == "[":
            value = parsed(text)
        else:
            words = text.replace(",", " ").split()
            value = [int(w) if w.isascii() and w.isdigit() and len(w) < 20 else w for w in words]
    if not isinstance(value, list):
        raise ValueError(f"{meaning} is not a list")
    return value


def whole(value: Any, what: str) -> int | None:
    """A whole number; None stays None.

    Raises:
        ValueError: for what is no whole number; `what` names it.
    """
    if value is None:
        return None
    number = number_in(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal) or number != int(number):
        raise ValueError(f"{what} is not a whole number")
    return int(number)
