"""Request and response pairs of model providers, one a line (or a JSON array, or a VCR cassette)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from traces.calls import sse
from traces.calls.answer_passes import requests
from traces.calls.entries import Entry
from traces.calls.model_calls import Call, Calls, number_of, text_of
from traces.calls.session_headers import caller, lowered
from traces.digests import KeyedDigest
from traces.formats.gateways import vcr_cassette
from traces.formats.gateways.export_rows import taken
from traces.records import Context, Note, Piece, Record, Reject, Session, Skipped
from traces.source.json_values import reason_of
from traces.source.logged_times import first_moment
from traces.source.sources import Head, Source, parse_json
from traces.text.messages import compact
from traces.usage.containers import usage_in

NAME = "llm_pairs"
SUMMARY = {
    "carries": "full prompts and answers, usage; times and session headers where the log keeps them",
    "time": "wall, from the log, the answer's `created` or its Date header; else none",
    "computes": "hit rates, lengths, reported cache figures; sessions from headers or by prompts that extend prompts",
    "notes": "OpenAI chat and Responses (previous_response_id chains), Anthropic, Bedrock (Converse, its model "
    "invocation log), Gemini, Mistral",
}

_CALL = re.compile(
    r"/chat/completions|/completions|/responses(?:\?|$)|/messages(?:\?|$)|:(?:stream)?generatecontent|:(?:stream)?rawpredict"
    r"|/converse|/invoke|/api/chat|/api/generate",
    re.IGNORECASE,
)
_TIMES = ("timestamp", "ts", "start_time", "startTime", "started_at", "request_time", "created_at", "time")
_ENDS = ("end_time", "endTime", "ended_at", "response_time", "completed_at")
_CASSETTE = b"interactions:"
_BEDROCK_LOG = "ModelInvocationLog"
_KEYS = ("messages", "input", "contents", "prompt")


def sniff(head: Head, name: str) -> float:
    """Sure where the first record has a request with messages and an answer, or the file is a cassette of such."""
    if head.data.startswith(_CASSETTE) and head.suffix in (".yaml", ".yml", ""):
        return 0.9
    record = head.record
    if not isinstance(record, dict):
        return 0.0
    if record.get("schemaType") == _BEDROCK_LOG:
        return 0.95
    if isinstance(record.get("uri") or record.get("url"), str) and "request" in record and "response" in record:
        return 0.9
    pair = _Pair(record)
    if isinstance(pair.request, dict) and isinstance(pair.answer, dict):
        asks = any(key in pair.request for key in _KEYS)
        answers = any(key in pair.answer for key in ("choices", "candidates", "output", "content", "usage"))
        return (0.85 if "request" in record else 0.6) if asks and answers else 0.0
    return 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the calls in the order of the file."""
    reader = _Reader(context)
    if source.head().data.startswith(_CASSETTE):
        yield from _cassette(source, reader)
    else:
        yield from taken(source, reader.take)
    if reader.summed:
        yield Note(
            f"{reader.summed:,} answers used tools of the provider's own, and their usage adds up all rounds: the "
            "length of such a prompt is taken as their mean"
        )
    if reader.missing:
        yield Note(f"{reader.missing:,} prompts continue stored answers or contents that are not in the input")


def _cassette(source: Source, reader: _Reader) -> Iterator[Record]:
    ordinal = 0
    try:
        for pair in vcr_cassette.pairs(source.document(vcr_cassette.MAX_BYTES)):
            ordinal += 1
            try:
                yield from reader.take(ordinal, pair)
            except Exception as error:  # one pair of someone else's cassette never ends it
                yield Reject(ordinal, reason_of(error))
    except ValueError as error:
        yield Reject(ordinal, str(error)[:120])


