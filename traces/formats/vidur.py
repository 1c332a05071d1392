"""Vidur CSV: prefill and decode lengths, with arrival times in traces and without in length files."""

from __future__ import annotations

from collections.abc import Iterator

from traces.clock import to_seconds
from traces.formats import table_rows
from traces.records import Context, Note, Record, Reject, Request
from traces.sources import Head, Source
from traces.usage import count

NAME = "vidur"
SUMMARY = {
    "carries": "lengths; times where the file is a trace (arrived_at)",
    "time": "seconds from an unknown zero, or none",
    "blocks": "none",
    "computes": "shapes; no hit rate (neither prompts nor block ids are in it)",
}


def sniff(head: Head, name: str) -> float:
    """Sure of the two length columns."""
    if table_rows.kind(head) != "csv":
        return 0.0
    return 0.97 if {"num_prefill_tokens", "num_decode_tokens"} <= set(table_rows.columns(head)) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row."""
    yield Note(table_rows.LENGTHS_ONLY)
    for number, row in table_rows.csv_rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        try:
            tokens = count((row.get("num_prefill_tokens") or "").removesuffix(".0"), "num_prefill_tokens")
            output = count((row.get("num_decode_tokens") or "").removesuffix(".0"), "num_decode_tokens")
            at = row.get("arrived_at")
            arrival = None if at is None else to_seconds(float(at), context.time_unit or "s")
        except ValueError as error:
            reason = str(error)
            yield Reject(number, "arrived_at is no number" if reason.startswith("could not convert") else reason)
            continue
        yield Request(str(number), None, number, arrival, "trace", input_tokens=tokens, output_tokens=output)
