"""AgentSight captures: HTTP messages read from TLS in the kernel, paired by order; answers are server-sent events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from traces.calls import sse
from traces.calls.answer_passes import requests
from traces.calls.model_calls import Call, Calls, text_of
from traces.formats.gateways.export_rows import taken
from traces.records import Context, Note, Record, Reject, Skipped
from traces.source.sources import Head, Source, parse_json

NAME = "agentsight"
SUMMARY = {
    "carries": "full prompts, streamed answers with usage where the capture is whole",
    "time": "the machine's boot clock: times between calls, no dates",
    "computes": "hit rates, lengths, reported cache figures, time to first token",
    "notes": "answers are paired with calls by thread, order and model; parts of a capture may be missing",
}
_NS = 1e-9
_CALLS = ("/v1/messages", "/chat/completions", "/v1/responses", "/v1/completions")


class _Sent(NamedTuple):
    ordinal: int
    at_ns: int
    thread: Any
    body: Mapping[str, Any]


def sniff(head: Head, name: str) -> float:
    """Sure where the file names its timeline of captured data."""
    start = head.data[: 1 << 13]
    if b'"data_timeline"' in start and b'"analysis_metadata"' in start:
        return 0.95
    return 0.9 if b'"sse_raw_chunks"' in head.data and b'"tid"' in start and b'"path"' in start else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the calls in the order in which they were sent."""
    capture = _Capture(context)
    yield from taken(source, capture.take, _timeline)
    yield from capture.end()


def _timeline(value: Mapping[str, Any]) -> list[Any]:
    inner = value.get("data_timeline")
    return inner if isinstance(inner, list) else [value]


class _Capture:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context)
        self.open: list[_Sent] = []
        self.lost: list[tuple[int, dict[str, Any], Mapping[str, Any]]] = []
        self.done: dict[int, Call] = {}
        self.rebuilt = 0

    def take(self, ordinal: int, entry: Any) -> Iterator[Record]:
        """Take one captured message: a call waits for its answer."""
        if not isinstance(entry, dict) or not isinstance(entry.get("timestamp"), int):
            yield Reject(ordinal, "no captured message with a time")
        elif entry.get("type") == "request":
            yield from self._sent(ordinal, entry)
        elif entry.get("type") == "response":
            yield from self._answered(ordinal, entry)
        else:
            yield Skipped("ignored", 1, "neither a request nor a response", ordinal)

    def _sent(self, ordinal: int, entry: Mapping[str, Any]) -> Iterator[Record]:
        path = text_of(entry, "path") or ""
        if not any(mark in path for mark in _CALLS) or "/count_tokens" in path:
            yield Skipped("ignored", 1, "no model call", ordinal)
            return
        body = parse_json((text_of(entry, "body") or "").encode("utf-8", "replace"))
        if not isinstance(body, dict):
            raise ValueError("the request's body is no JSON object")
        yield from self._rebuild(body)
        self.open.append(_Sent(ordinal, entry["timestamp"], entry.get("tid"), body))

    def _answered(self, ordinal: int, entry: Mapping[str, Any]) -> Iterator[Record]:
        chunks = entry.get("sse_raw_chunks")
        chunks = [c for c in chunks if isinstance(c, dict)] if isinstance(chunks, list) else []
        body = text_of(entry, "body") or ""
        text = (body if "data:" in body else "") + "".join(text_of(c, "raw_data") or "" for c in chunks)
        answer = sse.assemble(sse.events(text)) or {}
        inner = entry.get("json_body")
        status = entry.get("status_code")
        if isinstance(status, int) and status >= 400:
            ours = isinstance(inner, dict) and "error" in inner
            sent = self._match(entry, None) if ours else None
            yield Skipped("failed_attempt" if sent else "ignored", 1, "an answer with an error", ordinal)
            if sent is not None:
                yield Skipped("ignored", 1, "the call of that answer", sent.ordinal)
            return
        if isinstance(inner, dict) and "usage" in inner:
            answer = dict(inner)
        elif isinstance(inner, dict):
            yield Skipped("ignored", 1, "an answer of no model call", ordinal)
            return
        sent = self._match(entry, text_of(answer, "model"))
        if sent is None:
            if answer.get("usage") and answer.get("id"):
                self.lost.append((ordinal, answer, entry))
            else:
                yield Skipped("ignored", 1, "an answer whose call was not captured", ordinal)
            return
        yield Skipped("ignored", 1, "the answer of a call", ordinal)
        yield from requests(self.calls, self._call(sent, answer, entry, chunks))

    def _match(self, entry: Mapping[str, Any], model: str | None) -> _Sent | None:
        """The oldest open call of the thread that can have this answer."""
        for place, sent in enumerate(self.open):
            if sent.thread == entry.get("tid") and (model is None or text_of(sent.body, "model") == model):
                return self.open.pop(place)
        return None

    def _call(
        self, sent: _Sent, answer: dict[str, Any], entry: Mapping[str, Any], chunks: list[Mapping[str, Any]]
    ) -> Call:
        usage = answer.get("usage")
        if isinstance(usage, dict) and "input_tokens" not in usage:
            # The start of the stream is missing: the output's count alone is known.
            answer = {**answer, "usage": {"output_tokens": usage.get("output_tokens")}}
        identity = text_of(answer, "id")
        first = chunks[0].get("timestamp") if chunks and identity else None
        return Call(
            key=str(sent.ordinal),
            ordinal=sent.ordinal,
            request=sent.body,
            answer=answer,
            arrival_s=sent.at_ns * _NS,
            time_basis="trace",
            ttft_s=(first - sent.at_ns) * _NS if isinstance(first, int) else None,
            duration_s=(entry["timestamp"] - sent.at_ns) * _NS,
            identity=identity,
        )

    def _rebuild(self, body: Mapping[str, Any]) -> Iterator[Record]:
        """Calls that were not captured, from the next one of their conversation, which repeats them.

        A request that ends with an answer and one more message begins with the prompt of that answer.
        """
        messages = body.get("messages")
        if not self.lost or not isinstance(messages, list) or len(messages) < 3:
            return
        if not isinstance(messages[-2], dict) or messages[-2].get("role") != "assistant":
            return
        for place, (ordinal, answer, entry) in enumerate(self.lost):
            if text_of(answer, "model") == text_of(body, "model"):
                del self.lost[place]
                self.rebuilt += 1
                shorter = {**body, "messages": messages[:-2]}
                sent = _Sent(ordinal, entry["timestamp"], None, shorter)
                call = self._call(sent, answer, entry, [])
                yield from requests(self.calls, call._replace(duration_s=None))
                return

    def _requests(self, call: Call) -> Iterator[Record]:
        try:
            yield from list(requests(self.calls, call))
        except (ValueError, RecursionError) as error:
            yield Reject(call.ordinal, str(error)[:120])

    def end(self) -> Iterator[Record]:
        """What was captured by half."""
        for ordinal, answer, entry in self.lost:
            call = self._call(_Sent(ordinal, entry["timestamp"], None, {}), answer, entry, [])
            yield from self._requests(call._replace(duration_s=None))
        for sent in self.open:
            call = Call(str(sent.ordinal), sent.ordinal, request=sent.body, time_basis="trace")
            yield from self._requests(call._replace(arrival_s=sent.at_ns * _NS))
        if self.rebuilt:
            yield Note(
                f"{self.rebuilt:,} calls were answered but not captured: their prompts are what the next call repeats, "
                "their time is that of the answer"
            )
        if self.lost or self.open:
            yield Note(f"{len(self.open):,} calls have no answer and {len(self.lost):,} answers no call in the capture")
