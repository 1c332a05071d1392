"""TraceLab JSONL: one round of a coding agent a line, with token counts, cached tokens and the times of its events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traces.records import Context, Note, Record, Reject, Request, Session
from traces.source.clock import parse_time, to_seconds
from traces.source.rows import LENGTHS_ONLY, json_rows
from traces.source.sources import Head, Source
from traces.text.tools import classify
from traces.usage.rules import count

NAME = "tracelab"
SUMMARY = {
    "carries": "lengths, cached tokens, times, sessions, triggers, tool calls; no prompts",
    "time": "wall clock (ISO)",
    "blocks": "none",
    "computes": "shapes and the reported rate; no ceiling (prompts are not in it)",
}
SESSION_SCOPE = "dataset"
_INPUTS = ("user_message", "tool_result")


def sniff(head: Head, name: str) -> float:
    """Sure where the first record has a session, timing events and what was appended."""
    record = head.record
    if not isinstance(record, dict) or "session_id" not in record:
        return 0.0
    return 0.97 if {"newly_append_tokens", "prefix_tokens"} & record.keys() and "timing_events" in record else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a line. It arrives with the last thing that came in: a user's message or a tool's result."""
    seen: set[str] = set()
    yield Note(LENGTHS_ONLY)
    for number, row in json_rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        try:
            request = _request(row, number)
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        session = request.session_key
        if session is not None and session not in seen:
            seen.add(session)
            provider = row.get("provider")
            yield Session(session, agent=provider if isinstance(provider, str) else None)
        yield request


def _request(row: dict[str, Any], number: int) -> Request:
    prefix = count(row.get("prefix_tokens"), "prefix_tokens")
    added = count(row.get("newly_append_tokens"), "newly_append_tokens")
    tokens = count(row.get("input_tokens_total"), "input_tokens_total")
    if tokens is None and prefix is not None and added is not None:
        tokens = prefix + added
    events = [e for e in row.get("timing_events") or [] if isinstance(e, dict)] if _listed(row) else []
    inputs: list[tuple[float, str]] = []
    ends: list[float] = []
    for event in events:
        kind = event.get("event_type", event.get("type"))
        time = _time(event.get("timestamp"))
        if time is not None:
            if kind in _INPUTS:
                inputs.append((time, kind))
            else:
                ends.append(time)
    arrival, kind = max(inputs, key=lambda i: i[0]) if inputs else (None, None)
    end, first = max(ends, default=None), min(ends, default=None)
    work, classes = classify(_tool_names(row.get("tools")))
    session = row.get("session_id")
    return Request(
        key=str(number),
        session_key=None if session is None else f"{row.get('provider')}|{session}",
        ordinal=number,
        arrival_s=arrival if arrival is not None else first,
        time_basis="wall",
        duration_s=end - arrival if end is not None and arrival is not None and end >= arrival else None,
        model=row["model"] if isinstance(row.get("model"), str) else None,
        input_tokens=tokens,
        cache_read_tokens=prefix,
        output_tokens=count(row.get("output_tokens"), "output_tokens"),
        reasoning_tokens=count(row.get("reasoning_output_tokens"), "reasoning_output_tokens"),
        trigger={"user_message": "user", "tool_result": "tool"}.get(str(kind), "unknown"),
        work=work,
        tool_classes=classes,
        dedupe_key=_identity(row),
    )


def _identity(row: dict[str, Any]) -> str | None:
    """The row's own id. A round of a session is none: the published trace has several rows for some (AIPerf's reader
    keeps them all), so without an id the times have to be equal too.
    """
    if isinstance(row.get("trace_key"), str):
        return f"tracelab|{row['trace_key']}"
    if row.get("session_id") is None or "round_index" not in row:
        return None
    return f"tracelab|{row.get('provider')}|{row['session_id']}|{row['round_index']}|{row.get('timing_events')}"


def _listed(row: dict[str, Any]) -> bool:
    return isinstance(row.get("timing_events"), list)


def _time(value: Any) -> float | None:
    return parse_time(value) if isinstance(value, str) else to_seconds(value, "s")


def _tool_names(tools: Any) -> list[str]:
    found = []
    for tool in tools if isinstance(tools, list) else []:
        name = tool.get("name", tool.get("tool_name")) if isinstance(tool, dict) else tool
        if isinstance(name, str):
            found.append(name)
    return found
