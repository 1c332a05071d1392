"""Azure LLM inference traces (2023, 2024, multimodal): CSV of a time and two lengths."""

from __future__ import annotations

from collections.abc import Iterator

from traces.clock import parse_time
from traces.formats import table_rows
from traces.records import Context, Note, Record, Reject, Request
from traces.sources import Head, Source
from traces.usage import count

NAME = "azure_llm"
SUMMARY = {
    "carries": "lengths and times; no sessions, no prompts",
    "time": "wall clock (read as UTC)",
    "blocks": "none",
    "computes": "shapes and rates; no hit rate (neither prompts nor block ids are in it)",
}


def sniff(head: Head, name: str) -> float:
    """Sure of the three columns."""
    if table_rows.kind(head) != "csv":
        return 0.0
    return 0.97 if {"TIMESTAMP", "ContextTokens", "GeneratedTokens"} <= set(table_rows.columns(head)) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row."""
    yield Note(table_rows.LENGTHS_ONLY)
    for number, row in table_rows.csv_rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        arrival = parse_time(row.get("TIMESTAMP") or "")
        if arrival is None:
            yield Reject(number, "TIMESTAMP is no time")
            continue
        try:
            tokens = count(row.get("ContextTokens"), "ContextTokens")
            output = count(row.get("GeneratedTokens"), "GeneratedTokens")
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        yield Request(str(number), None, number, arrival, "wall", input_tokens=tokens, output_tokens=output)
