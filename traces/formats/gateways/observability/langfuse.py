"""Langfuse: traces with their observations (the app's download, the API) and exported observations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls.model_calls import number_of, text_of
from traces.calls.span_content import parsed
from traces.calls.spans import Described, Span, requests
from traces.formats.gateways.export_rows import has_columns
from traces.records import Context, Record, Reject
from traces.source.logged_times import first_moment
from traces.source.rows import rows
from traces.source.sources import Head, Source
from traces.text.messages import role_of

NAME = "langfuse"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "messages, usage in free buckets, times, time to first token, sessions where they were set",
    "time": "wall",
    "computes": "hit rates, lengths, reported cache figures",
    "notes": "generations only, outermost ones left out; buckets are disjoint where they add up to the total",
}


def sniff(head: Head, name: str) -> float:
    """Sure where observations with Langfuse's names begin the file."""
    if has_columns(head, "traceId", "usageDetails") or has_columns(head, "trace_id", "usage_details"):
        return 0.93
    start = head.data[: 1 << 16]
    if b'"observations"' in start and b'"trace"' in start[:256]:
        return 0.9
    camel = b'"traceId"' in start and (b'"usageDetails"' in start or b'"completionStartTime"' in start)
    snake = b'"trace_id"' in start and b'"usage_details"' in start
    if (camel or snake) and (b'"GENERATION"' in head.data or b'"parentObservationId"' in start or snake):
        return 0.9
    return 0.7 if b'"observations"' in start and b'"projectId"' in start else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the generations in the order of the file."""
    yield from requests(lambda: _spans(source), context, fill=False, describe=_described)


def _spans(source: Source) -> Iterator[Span | Reject]:
    ordinal = 0
    for line, value in rows(source):
        if isinstance(value, str):
            ordinal += 1
            yield Reject(line, value)
            continue
        trace = value.get("trace")
        trace = trace if isinstance(trace, dict) else value if "observations" in value else {}
        inner = value.get("observations", trace.get("observations"))
        for one in inner if isinstance(inner, list) else [value]:
            ordinal += 1
            yield _span(ordinal, one, trace)


def _span(ordinal: int, one: Any, trace: Mapping[str, Any]) -> Span | Reject:
    if not isinstance(one, dict):
        return Reject(ordinal, "an observation that is no object")
    identity = text_of(one, "id")
    if identity is None:
        return Reject(ordinal, "an observation without an id")
    metadata = parsed(one.get("metadata"))
    session = (
        text_of(one, "sessionId", "session_id")
        or text_of(trace, "sessionId", "session_id")
        or text_of(metadata, "thread_id", "session_id", "langfuse_session_id")
    )
    attributes = {
        "langfuse.observation.type": text_of(one, "type") or "",
        "langfuse.session.id": session,
        "observation": one,
    }
    return Span(
        ordinal,
        text_of(one, "traceId", "trace_id") or text_of(trace, "id") or "",
        identity,
        text_of(one, "parentObservationId", "parent_observation_id"),
        text_of(one, "name") or "",
        first_moment(one, "startTime", "start_time"),
        first_moment(one, "endTime", "end_time"),
        attributes,
        error=one.get("level") == "ERROR",
    )


def _described(span: Span) -> Described:
    one: Mapping[str, Any] = span.attributes["observation"]
    usage = parsed(one.get("usageDetails", one.get("usage_details"))) or parsed(one.get("usage"))
    usage = dict(usage) if isinstance(usage, dict) else None
    body, whole = _body(parsed(one.get("input")))
    answer = _answer(parsed(one.get("output")))
    model = text_of(one, "model", "providedModelName", "provided_model_name", "internalModel")
    first = number_of(one, "timeToFirstToken", "time_to_first_token")
    began = first_moment(one, "completionStartTime", "completion_start_time")
    if first is None and began is not None and span.start_s is not None:
        first = began - span.start_s
    if body is None and answer is None and not usage:
        return Described(None, None, None, None, None)  # a notice about a call: its start and its end are logged apart
    tools = parsed(one.get("toolDefinitions", one.get("tool_definitions")))
    if body is not None and "tools" not in body and isinstance(tools, (list, dict)) and tools:
        body["tools"] = tools if isinstance(tools, list) else [{"name": k, "schema": v} for k, v in tools.items()]
    identity = text_of(answer, "id")
    return Described(body, answer, usage or None, model, model, first, identity, body is not None and not whole)


def _body(value: Any) -> tuple[dict[str, Any] | None, bool]:
    """(request body, whether it holds the whole prompt) of an observation's input, in any of its shapes."""
    if isinstance(value, str) and value:
        return {"messages": value, "prompt": value}, True
    if isinstance(value, list) and value:
        value = {"messages": value}
    if not isinstance(value, dict):
        return None, False
    inner = value.get("config")
    body = {**inner, **value} if isinstance(inner, dict) else dict(value)
    messages = parsed(body.get("messages", body.get("contents", body.get("input", body.get("prompt")))))
    if messages is None:
        return ({"messages": [body]}, False) if "content" in body else (None, False)
    messages = messages if isinstance(messages, list) else [messages]
    # LangChain's handler appends the tools as messages of the role "tool".
    tools = [m["content"] for m in messages if _is_tool(m)]
    body = {name: body[name] for name in ("tools", "system", "system_instruction", "instructions") if body.get(name)}
    if isinstance(body.get("tools"), list):
        declared = [t.get("function_declarations") for t in body["tools"] if isinstance(t, dict)]
        flat = [one for group in declared if isinstance(group, list) for one in group]
        body["tools"] = flat or body["tools"]
    if tools:
        body["tools"] = tools
    return body | {"messages": [m for m in messages if not _is_tool(m)]}, True


def _is_tool(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, dict) and content.get("type") == "function" and role_of(message) == "tool_result"


def _answer(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value:
        return {"output": [{"role": "assistant", "content": value}]}
    if isinstance(value, list) and value:
        if all(isinstance(one, dict) and "toolName" in one for one in value):
            value = [{"role": "assistant", "content": [{"type": "tool-call", **one} for one in value]}]
        return {"output": value, "status": text_of(value[-1], "finish_reason")}
    if not isinstance(value, dict):
        return None
    if any(name in value for name in ("choices", "candidates", "output")):
        return dict(value)
    content = value.get("content")
    if isinstance(content, dict):  # Google's agent kit: an answer with one candidate
        return {"output": [content], "status": text_of(value, "finish_reason", "finishReason")}
    return {"output": [{"role": "assistant", **value}], "status": text_of(value, "stop_reason", "finish_reason")}
