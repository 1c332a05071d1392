"""What observability tools export, whatever the file: JSON in its usual arrangements, CSV or Parquet, row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from traces.records import Record, Reject
from traces.source.json_values import reason_of
from traces.source.rows import columns, kind, rows
from traces.source.sources import Head, Source


def has_columns(head: Head, *names: str) -> bool:
    """Whether a file is CSV or Parquet with all these columns."""
    return kind(head) in ("parquet", "csv") and set(names) <= set(columns(head))


def taken(
    source: Source,
    take: Callable[[int, Mapping[str, Any]], Iterator[Record]],
    inner: Callable[[Mapping[str, Any]], list[Any]] = lambda value: [value],
) -> Iterator[Record]:
    """What `take` makes of each object of a log; what is no object, and what `take` cannot use, is a reject.

    Args:
        source: the log.
        take: makes records of (ordinal, object).
        inner: the objects that a record of the file holds, if that is not one.
    """
    wrapped = 0
    for number, row in rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        objects = inner(row)
        for ordinal, value in enumerate(objects, number + wrapped):
            if not isinstance(value, dict):
                yield Reject(ordinal, "not a JSON object")
                continue
            try:
                yield from take(ordinal, value)
            except Exception as error:  # one record of someone else's log never ends it
                yield Reject(ordinal, reason_of(error))
        wrapped += max(0, len(objects) - 1)
