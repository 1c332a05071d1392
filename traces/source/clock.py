"""Times as files give them, in seconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def seconds_per(unit: str) -> float:
    """Seconds that one `unit` lasts.

    Raises:
        ValueError: for a unit that is not s, ms, us or ns.
    """
    if unit not in UNITS:
        raise ValueError(f"unknown time unit {unit!r}: s, ms, us or ns")
    return UNITS[unit]


LONGEST_S = 2.5e11
"""More seconds than this lie after the year 9999, where calendars end."""


def to_seconds(value: object, unit: str) -> float | None:
    """`value` in `unit` as seconds; None stays None.

    Raises:
        ValueError: the value is not a finite number, or the time is after the year 9999.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a time is no number")
    if not abs(value) < 1e24 or not math.isfinite(value):
        raise ValueError("a time is no time")
    seconds_per(unit)
    seconds = value / PER_SECOND[unit]  # a division rounds once: 700 ms are 0.7 s
    if abs(seconds) > LONGEST_S:
        raise ValueError("a time after the year 9999: name the unit (--time-unit ms, us or ns)")
    return seconds


def parse_time(text: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 text; None where it is none. A time without a zone is read as UTC."""
    cleaned = text.strip().replace(" ", "T", 1)
    if cleaned.endswith(("Z", "z")):
        cleaned = cleaned[:-1] + "+00:00"
    try:
        moment = datetime.fromisoformat(cleaned)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
