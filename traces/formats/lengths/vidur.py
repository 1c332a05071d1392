"""Vidur CSV: prefill and decode lengths, with arrival times in traces and without in length files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from traces.formats.lengths import length_csv
from traces.records import Context, Record, Request
from traces.source.clock import to_seconds
from traces.source.sources import Head, Source

NAME = "vidur"
SUMMARY = {
    "carries": "lengths; times where the file is a trace (arrived_at)",
    "time": "seconds from an unknown zero, or none",
    "blocks": "none",
    "computes": "shapes; no hit rate (neither prompts nor block ids are in it)",
}


def sniff(head: Head, name: str) -> float:
    """Sure of the two length columns."""
    return length_csv.has_columns(head, "num_prefill_tokens", "num_decode_tokens")


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row."""
    yield from length_csv.records(source, partial(_request, context.time_unit or "s"))


def _request(unit: str, number: int, row: Mapping[str, Any]) -> Record:
    tokens, output = (length_csv.tokens(row, name) for name in ("num_prefill_tokens", "num_decode_tokens"))
    arrival = to_seconds(length_csv.number(row, "arrived_at"), unit)
    return Request(str(number), None, number, arrival, "trace", input_tokens=tokens, output_tokens=output)
