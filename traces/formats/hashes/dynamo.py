"""Dynamo request traces (dynamo.request.trace.v1) and the older agent traces (dynamo.agent.trace.v1).

A line is an event, bare or in an envelope. A `request_end` is a request; tool events say what came between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from traces.records import Blocks, Context, Record, Reject, Request, Session, Skipped
from traces.source.clock import to_seconds
from traces.source.rows import json_rows
from traces.source.sources import Head, Source
from traces.text.tools import classify
from traces.usage.rules import count

NAME = "dynamo"
SUMMARY = {
    "carries": "engine block hashes, lengths, cached tokens, times, sessions, sub-agents, tool calls",
    "time": "wall clock (unix milliseconds)",
    "blocks": "the trace's own block size; hashes are comparable everywhere",
    "computes": "shapes, hit rates, the reported rate, transitions, capacity curves",
}
SESSION_SCOPE = "dataset"
_FAILED = ("error", "cancelled", "canceled", "aborted")


def sniff(head: Head, name: str) -> float:
    """Sure of the schemas' names; fairly of their shape."""
    event = _event(head.record)
    if event is None:
        return 0.0
    schema = event.get("schema")
    if isinstance(schema, str) and schema.startswith(("dynamo.request.trace", "dynamo.agent.trace")):
        return 0.99
    return 0.9 if event.get("event_type") == "request_end" and isinstance(event.get("request"), dict) else 0.0


def _event(record: Any) -> dict[str, Any] | None:
    if not isinstance(record, dict):
        return None
    inner = record.get("event")
    event = inner if isinstance(inner, dict) else record
    return event if "event_type" in event else None


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield sessions as they appear, and one request per `request_end`."""
    seen: set[tuple[str, str | None]] = set()
    after: dict[str, str] = {}
    for number, row in json_rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        event = _event(row)
        if event is None:
            yield Reject(number, "no event_type: not an event of a Dynamo trace")
            continue
        session, parent = _sessions(event.get("agent_context", event))  # a harness names it beside the tool
        if event["event_type"] != "request_end":
            if session is not None and str(event["event_type"]).startswith("tool_"):
                after[session] = "tool"
            yield Skipped("ignored", 1, "an event that is no request", number)
            continue
        if session is not None and (session, parent) not in seen:
            seen.add((session, parent))
            yield Session(session, parent_key=parent, role="subagent" if parent else None)
        try:
            yield from _request(event, number, session, after)
        except ValueError as error:
            yield Reject(number, str(error))


def _sessions(context: Any) -> tuple[str | None, str | None]:
    """Keys of the session and its parent; the older trace calls them trajectories (before that, programs) of a run."""
    if not isinstance(context, dict):
        return None, None
    for run, own, parent in (
        ("session_id", "trajectory_id", "parent_trajectory_id"),
        ("workflow_id", "program_id", "parent_program_id"),
    ):
        if context.get(own) is not None:
            prefix = f"{context.get(run)}|"
            above = context.get(parent)
            return prefix + str(context[own]), None if above is None else prefix + str(above)
    session, above = context.get("session_id"), context.get("parent_session_id")
    return None if session is None else str(session), None if above is None else str(above)


def _request(event: dict[str, Any], number: int, session: str | None, after: dict[str, str]) -> Iterator[Record]:
    request = event.get("request")
    if not isinstance(request, dict):
        raise ValueError("a request_end without a request")
    finish = request.get("finish_reason_metadata")
    finish = finish if isinstance(finish, dict) else {}
    reason = finish.get("finish_reason")
    output = count(request.get("output_tokens"), "output_tokens")
    if isinstance(reason, str) and reason.lower() in _FAILED and not output:
        yield Skipped("failed_attempt", 1, "a call that failed", number)
        return
    lasted = _seconds(request.get("total_time_ms"))
    arrival = _seconds(request.get("request_received_ms"))
    if arrival is None:
        ended = _seconds(event.get("event_time_unix_ms"))
        arrival = None if ended is None else ended - (lasted or 0.0)
    names = [
        c["name"] for c in _list(finish.get("tool_calls")) if isinstance(c, dict) and isinstance(c.get("name"), str)
    ]
    work, classes = classify(names)
    trigger = "unknown" if session is None else after.get(session, "user")
    if session is not None:
        after[session] = "tool" if names or reason == "tool_calls" else "user"
    identity = request.get("request_id")
    yield Request(
        key=str(number),
        session_key=session,
        ordinal=number,
        arrival_s=arrival,
        time_basis="wall",
        ttft_s=_seconds(request.get("ttft_ms")),
        duration_s=lasted,
        model=request["model"] if isinstance(request.get("model"), str) else None,
        input_tokens=_length(request),
        cache_read_tokens=count(request.get("cached_tokens"), "cached_tokens"),
        output_tokens=output,
        prompt=_blocks(request.get("replay")),
        trigger=trigger,
        work=work,
        tool_classes=classes,
        stop_reason=reason if isinstance(reason, str) else None,
        dedupe_key=None if identity is None else f"dynamo|{identity}",
        copy_rank=(arrival,),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _seconds(value: Any) -> float | None:
    seconds = to_seconds(value, "ms")
    if seconds is not None and seconds < 0:
        raise ValueError("a negative time")
    return seconds


def _length(request: dict[str, Any]) -> int | None:
    tokens = count(request.get("input_tokens"), "input_tokens")
    replay = request.get("replay")
    if tokens is None and isinstance(replay, dict):
        return count(replay.get("input_length"), "input_length")
    return tokens


def _blocks(replay: Any) -> Blocks | None:
    if not isinstance(replay, dict):
        return None
    hashes = replay.get("input_sequence_hashes")
    block = count(replay.get("trace_block_size"), "trace_block_size")
    if not isinstance(hashes, list) or not block or block >= 1 << 30:
        return None
    try:
        text = orjson.dumps(hashes)
    except TypeError:
        return Blocks(hashes, block, "ceil", "dataset")
    plain = all(type(h) is int and h >= 0 for h in hashes)
    return Blocks(text[1:-1] if plain else hashes, block, "ceil", "dataset")
