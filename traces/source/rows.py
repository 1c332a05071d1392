"""Rows of JSONL, JSON arrays, CSV, TSV and Parquet as dicts, one after the other, in bounded memory.

CSV cells stay text: nothing about them is inferred, so ids keep their digits.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any

from traces.source.sources import Head, Source, TooLarge, parse_json

Row = tuple[int, dict[str, Any] | str]
"""(line or row, 1-based; the row, or why it is none)."""

LENGTHS_ONLY = (
    "lengths only: no prompt text and no block ids. Without sessions there is no hit rate; inside a session a prompt "
    "is taken to share what the shorter of it and the previous one has, so hit rates are upper bounds, and nothing is "
    "claimed across sessions"
)
"""The note of inputs from which no ceiling can be computed."""

PARQUET = b"PAR1"
BATCH_ROWS = 512
MAX_CELL_CHARS = 256 << 20


def kind(head: Head) -> str:
    """parquet | array | jsonl | csv, by the first bytes."""
    data = head.data.lstrip()
    if head.data[:4] == PARQUET:
        return "parquet"
    if data[:1] == b"[":
        return "array"
    return "jsonl" if data[:1] == b"{" else "csv"


def columns(head: Head) -> list[str]:
    """The column names: a first record's keys, a CSV's first line, a Parquet schema; [] where there are none."""
    shape = kind(head)
    if shape == "parquet":
        return _parquet_columns(head.source)
    if shape == "csv":
        if b"\0" in head.data[:4096]:
            return []
        line = head.first_line.decode("utf-8", "replace")
        try:
            return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter(line)), [])]
        except csv.Error:  # a lone carriage return, or a cell beyond the limit
            return []
    record = head.record if shape == "jsonl" else first_element(head)
    return list(record) if isinstance(record, dict) else []


def first_element(head: Head) -> Any:
    """The first element of a JSON array, or None."""
    text = head.data.decode("utf-8", "replace").lstrip()[1:].lstrip()
    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        document = head.document
        return document[0] if isinstance(document, list) and document else None


def delimiter(line: str) -> str:
    """The cell separator of a header line: the commonest of tab, comma, semicolon and bar."""
    return max("\t,;|", key=line.count)


def rows(source: Source) -> Iterator[Row]:
    """Yield every row, or why one is none. A blank line is neither."""
    shape = kind(source.head())
    if shape == "parquet":
        yield from parquet_rows(source)
    elif shape == "array":
        yield from _array(source)
    elif shape == "jsonl":
        yield from json_lines(source)
    else:
        yield from csv_rows(source)


def json_lines(source: Source) -> Iterator[Row]:
    """Rows of JSONL."""
    for number, line in source.lines():
        if line is None:
            yield number, "a line longer than 256 MiB"
            continue
        if not line or line.isspace():
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            yield number, str(error)
            continue
        yield number, value if isinstance(value, dict) else "not a JSON object"


def _array(source: Source) -> Iterator[Row]:
    try:
        document = parse_json(source.document())
    except TooLarge:
        yield 1, "a JSON array of more than 1 GiB cannot be held whole: write one object a line"
        return
    except ValueError as error:
        yield 1, str(error)
        return
    for number, value in enumerate(document if isinstance(document, list) else [document], 1):
        yield number, value if isinstance(value, dict) else "not a JSON object"


def csv_rows(source: Source, header: list[str] | None = None) -> Iterator[Row]:
    """Rows of CSV or TSV as text cells; empty cells are None.

    Args:
        source: the input.
        header: the column names, where the file has none.
    """
    csv.field_size_limit(MAX_CELL_CHARS)
    long: list[int] = []
    lines = _text_lines(source, long)
    reader: Any = None
    names = header
    skipped = 0
    while True:
        if reader is None:
            first = next(lines, None)
            if first is None:
                return
            if not first.strip():
                skipped += 1
                continue
            reader = csv.reader(_with(first, lines), delimiter=delimiter(first))
        line = skipped + reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error:
            yield line, "not valid CSV"
            continue
        for number in long:
            yield number, "a line longer than 256 MiB"
        long.clear()
        if cells is None:
            return
        if not cells or cells == [""]:
            continue
        if names is None:
            names = [cell.strip() for cell in cells]
        elif len(cells) != len(names):
            yield line, f"{len(cells)} cells under {len(names)} columns"
        else:
            yield line, {n: c if c != "" else None for n, c in zip(names, cells, strict=True)}


def _text_lines(source: Source, long: list[int]) -> Iterator[str]:
    for number, line in source.lines():
        if line is None:
            long.append(number)
        yield "\n" if line is None else line.decode("utf-8", "replace") + "\n"


def _with(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _parquet_columns(source: Source) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source.local_path()) as file:
            return list(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError):
        return []


def parquet_rows(source: Source, names: list[str] | None = None) -> Iterator[Row]:
    """Rows of a Parquet file.

    Args:
        source: the input.
        names: the columns to read, where they exist; None reads all.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(source.local_path()) as file:
            wanted = None if names is None else [n for n in names if n in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
            source.bytes_read = source.size
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        yield number + 1, f"Parquet that cannot be read from here on ({type(error).__name__})"
