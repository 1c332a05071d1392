"""Times as files give them, in seconds."""

from __future__ import annotations

from datetime import UTC, datetime

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def seconds_per(unit: str) -> float:
    """Seconds that one `unit` lasts.

    Raises:
        ValueError: for a unit that is not s, ms, us or ns.
    """
    if unit not in UNITS:
        raise ValueError(f"unknown time unit {unit!r}: s, ms, us or ns")
    return UNITS[unit]


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