class _Pair:
    """One pair with its sides apart, whatever the log calls them."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        request = record.get("request", record.get("request_body", record.get("req")))
        response = record.get("response", record.get("response_body", record.get("resp")))
        self.usage: dict[str, Any] | None = None
        if record.get("schemaType") == _BEDROCK_LOG:
            given, returned = _side(record, "input"), _side(record, "output")
            request, response = given.get("inputBodyJson"), returned.get("outputBodyJson")
            self.usage = {
                "inputTokens": given.get("inputTokenCount"),
                "outputTokens": returned.get("outputTokenCount"),
                "cacheReadInputTokens": given.get("cacheReadInputTokenCount"),
                "cacheWriteInputTokens": given.get("cacheWriteInputTokenCount"),
            }
        if request is None and any(key in record for key in _KEYS):
            request = {key: value for key, value in record.items() if key not in ("response", "usage")}
        self.uri = text_of(record, "uri", "url", "endpoint", "path") or text_of(request, "uri", "url", "path") or ""
        self.method = (text_of(record, "method") or text_of(request, "method") or "POST").upper()
        self.headers = record.get("request_headers", record.get("headers"))
        self.answer_headers = lowered(record.get("response_headers"))
        self.identity = text_of(record, "requestId")
        self.model = text_of(record, "modelId")
        status: Any = record.get("status", record.get("status_code"))
        if isinstance(request, dict) and "body" in request and not any(key in request for key in _KEYS):
            self.headers = request.get("headers", self.headers)
            request = request["body"]
        if isinstance(response, dict) and "body" in response and "choices" not in response:
            self.answer_headers = lowered(response.get("headers")) or self.answer_headers
            status = response.get("status_code", response.get("status", status))
            response = response["body"]
        self.status = status.get("code") if isinstance(status, dict) else status
        self.request = _json(request)
        self.answer = _answer(response)


def _side(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def _json(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(value.encode("utf-8", "replace"))
        except ValueError:
            return value
    return value


def _answer(value: Any) -> Any:
    if isinstance(value, str) and "data:" in value[:4096]:
        return sse.assemble(sse.events(value))
    value = _json(value)
    if isinstance(value, list):
        return sse.assemble(value)
    return value


class _Reader:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context)
        self.context = context
        self.sessions: set[str] = set()
        self.contents: dict[str, tuple[list[Entry], int | None]] = {}
        self.missing = 0
        self.summed = 0

    def take(self, ordinal: int, record: Any) -> Iterator[Record]:
        if not isinstance(record, dict):
            yield Reject(ordinal, "not a pair of request and response")
            return
        pair = _Pair(record)
        body = pair.request
        if pair.uri and not _CALL.search(pair.uri):
            self._stored(pair)
            yield Skipped("ignored", 1, "no model call", ordinal)
            return
        if not isinstance(body, dict) and pair.usage is None:
            if pair.method != "POST":
                yield Skipped("ignored", 1, "no model call", ordinal)
            else:
                yield Reject(ordinal, "the request's body is no JSON object")
            return
        failed = isinstance(pair.status, int) and pair.status >= 400
        failed = failed or bool(text_of(record, "errorCode"))  # of Bedrock's log
        if failed or (isinstance(pair.answer, dict) and pair.answer.get("error") and not pair.answer.get("usage")):
            yield Skipped("failed_attempt", 1, "an answer with an error", ordinal)
            return
        who = caller(pair.headers, body)
        body = body if isinstance(body, dict) else {}
        named = text_of(record, "session_id", "conversation_id", "thread_id")
        session = named or who.session
        if session is not None and session not in self.sessions:
            self.sessions.add(session)
            role = "subagent" if who.parent else "main"
            yield Session(session, parent_key=who.parent, role=role, agent=who.agent, agent_version=who.version)
        extra, hidden = self._contents(body)
        call = self._call(ordinal, session, record, pair)
        for request in requests(self.calls, call, extra, hidden):
            if getattr(request.prompt, "completeness", "") == "no_head":
                self.missing += 1
            self.summed += getattr(request.prompt, "lengths", "") == "tokenizer"
            yield request

    def _call(self, ordinal: int, session: str | None, record: Mapping[str, Any], pair: _Pair) -> Call:
        answer = pair.answer if isinstance(pair.answer, dict) else {}
        arrival, duration = _times(record, pair, answer, self.context.time_unit)
        identity = text_of(answer, "id", "responseId") or pair.answer_headers.get("x-amzn-requestid") or pair.identity
        if identity is None and isinstance(answer.get("metrics"), dict):
            # Bedrock answers carry no id; request, text and latency together occur once.
            identity = f"{KeyedDigest(b'pair')(compact(_sorted([pair.request, answer]))):016x}"
        return Call(
            key=str(ordinal),
            ordinal=ordinal,
            session=session,
            request=pair.request if isinstance(pair.request, dict) else None,
            answer=answer,
            usage=_usage(record, answer) if pair.usage is None else None if answer.get("usage") else pair.usage,
            provider="bedrock" if pair.usage is not None else None,
            model=text_of(answer, "model", "modelVersion") or _model(pair),
            arrival_s=arrival,
            ttft_s=number_of(record, "ttft_s", "ttft"),
            duration_s=duration,
            identity=identity,
        )

    def _stored(self, pair: _Pair) -> None:
        """Keep what Gemini's cachedContents hold: later prompts begin with it."""
        name = text_of(pair.answer, "name")
        if name is not None and name.startswith("cachedContents/") and isinstance(pair.request, dict):
            heads, own = self.calls.entries.of(pair.request)
            self.contents[name] = ([*heads, *own], None)

    def _contents(self, body: Mapping[str, Any]) -> tuple[list[Entry], Piece | None]:
        name = text_of(body, "cachedContent", "cached_content")
        if name is None:
            return [], None
        known = self.contents.get(name)
        if known is not None:
            return known[0], None
        return [], Piece(self.context.digest(f"stored contents {name}"), 0, "unobserved")


def _usage(record: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """The usage of the answer, with what only the record beside it says."""
    beside = {name: value for name, value in record.items() if name not in ("request", "response")}
    return usage_in({**beside, "response": answer}, 1) or None


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=str)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def _model(pair: _Pair) -> str | None:
    named = text_of(pair.request, "model", "modelId")
    if named is not None or pair.model is not None:
        return named or pair.model
    match = re.search(r"/model/([^/?]+)/|/models/([^/?:]+):", pair.uri)
    return unquote(match.group(1) or match.group(2)) if match else None


def _times(
    record: Mapping[str, Any], pair: _Pair, answer: Mapping[str, Any], unit: str | None
) -> tuple[float | None, float | None]:
    """When the call arrived, and how long it took."""
    start = first_moment(record, *_TIMES, unit=unit)
    end = first_moment(record, *_ENDS, unit=unit)
    duration = number_of(record, "duration_s", "latency_s", "latency", "duration", "latency_sec")
    if duration is None and number_of(record, "latency_ms", "duration_ms") is not None:
        duration = (number_of(record, "latency_ms", "duration_ms") or 0) / 1000
    if duration is None and start is not None and end is not None and end >= start:
        duration = end - start
    if duration is None and number_of(answer.get("metrics"), "latencyMs") is not None:
        duration = (number_of(answer.get("metrics"), "latencyMs") or 0) / 1000
    created, completed = number_of(answer, "created", "created_at"), number_of(answer, "completed_at")
    if duration is None and created is not None and completed is not None:
        duration = completed - created
    if start is None and created is not None:
        start = created
    if start is None and pair.answer_headers.get("date"):
        ended = first_moment(pair.answer_headers, "date")
        start = None if ended is None else ended - (duration or 0.0)
    return start, duration
