"""Rows of JSON in any arrangement, CSV, TSV and Parquet as dicts, one after the other, in bounded memory.

CSV cells stay text: nothing about them is inferred, so ids keep their digits.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from traces.source import parquet
from traces.source.sources import Head, Source, parse_json

Row = tuple[int, dict[str, Any] | str]
"""(row, 1-based; the row, or why it is none)."""

LENGTHS_ONLY = (
    "lengths only: no prompt text and no block ids. Without sessions there is no hit rate; inside a session a prompt "
    "is taken to share what the shorter of it and the previous one has, so hit rates are upper bounds, and nothing is "
    "claimed across sessions"
)
"""The note of inputs from which no ceiling can be computed."""

MAX_CELL_CHARS = 1 << 24
"""A longer CSV cell is a reject. A quote that is never closed ends there."""
_LINE_TOO_LONG = "a line longer than 256 MiB"


def kind(head: Head) -> str:
    """parquet | json | csv, by the first bytes."""
    if head.shape.kind == "text":
        return "json" if head.start.lstrip()[:1] == b"{" else "csv"
    return "parquet" if head.shape.kind == "parquet" else "json"


def columns(head: Head) -> list[str]:
    """The column names: a first record's keys, a CSV's first line, a Parquet schema; [] where there are none."""
    shape = kind(head)
    if shape == "parquet":
        return parquet.column_names(head.source.local_path())
    if shape == "csv":
        if b"\0" in head.data[:4096]:
            return []
        line = head.first_line.decode("utf-8", "replace")
        try:
            return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter(line)), [])]
        except csv.Error:  # a lone carriage return, or a cell beyond the limit
            return []
    return list(head.record) if isinstance(head.record, dict) else []


def delimiter(line: str) -> str:
    """The cell separator of a header line: the commonest of tab, comma, semicolon and bar."""
    return max("\t,;|", key=line.count)


def rows(source: Source, chosen: Callable[[list[str]], list[str]] | None = None) -> Iterator[Row]:
    """Yield every row, or why one is none. A blank line is neither.

    Args:
        source: the input.
        chosen: the names to read of a Parquet file's columns; None reads all.
    """
    head = source.head()
    shape = kind(head)
    if shape == "parquet":
        yield from source.parquet_rows(None if chosen is None else chosen(columns(head)) or None)
    else:
        yield from json_rows(source) if shape == "json" else csv_rows(source)


def json_rows(source: Source) -> Iterator[Row]:
    """The objects of a source of JSON, however they are arranged; other records are why they are none."""
    for number, line in source.lines():
        row = json_row(line)
        if row is not None:
            yield number, row


def json_row(line: bytes | None) -> dict[str, Any] | str | None:
    """A line's object, or why it is none; None for a blank line."""
    if line is None:
        return _LINE_TOO_LONG
    if not line or line.isspace():
        return None
    try:
        value = parse_json(line)
    except ValueError as error:
        return str(error)
    return value if isinstance(value, dict) else "not a JSON object"


def csv_rows(source: Source, header: list[str] | None = None) -> Iterator[Row]:
    """Rows of CSV or TSV as text cells; empty cells are None.

    Args:
        source: the input.
        header: the column names, where the file has none.
    """
    csv.field_size_limit(MAX_CELL_CHARS)
    lines = _CsvLines(source)
    every = lines.texts()
    first = next((line for line in every if line.strip()), None)
    if first is None:
        return
    lines.number -= 1  # the first line is taken once more
    reader = csv.reader(chain(lines.again(first), every), delimiter=delimiter(first))
    names = header
    while True:
        number = lines.number + 1
        try:
            cells = next(reader, None)
        except csv.Error:
            yield number, "not valid CSV"
            continue
        for long in lines.take_too_long():
            yield long, _LINE_TOO_LONG
        if cells is None:
            return
        if not cells or cells == [""]:
            continue
        if names is None:
            names = [cell.strip() for cell in cells]
        elif len(cells) != len(names):
            yield number, f"{len(cells)} cells under {len(names)} columns"
        else:
            yield number, {n: c if c != "" else None for n, c in zip(names, cells, strict=True)}


class _CsvLines:
    """The lines of a source as text, and the number of the line that was taken last."""

    def __init__(self, source: Source) -> None:
        self._lines = source.lines()
        self._too_long: list[int] = []
        self.number = 0

    def texts(self) -> Iterator[str]:
        """Every line with its end; one that is too long is empty."""
        for number, data in self._lines:
            self.number = number
            if data is None:
                self._too_long.append(self.number)
                yield "\n"
            else:
                yield data.decode("utf-8", "replace") + "\n"

    def again(self, line: str) -> Iterator[str]:
        """Only `line`, counted like the others."""
        self.number += 1
        yield line

    def take_too_long(self) -> list[int]:
        """The numbers of lines that were too long since the last call."""
        numbers, self._too_long = self._too_long, []
        return numbers
