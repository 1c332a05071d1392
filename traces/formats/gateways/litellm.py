"""LiteLLM: StandardLoggingPayload (callbacks, buckets) and rows of the SpendLogs table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls.answer_passes import requests
from traces.calls.model_calls import Call, Calls, text_of
from traces.calls.session_headers import caller, client
from traces.calls.span_content import parsed
from traces.formats.gateways.export_rows import has_columns, taken
from traces.records import Context, Record, Session, Skipped
from traces.source.logged_times import first_moment, moment
from traces.source.sources import Head, Source

NAME = "litellm"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "usage with the provider's cache figures, times, sessions; prompts where they are stored",
    "time": "wall (times without a zone are read as UTC)",
    "computes": "lengths, reported cache figures, concurrency; hit rates where prompts are stored",
    "notes": "prompt_tokens includes cached tokens; answers from LiteLLM's own cache reached no engine",
}
_CALL_TYPES = ("completion", "responses", "anthropic_messages", "generate_content", "pass_through", "text_completion")
_CUT = "litellm_truncated"


def sniff(head: Head, name: str) -> float:
    """Sure where a payload or a row of SpendLogs begins the file."""
    if has_columns(head, "request_id", "spend", "prompt_tokens", "startTime"):
        return 0.93
    start = head.data[: 1 << 16]
    if b'"startTime"' not in start or b'"prompt_tokens"' not in start:
        return 0.0
    if b'"call_type"' in start and (b'"custom_llm_provider"' in start or b'"hidden_params"' in start):
        return 0.95
    return 0.9 if b'"spend"' in start and (b'"request_id"' in start or b'"call_type"' in start) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the calls in the order of the file."""
    yield from taken(source, _Reader(context).take)


class _Reader:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context)
        self.unit = context.time_unit
        self.sessions: set[str] = set()

    def take(self, ordinal: int, row: Mapping[str, Any]) -> Iterator[Record]:
        kind = text_of(row, "call_type") or "completion"
        if not any(known in kind for known in _CALL_TYPES):
            yield Skipped("ignored", 1, "no call of a chat or completion model", ordinal)
            return
        metadata = parsed(row.get("metadata"))
        metadata = metadata if isinstance(metadata, dict) else {}
        if (text_of(row, "status") or text_of(metadata, "status") or "success") != "success":
            yield Skipped("failed_attempt", 1, "a call that failed", ordinal)
            return
        if str(row.get("cache_hit")).lower() == "true":
            yield Skipped("ignored", 1, "answered from LiteLLM's own cache", ordinal)
            return
        yield from self._call(ordinal, row, metadata)

    def _call(self, ordinal: int, row: Mapping[str, Any], metadata: Mapping[str, Any]) -> Iterator[Record]:
        body = _body(row)
        answer = parsed(row.get("response"))
        answer = answer if isinstance(answer, dict) else None
        headers = metadata.get("requester_custom_headers") or metadata.get("headers")
        who = caller(headers, body)
        session = text_of(row, "session_id", "litellm_session_id") or who.session
        agent, version = client(text_of(metadata, "user_agent") or "")
        if session is not None and session not in self.sessions:
            self.sessions.add(session)
            yield Session(
                session, parent_key=who.parent, agent=who.agent or agent, agent_version=who.version or version
            )
        start = first_moment(row, "startTime", unit=self.unit)
        end = first_moment(row, "endTime", unit=self.unit)
        first = moment(row.get("completionStartTime"), self.unit)
        streamed = first is not None and end is not None and start is not None and start < first < end
        identity = text_of(answer, "id") or text_of(row, "id", "request_id", "litellm_call_id")
        yield from requests(
            self.calls,
            Call(
                key=identity or str(ordinal),
                ordinal=ordinal,
                session=session,
                request=body,
                answer=answer,
                usage=_usage(row, metadata, answer),
                provider="inclusive",
                model=text_of(row, "model"),
                arrival_s=start,
                ttft_s=first - start if streamed and first is not None and start is not None else None,
                duration_s=end - start if end is not None and start is not None else None,
                identity=identity,
                cut=body is not None and _CUT in str(body.get("messages", ""))[:200_000],
            ),
        )


def _body(row: Mapping[str, Any]) -> dict[str, Any] | None:
    messages = parsed(row.get("messages"))
    sent = parsed(row.get("proxy_server_request"))
    if isinstance(sent, dict):
        sent = parsed(sent.get("body", sent))
    if not messages and isinstance(sent, dict) and (sent.get("messages") or sent.get("input")):
        return dict(sent)
    if isinstance(messages, dict):
        messages = messages.get("messages") or messages.get("input") or (messages if "role" in messages else None)
    if not messages or not isinstance(messages, (list, str)):
        return None
    parameters = parsed(row.get("model_parameters"))
    parameters = parameters if isinstance(parameters, dict) else {}
    names = ("tools", "functions", "system", "instructions")
    return {"messages": messages} | {name: parameters[name] for name in names if parameters.get(name)}


def _usage(
    row: Mapping[str, Any], metadata: Mapping[str, Any], answer: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The provider's usage as LiteLLM keeps it; its own columns know no cache figures."""
    for usage in (metadata.get("usage_object"), None if answer is None else answer.get("usage")):
        if isinstance(usage, dict) and usage.get("prompt_tokens") is not None:
            return usage
    if row.get("prompt_tokens") is None:
        return None
    # A row without a usage object has zeros where nothing was counted.
    counted = row.get("total_tokens") != 0
    return {name: row.get(name) for name in ("prompt_tokens", "completion_tokens")} if counted else None
