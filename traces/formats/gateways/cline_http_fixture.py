"""HTTP recordings of Cline's command line (nock): streamed answers with usage, requests without bodies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from traces.calls import sse
from traces.calls.model_calls import Call, Calls, number_of, text_of
from traces.calls.session_headers import caller
from traces.formats.gateways.export_rows import taken
from traces.records import Context, Record, Reject, Session, Skipped
from traces.source.sources import Head, Source, parse_json

NAME = "cline_http_fixture"
SUMMARY = {
    "carries": "answers and usage; requests only where their bodies were recorded",
    "time": "wall, seconds: the answer's `created`",
    "computes": "lengths, reported cache figures",
    "notes": "recordings of nock: scope, path, status, response",
}
_CALLS = ("/chat/completions", "/v1/messages", "/responses")


def sniff(head: Head, name: str) -> float:
    """Sure where a list of recorded calls names scope, path and response."""
    start = head.data[: 1 << 14]
    return 0.9 if b'"scope"' in start and b'"path"' in start and b'"response' in head.data else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the model calls in the order of the recording."""
    yield from taken(source, partial(_record, Calls(context), set()))


def _record(calls: Calls, seen: set[str], ordinal: int, one: Mapping[str, Any]) -> Iterator[Record]:
    path = text_of(one, "path") or ""
    if not any(mark in path for mark in _CALLS) or "count_tokens" in path:
        yield Skipped("ignored", 1, "no model call", ordinal)
        return
    status = one.get("status")
    if isinstance(status, int) and status >= 400:
        yield Skipped("failed_attempt", 1, "an answer with an error", ordinal)
        return
    answer: Any = one.get("response")
    if isinstance(answer, list) and answer and all(isinstance(part, str) for part in answer):
        answer = "".join(answer)
    if isinstance(answer, str):
        answer = sse.assemble(sse.events(answer))
    if not isinstance(answer, dict):
        yield Reject(ordinal, "no answer that can be read")
        return
    body = one.get("body")
    if isinstance(body, str) and body:
        body = parse_json(body.encode("utf-8", "replace"))
    who = caller(one.get("reqheaders"), body)
    if who.session is not None and who.session not in seen:
        seen.add(who.session)
        yield Session(who.session, parent_key=who.parent, agent=who.agent or "cline", agent_version=who.version)
    identity = text_of(answer, "id") or text_of(answer, "generationId")
    yield calls.request(
        Call(
            key=str(ordinal),
            ordinal=ordinal,
            session=who.session,
            request=body if isinstance(body, dict) else None,
            answer=answer,
            arrival_s=number_of(answer, "created"),
            identity=identity,
        )
    )
