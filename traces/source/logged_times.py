"""Times of logs that mix numbers and texts, in seconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from traces.source.clock import parse_time, seconds_per

_LARGEST_S = 1e11
"""Seconds until the year 5138: a larger number counts in a smaller unit."""


def moment(value: Any, unit: str | None = None) -> float | None:
    """A logged time in seconds since the epoch; None where it is none.

    Numbers are seconds, or ms, µs or ns where they would lie beyond the year 5138 as seconds, unless `unit` says what
    they are. Texts are ISO 8601 (UTC where they name no zone), HTTP dates or numbers.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, datetime):  # a Parquet column
        return (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, str):
        text = value.strip()
        found = parse_time(text) if len(text) < 64 else None
        if found is not None and not text.isdigit():
            return found
        try:
            value = float(text) if len(text) < 40 else None
        except ValueError:
            return _http_date(text)
    if not isinstance(value, (int, float)) or not 0 <= value < 1e20:
        return None
    if unit is not None:
        return float(value) * seconds_per(unit)
    seconds = float(value)
    while seconds > _LARGEST_S:
        seconds /= 1000
    return seconds


def first_moment(record: Any, *names: str, unit: str | None = None) -> float | None:
    """The first of the fields `names` of `record` that holds a time."""
    if isinstance(record, dict):
        for name in names:
            found = moment(record.get(name), unit)
            if found is not None:
                return found
    return None


def _http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
