"""Azure LLM inference traces (2023, 2024, multimodal): CSV of a time and two lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.formats.lengths import length_csv
from traces.records import Context, Record, Request
from traces.source.clock import parse_time
from traces.source.sources import Head, Source

NAME = "azure_llm"
SUMMARY = {
    "carries": "lengths and times; no sessions, no prompts",
    "time": "wall clock (read as UTC)",
    "blocks": "none",
    "computes": "shapes and rates; no hit rate (neither prompts nor block ids are in it)",
}


def sniff(head: Head, name: str) -> float:
    """Sure of the three columns."""
    return length_csv.has_columns(head, "TIMESTAMP", "ContextTokens", "GeneratedTokens")


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row."""
    yield from length_csv.records(source, _request)


def _request(number: int, row: Mapping[str, Any]) -> Record:
    arrival = parse_time(str(row.get("TIMESTAMP") or ""))
    if arrival is None:
        raise ValueError("TIMESTAMP is no time")
    tokens, output = (length_csv.tokens(row, name) for name in ("ContextTokens", "GeneratedTokens"))
    return Request(str(number), None, number, arrival, "wall", input_tokens=tokens, output_tokens=output)
