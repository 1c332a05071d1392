"""OpenTelemetry traces as OTLP JSON: one export request a line (the collector's file exporter) or one document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from traces.calls.model_calls import text_of
from traces.calls.spans import Span, requests
from traces.records import Context, Record, Reject
from traces.source.rows import rows
from traces.source.sources import Head, Source

NAME = "otlp"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "usage, times, agents and sub-agents; messages where their capture was switched on",
    "time": "wall, nanoseconds",
    "computes": "lengths, reported cache figures, concurrency; hit rates where messages are captured",
    "notes": "only calls of a model are requests: agents' totals and wrapping spans are left out",
}


def sniff(head: Head, name: str) -> float:
    """Sure where the file begins with resource spans."""
    start = head.data[:4096]
    if b'"resourceSpans"' in start or b'"resource_spans"' in start:
        return 0.95
    timed = b'"startTimeUnixNano"' in start or b'"start_time_unix_nano"' in start
    return 0.93 if timed and (b'"spanId"' in start or b'"span_id"' in start) else 0.0  # a table may have the time alone


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the model calls in the order of the file."""
    yield from requests(lambda: _spans(source), context, fill=True)


def _spans(source: Source) -> Iterator[Span | Reject]:
    ordinal = 0
    for line, batch in rows(source):
        if isinstance(batch, str):
            ordinal += 1
            yield Reject(line, batch)
            continue
        bare = "startTimeUnixNano" in batch or "start_time_unix_nano" in batch
        loose = _list(batch, "spans") or ([batch] if bare else ())
        for one in loose:  # Phoenix hands out spans without what they were exported in
            ordinal += 1
            yield _span(ordinal, one, None)
        for resource in _list(batch, "resourceSpans", "resource_spans"):
            service = text_of(plain(_get(resource, "resource").get("attributes")), "service.name")
            for scope in _list(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
                for one in _list(scope, "spans"):
                    ordinal += 1
                    yield _span(ordinal, one, service)


def _get(value: Any, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _list(value: Any, *names: str) -> Iterable[Any]:
    for name in names:
        found = value.get(name) if isinstance(value, dict) else None
        if isinstance(found, list):
            return found
    return ()


def _span(ordinal: int, one: Any, service: str | None) -> Span | Reject:
    if not isinstance(one, dict):
        return Reject(ordinal, "a span that is no object")
    identity = text_of(one, "spanId", "span_id")
    if identity is None:
        return Reject(ordinal, "a span without an id")
    attributes = plain(one.get("attributes"))
    parent = text_of(one, "parentSpanId", "parent_span_id") or text_of(attributes, "virtual_parent.genai")
    events = tuple(
        {"name": text_of(event, "name"), "attributes": plain(event.get("attributes"))}
        for event in _list(one, "events")
        if isinstance(event, dict)
    )
    return Span(
        ordinal,
        text_of(one, "traceId", "trace_id") or "",
        identity,
        parent,
        text_of(one, "name") or "",
        _nanoseconds(one.get("startTimeUnixNano", one.get("start_time_unix_nano"))),
        _nanoseconds(one.get("endTimeUnixNano", one.get("end_time_unix_nano"))),
        attributes,
        events,
        _get(one, "status").get("code") in (2, "STATUS_CODE_ERROR", "ERROR"),
        service,
    )


def _nanoseconds(value: Any) -> float | None:
    """Seconds of a time in ns, a number or a text: 64-bit integers are texts in OTLP JSON."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e19:
        return None
    return value // 1000 / 1e6 if isinstance(value, int) else value / 1e9


def plain(attributes: Any) -> dict[str, Any]:
    """A list of keys and typed values (or an object that is plain already) as a plain object."""
    if isinstance(attributes, dict):
        return dict(attributes)
    found: dict[str, Any] = {}
    for one in attributes if isinstance(attributes, list) else ():
        if isinstance(one, dict) and isinstance(one.get("key"), str):
            found[one["key"]] = _value(one.get("value"), 0)
    return found


def _value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > 40:
        return None if isinstance(value, dict) else value
    for name in ("stringValue", "string_value", "boolValue", "bool_value", "doubleValue", "double_value", "bytesValue"):
        if name in value:
            return value[name]
    for name in ("intValue", "int_value"):
        if name in value:
            number = value[name]
            digits = number.removeprefix("-") if isinstance(number, str) else ""
            return int(number) if digits.isascii() and digits.isdigit() and len(digits) < 20 else number
    inner = value.get("arrayValue", value.get("array_value"))
    if isinstance(inner, dict):
        return [_value(one, depth + 1) for one in _list(inner, "values")]
    inner = value.get("kvlistValue", value.get("kvlist_value"))
    if isinstance(inner, dict):
        return {
            one["key"]: _value(one.get("value"), depth + 1)
            for one in _list(inner, "values")
            if isinstance(one, dict) and isinstance(one.get("key"), str)
        }
    return None
