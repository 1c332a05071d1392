"""What observability tools export, whatever the file: JSON in its usual arrangements, CSV or Parquet, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from traces.records import Record, Reject
from traces.source.rows import columns, kind, rows
from traces.source.sources import Head, Source, TooLarge, parse_json


def has_columns(head: Head, *names: str) -> bool:
    """Whether a file is CSV or Parquet with all these columns."""
    return kind(head) in ("parquet", "csv") and set(names) <= set(columns(head))


def taken(source: Source, take: Callable[[int, Mapping[str, Any]], Iterator[Record]]) -> Iterator[Record]:
    """What `take` makes of each object of an export; what is no object, or what it cannot use, is a reject."""
    for ordinal, value in documents(source):
        if isinstance(value, str):
            yield Reject(ordinal, value)
            continue
        try:
            yield from take(ordinal, value)
        except (ValueError, RecursionError) as error:
            yield Reject(ordinal, str(error)[:120] if isinstance(error, ValueError) else "nested too deeply")


def documents(source: Source) -> Iterator[tuple[int, Any]]:
    """(line or row, object) of an export; a text is why there is no object.

    Lines, an array, one document, or an API's page ({data: [...]}) of JSON; CSV; Parquet.
    """
    shape = _shape(source.head())  # the head is let go: it holds a whole first line
    if shape == "rows":
        yield from rows(source)
        return
    if shape == "document":
        try:
            value = parse_json(source.document())
        except (TooLarge, ValueError) as error:
            yield 0, str(error)[:120]
            return
        if isinstance(value, Mapping) and isinstance(value.get("data"), list):
            value = value["data"]
        for at, one in enumerate(value if isinstance(value, list) else [value], 1):
            yield at, one if isinstance(one, Mapping) else "not a JSON object"
        return
    for number, line in source.lines():
        if line is None:
            yield number, "a line too long to be held"
        elif line.strip():
            try:
                value = parse_json(line)
            except ValueError as error:
                yield number, str(error)
                continue
            if isinstance(value, Mapping) and isinstance(value.get("data"), list):
                yield from ((number, one if isinstance(one, Mapping) else "not a JSON object") for one in value["data"])
            else:
                yield number, value if isinstance(value, Mapping) else "not a JSON object"


def _shape(head: Head) -> str:
    if kind(head) in ("parquet", "csv"):
        return "rows"
    return "document" if head.record is None or isinstance(head.record, list) else "lines"
