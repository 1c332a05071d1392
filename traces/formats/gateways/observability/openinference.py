"""Phoenix exports: OpenInference spans as JSON, with nested or dotted attributes (OTLP exports are read as otlp)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traces.calls.spans import Span, requests
from traces.formats.gateways.export_rows import has_columns
from traces.formats.gateways.observability.otel_flat import plain_span
from traces.records import Context, Record, Reject
from traces.source.rows import rows
from traces.source.sources import Head, Source

NAME = "openinference"
SUMMARY = {
    "carries": "messages unless masked, tools, usage with cache figures, times, parents, sessions",
    "time": "wall",
    "computes": "hit rates, lengths, reported cache figures",
    "notes": "Phoenix spans (API, dataframe as JSON lines); LLM spans only",
}
MAX_DEPTH = 12


def sniff(head: Head, name: str) -> float:
    """Sure where spans with OpenInference's marks begin the file."""
    if has_columns(head, "context.span_id", "start_time"):
        return 0.93
    start = head.data[: 1 << 15]
    if b"resourceSpans" in start:
        return 0.0
    span = b'"span_kind"' in start or b"span.kind" in start or b'"context.span_id"' in start
    marks = b"openinference" in head.data or b"token_count" in head.data or b"input_messages" in head.data
    return 0.92 if span and marks and b'"start_time"' in start else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the LLM spans in the order of the file."""
    yield from requests(lambda: _spans(source), context, fill=False)


def _spans(source: Source) -> Iterator[Span | Reject]:
    for ordinal, (line, value) in enumerate(rows(source), 1):
        if isinstance(value, str):
            yield Reject(line, value)
            continue
        columns = {k.removeprefix("attributes."): v for k, v in value.items() if k.startswith("attributes.")}
        attributes: dict[str, Any] = {}
        _flatten(value.get("attributes"), "", attributes, 0)
        _flatten(columns, "", attributes, 0)
        kind = value.get("span_kind")
        if isinstance(kind, str) and "openinference.span.kind" not in attributes:
            attributes["openinference.span.kind"] = kind
        names = {k.removeprefix("context."): v for k, v in value.items() if k.startswith("context.")}
        yield plain_span(ordinal, {**value, **names}, attributes=attributes)


def _flatten(value: Any, at: str, into: dict[str, Any], depth: int) -> None:
    """Nested attributes under dotted names, list items by their index, as the convention writes them."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict) and not at.endswith(("json_schema.", "arguments.", "metadata.")):
        for name, inner in value.items():
            _flatten(inner, f"{at}{name}.", into, depth + 1)
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for index, inner in enumerate(value):
            _flatten(inner, f"{at}{index}.", into, depth + 1)
    elif at:
        into[at[:-1]] = value
