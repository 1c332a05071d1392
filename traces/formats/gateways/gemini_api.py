"""Recorded answers of the Gemini API, one call a line: plain, or as the chunks of a stream (usage is cumulative)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls import sse
from traces.calls.model_calls import Call, Calls, text_of
from traces.formats.gateways.export_rows import taken
from traces.records import Context, Record, Reject, Skipped
from traces.source.sources import Head, Source

NAME = "gemini_api"
SUMMARY = {
    "carries": "answers and usage; no prompts, no times",
    "time": "none",
    "computes": "lengths, reported cache figures",
    "notes": "of a stream's usage the last chunk's counts",
}
_METHODS = (b"generateContent", b"generateContentStream", b"streamGenerateContent")


def sniff(head: Head, name: str) -> float:
    """Sure where a line names the method beside its answer."""
    record = head.record
    if not isinstance(record, dict) or "request" in record:
        return 0.0
    if isinstance(record.get("method"), str) and "response" in record:
        return 0.9 if record["method"].encode() in _METHODS else 0.0
    return 0.6 if "candidates" in record and "usageMetadata" in record else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the calls in the order of the file."""
    calls = Calls(context)
    yield from taken(source, lambda ordinal, value: iter((_record(calls, ordinal, value),)))


def _record(calls: Calls, ordinal: int, value: Mapping[str, Any]) -> Record:
    method = text_of(value, "method")
    if method is not None and method.encode() not in _METHODS:
        return Skipped("ignored", 1, "no model call", ordinal)
    answer = value.get("response", value)
    if isinstance(answer, list):
        answer = sse.assemble(answer)
    if not isinstance(answer, dict):
        return Reject(ordinal, "no answer")
    if answer.get("error"):
        return Skipped("failed_attempt", 1, "an answer with an error", ordinal)
    identity = text_of(answer, "responseId")
    return calls.request(
        Call(
            key=str(ordinal),
            ordinal=ordinal,
            answer=answer,
            identity=identity,
        )
    )
