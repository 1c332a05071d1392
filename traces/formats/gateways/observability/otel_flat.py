"""Spans as plain JSON: a trace with a list of spans (GuideLLM, inference-perf, Exgentic), or one span a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls.model_calls import text_of
from traces.calls.spans import Span, requests
from traces.records import Context, Record, Reject
from traces.source.logged_times import first_moment
from traces.source.rows import rows
from traces.source.sources import Head, Source

NAME = "otel_flat"
SUMMARY = {
    "carries": "messages, usage where it was recorded, times, parents",
    "time": "wall (times without a zone are read as UTC)",
    "computes": "hit rates, lengths, reported cache figures; lengths by the tokenizer where there is no usage",
    "notes": "sessions are those that the spans name; span attributes of OpenTelemetry GenAI",
}


def sniff(head: Head, name: str) -> float:
    """Sure where plain spans with GenAI attributes begin the file."""
    start = head.data[: 1 << 15]
    if b"resourceSpans" in start or b'"attributes"' not in start:
        return 0.0
    spans = any(mark in start for mark in (b'"spans"', b'"span_id"', b'"spanId"'))
    if spans and (b'"start_time"' in start or b'"startTime"' in start):
        marks = any(mark in head.data for mark in (b"gen_ai.", b"traceloop.", b'"ai.operationId"'))
        return 0.9 if marks and b'"span_kind"' not in start and b"openinference" not in start else 0.0
    return 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the model calls in the order of the file."""
    yield from requests(lambda: _spans(source), context, fill=True)


def _spans(source: Source) -> Iterator[Span | Reject]:
    ordinal = 0
    for line, value in rows(source):
        if isinstance(value, str):
            ordinal += 1
            yield Reject(line, value)
            continue
        inner = value.get("spans")
        trace = text_of(value, "trace_id", "traceId")
        for one in inner if isinstance(inner, list) else [value]:
            ordinal += 1
            yield plain_span(ordinal, one, trace)


def plain_span(
    ordinal: int, one: Any, trace: str | None = None, attributes: Mapping[str, Any] | None = None
) -> Span | Reject:
    """A span of a plain object; `attributes` are used in place of its own."""
    if not isinstance(one, dict):
        return Reject(ordinal, "a span that is no object")
    context = one.get("context")
    context = context if isinstance(context, dict) else {}
    identity = text_of(one, "span_id", "spanId") or text_of(context, "span_id") or text_of(one, "id")
    if identity is None:
        return Reject(ordinal, "a span without an id")
    if attributes is None:
        found = one.get("attributes")
        attributes = found if isinstance(found, dict) else {}
    status = one.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else one.get("status_code", status)
    resource = one.get("resource_attributes")
    return Span(
        ordinal,
        text_of(one, "trace_id", "traceId") or text_of(context, "trace_id") or trace or "",
        identity,
        text_of(one, "parent_span_id", "parentSpanId", "parent_id"),
        text_of(one, "name") or "",
        first_moment(one, "start_time", "startTime"),
        first_moment(one, "end_time", "endTime"),
        attributes,
        tuple(one["events"]) if isinstance(one.get("events"), list) else (),
        code in (2, "STATUS_CODE_ERROR", "ERROR"),
        text_of(resource, "service.name"),
    )
