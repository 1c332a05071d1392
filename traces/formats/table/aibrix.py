"""AIBrix workload JSONL: a line is a moment with the requests that start at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traces.formats.table.prompts import Prompts
from traces.records import Context, Record, Reject, Request, Skipped
from traces.source.clock import to_seconds
from traces.source.rows import json_rows
from traces.source.sources import Head, Source
from traces.usage.rules import count

NAME = "aibrix"
SUMMARY = {
    "carries": "prompt texts, lengths, times; sessions in newer files",
    "time": "milliseconds from the start",
    "blocks": "text shares to the token",
    "computes": "shapes, hit rates, capacity curves",
}
SESSION_SCOPE = "trace"


def sniff(head: Head, name: str) -> float:
    """Sure where the first record has a time and requests with a prompt."""
    record = head.record
    if not isinstance(record, dict) or not {"timestamp", "requests"} <= record.keys():
        return 0.0
    requests = record["requests"]
    first = requests[0] if isinstance(requests, list) and requests else None
    if not isinstance(first, dict):
        return 0.4 if requests == [] else 0.0
    return 0.97 if {"Prompt Length", "prompt_length", "prompt"} & first.keys() else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield every request of every line; a line without requests is ignored."""
    prompts = Prompts(context)
    for number, row in json_rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        requests = row.get("requests")
        if not isinstance(requests, list):
            yield Reject(number, "requests is not a list")
            continue
        if not requests:
            yield Skipped("ignored", 1, "a moment without requests", number)
        for place, request in enumerate(requests):
            try:
                arrival = to_seconds(row.get("timestamp"), context.time_unit or "ms")
                yield _request(request, number, place, arrival, prompts)
            except ValueError as error:
                yield Reject(number, str(error))


def _request(request: Any, number: int, place: int, arrival: float | None, prompts: Prompts) -> Request:
    if not isinstance(request, dict):
        raise ValueError("a request is not an object")
    tokens = count(_first(request, "Prompt Length", "prompt_length"), "Prompt Length")
    output = count(_first(request, "Output Length", "output_length"), "Output Length")
    named = _first(request, "session_id", "Session ID")
    session = None if named is None or isinstance(named, list | dict) else str(named)
    key, text = f"{number}.{place}", request.get("prompt")
    prompt = None
    if isinstance(text, str) and text:
        prompt, counted = prompts.of_text(session, key, text)
    elif isinstance(text, list) and text:
        prompt, counted = prompts.of_messages(session, key, text, None, None)
    else:
        counted = None
    return Request(
        key=key,
        session_key=session,
        ordinal=number,
        arrival_s=arrival,
        time_basis="trace",
        model=request["model"] if isinstance(request.get("model"), str) else None,
        input_tokens=counted if tokens is None else tokens,
        output_tokens=output,
        prompt=prompt,
    )


def _first(request: dict[str, Any], *names: str) -> Any:
    return next((request[n] for n in names if request.get(n) is not None), None)
