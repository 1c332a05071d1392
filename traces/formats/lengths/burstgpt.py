"""BurstGPT CSV: times, models and lengths; newer files also name sessions and durations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from traces.formats.lengths import length_csv
from traces.records import Context, Record, Request, Skipped
from traces.source.clock import to_seconds
from traces.source.sources import Head, Source

NAME = "burstgpt"
SUMMARY = {
    "carries": "lengths, times, models; sessions and durations in newer files; no prompts",
    "time": "seconds from the first day's midnight",
    "blocks": "none",
    "computes": "shapes and rates; no hit rate (neither prompts nor block ids are in it)",
    "notes": "rows without response tokens are failures and counted as failed attempts",
}
SESSION_SCOPE = "trace"


def sniff(head: Head, name: str) -> float:
    """Sure of the length columns."""
    return length_csv.has_columns(head, "Timestamp", "Request tokens", "Response tokens")


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row that was answered."""
    yield from length_csv.records(source, partial(_record, context.time_unit or "s"))


def _record(unit: str, number: int, row: Mapping[str, Any]) -> Record:
    tokens, output = (length_csv.tokens(row, name) for name in ("Request tokens", "Response tokens"))
    arrival = to_seconds(length_csv.number(row, "Timestamp"), unit)
    lasted = to_seconds(length_csv.number(row, "Elapsed time"), "s")
    if output == 0:
        return Skipped("failed_attempt", 1, "a call that failed", number)
    session = row.get("Session ID")
    return Request(
        key=str(number),
        session_key=None if session is None else str(session).removesuffix(".0"),
        ordinal=number,
        arrival_s=arrival,
        time_basis="trace",
        duration_s=lasted if lasted is not None and lasted >= 0 else None,
        model=None if row.get("Model") is None else str(row["Model"]),
        input_tokens=tokens,
        output_tokens=output,
    )
