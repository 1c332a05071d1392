"""BurstGPT CSV: times, models and lengths; newer files also name sessions and durations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traces.clock import to_seconds
from traces.formats import table_rows
from traces.records import Context, Note, Record, Reject, Request, Skipped
from traces.sources import Head, Source
from traces.usage import count

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
    if table_rows.kind(head) != "csv":
        return 0.0
    return 0.97 if {"Timestamp", "Request tokens", "Response tokens"} <= set(table_rows.columns(head)) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row that was answered."""
    yield Note(table_rows.LENGTHS_ONLY)
    for number, row in table_rows.csv_rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        try:
            tokens = count(_whole(row.get("Request tokens")), "Request tokens")
            output = count(_whole(row.get("Response tokens")), "Response tokens")
            arrival = to_seconds(_number(row.get("Timestamp"), "Timestamp"), context.time_unit or "s")
            lasted = to_seconds(_number(row.get("Elapsed time"), "Elapsed time"), "s")
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        if output == 0:
            yield Skipped("failed_attempt", 1, "a call that failed", number)
            continue
        session = row.get("Session ID")
        yield Request(
            key=str(number),
            session_key=None if session is None else str(_whole(session)),
            ordinal=number,
            arrival_s=arrival,
            time_basis="trace",
            duration_s=lasted if lasted is not None and lasted >= 0 else None,
            model=row.get("Model"),
            input_tokens=tokens,
            output_tokens=output,
        )


def _whole(cell: Any) -> Any:
    return cell.removesuffix(".0") if isinstance(cell, str) else cell


def _number(cell: Any, column: str) -> float | None:
    if cell is None:
        return None
    try:
        return float(cell)
    except ValueError:
        raise ValueError(f"{column} is no number") from None
