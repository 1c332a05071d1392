"""LangSmith runs: one a line, in arrays, or as the batches that its SDK sends ({post, patch})."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls.model_calls import text_of
from traces.calls.span_content import parsed
from traces.calls.spans import Described, Span, requests
from traces.formats.gateways.export_rows import has_columns
from traces.records import Context, Record, Reject
from traces.source.logged_times import first_moment
from traces.source.rows import rows
from traces.source.sources import Head, Source

NAME = "langsmith"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "messages, tools, usage with cache figures, times, threads, parents",
    "time": "wall (times without a zone are read as UTC)",
    "computes": "hit rates, lengths, reported cache figures",
    "notes": "runs of type llm; a run's session_id is a project, so sessions are threads named in its metadata",
}
_THREADS = ("session_id", "thread_id", "conversation_id")


def sniff(head: Head, name: str) -> float:
    """Sure where runs with LangSmith's names begin the file."""
    if has_columns(head, "run_type", "trace_id"):
        return 0.93
    start = head.data
    if b'"run_type"' not in start or b'"trace_id"' not in start:
        return 0.0
    return 0.93 if b'"dotted_order"' in start or b'"parent_run_id"' in start or b'"ls_provider"' in start else 0.6


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the model calls in the order of the file."""
    yield from requests(lambda: _spans(source), context, fill=False, describe=_described)


def _spans(source: Source) -> Iterator[Span | Reject]:
    ordinal = 0
    for line, value in rows(source):
        if isinstance(value, str):
            ordinal += 1
            yield Reject(line, value)
        elif isinstance(value.get("post"), list) or isinstance(value.get("patch"), list):
            for run in _merged(value):
                ordinal += 1
                yield _span(ordinal, run)
        else:
            inner = value.get("runs")
            for run in inner if isinstance(inner, list) else [value]:
                ordinal += 1
                yield _span(ordinal, run)


def _merged(batch: Mapping[str, Any]) -> list[Any]:
    """Runs of a batch: what a run was posted with, then what was patched."""
    runs: dict[Any, Any] = {}
    for side in ("post", "patch"):
        found = batch.get(side)
        for at, run in enumerate(found if isinstance(found, list) else ()):
            key = run.get("id") if isinstance(run, dict) and isinstance(run.get("id"), str) else (side, at)
            known = runs.get(key, {})
            fresh = {k: v for k, v in run.items() if v not in (None, {}, [])} if isinstance(run, dict) else run
            runs[key] = {**known, **fresh} if isinstance(fresh, dict) else fresh
    return list(runs.values())


def _span(ordinal: int, run: Any) -> Span | Reject:
    if not isinstance(run, dict):
        return Reject(ordinal, "a run that is no object")
    identity = text_of(run, "id")
    if identity is None:
        return Reject(ordinal, "a run without an id")
    kind = text_of(run, "run_type") or ""
    attributes = {
        "langfuse.observation.type": "GENERATION" if kind == "llm" else "",
        "session.id": text_of(_metadata(run), *_THREADS),
        "run": run,
    }
    return Span(
        ordinal,
        text_of(run, "trace_id") or identity,
        identity,
        text_of(run, "parent_run_id"),
        text_of(run, "name") or "",
        first_moment(run, "start_time"),
        first_moment(run, "end_time"),
        attributes,
        error=bool(run.get("error")),
    )


def _metadata(run: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = parsed(run.get("extra"))
    found = extra.get("metadata") if isinstance(extra, dict) else None
    return found if isinstance(found, dict) else {}


def _described(span: Span) -> Described:
    run: Mapping[str, Any] = span.attributes["run"]
    metadata = _metadata(run)
    inputs, outputs = parsed(run.get("inputs")), parsed(run.get("outputs"))
    extra = parsed(run.get("extra"))
    body = _body(inputs, extra)
    answer = _answer(outputs)
    first = first_moment(run, "first_token_time")
    if first is None:
        events = run.get("events")
        tokens = (e for e in (events if isinstance(events, list) else ()) if text_of(e, "name") == "new_token")
        first = first_moment(next(tokens, None), "time")
    return Described(
        body,
        answer,
        _usage(run, outputs),
        text_of(metadata, "ls_provider"),
        text_of(answer, "model") or text_of(metadata, "ls_model_name") or text_of(body, "model"),
        first - span.start_s if first is not None and span.start_s is not None else None,
        text_of(answer, "id"),
    )


def _body(inputs: Any, extra: Any) -> dict[str, Any] | None:
    if not isinstance(inputs, dict):
        return None
    body = dict(inputs)
    messages = body.get("messages")
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], list):
        body["messages"] = messages[0]  # LangChain sends batches
    prompts = body.get("prompts")
    if isinstance(prompts, list) and prompts and "messages" not in body:
        body["prompt"] = prompts[0]
    parameters = extra.get("invocation_params") if isinstance(extra, dict) else None
    if isinstance(parameters, dict) and "tools" not in body and parameters.get("tools"):
        body["tools"] = parameters["tools"]
    return body if any(body.get(name) for name in ("messages", "input", "prompt", "contents")) else None


def _answer(outputs: Any) -> dict[str, Any] | None:
    if not isinstance(outputs, dict):
        return None
    generations = outputs.get("generations")
    while isinstance(generations, list) and generations and isinstance(generations[0], list):
        generations = generations[0]
    if isinstance(generations, list) and generations and isinstance(generations[0], dict):
        one = generations[0]
        message = one.get("message")
        message = message if isinstance(message, dict) else {"role": "assistant", "content": one.get("text")}
        reason = text_of(one.get("generation_info"), "finish_reason", "stop_reason")
        return {"output": [message], "status": reason}
    if isinstance(outputs.get("message"), dict):
        return {"output": [outputs["message"]]}
    return dict(outputs) if any(n in outputs for n in ("choices", "output", "content", "candidates")) else None


def _usage(run: Mapping[str, Any], outputs: Any) -> Mapping[str, Any] | None:
    """The usage LangSmith normalised (its input includes cached tokens), wherever the run keeps it."""
    found = [outputs.get("usage_metadata") if isinstance(outputs, dict) else None]
    answer = _answer(outputs)
    for message in answer.get("output", []) if answer is not None and isinstance(answer.get("output"), list) else []:
        if isinstance(message, dict):
            inner = message.get("kwargs")
            found.append((inner if isinstance(inner, dict) else message).get("usage_metadata"))
    found.append(_metadata(run).get("usage_metadata"))
    for usage in found:
        if isinstance(usage, dict) and usage.get("input_tokens") is not None:
            # Marked as LangSmith's own, also where it has no details.
            return {"input_token_details": {}, **usage}
    if isinstance(outputs, dict) and isinstance(outputs.get("usage"), dict):
        return None  # the provider's own, read from the answer
    if run.get("prompt_tokens") is not None and run.get("total_tokens"):
        names = ("prompt_tokens", "completion_tokens", "prompt_token_details", "completion_token_details")
        return {name: parsed(run[name]) for name in names if run.get(name) is not None}
    return None
