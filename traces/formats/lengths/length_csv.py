"""Traces of times and lengths (Azure, BurstGPT, Vidur), CSV or the same rows as JSON, recognised by their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from traces.records import Note, Record, Reject
from traces.source import rows as table_rows
from traces.source.sources import Head, Source
from traces.usage.rules import count


def has_columns(head: Head, *names: str) -> float:
    """How sure a reader is of rows that have all these columns."""
    return 0.97 if table_rows.kind(head) != "parquet" and set(names) <= set(table_rows.columns(head)) else 0.0


def records(source: Source, record: Callable[[int, Mapping[str, Any]], Record]) -> Iterator[Record]:
    """Yield what `record` makes of each row (number, cells by column); where it raises ValueError, a reject."""
    yield Note(table_rows.LENGTHS_ONLY)
    for number, row in table_rows.rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        try:
            yield record(number, row)
        except ValueError as error:
            yield Reject(number, str(error))


def tokens(row: Mapping[str, Any], column: str) -> int | None:
    """A cell as a number of tokens; some writers keep whole numbers as floats.

    Raises:
        ValueError: It is none.
    """
    cell = row.get(column)
    return count(cell.removesuffix(".0") if isinstance(cell, str) else cell, column)


def number(row: Mapping[str, Any], column: str) -> float | None:
    """A cell as a number; None where there is none.

    Raises:
        ValueError: It is no number.
    """
    cell = row.get(column)
    if cell is None:
        return None
    try:
        return float(cell if isinstance(cell, str | int | float) and not isinstance(cell, bool) else "")
    except ValueError:
        raise ValueError(f"{column} is no number") from None
