"""Applied Compute agent lengths: a line is a session, given by the lengths of its prompt, answers and tool outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from traces.records import Base, Context, Piece, Prompt, Record, Reject, Request
from traces.source.rows import json_rows
from traces.source.sources import Head, Source
from traces.usage.rules import count

NAME = "applied_compute"
SUMMARY = {
    "carries": "lengths of every turn of a session; no times",
    "time": "none (tool latencies only)",
    "blocks": "prompts are rebuilt from lengths: a turn repeats what came before it in its session",
    "computes": "shapes and same-session hit rates; what sessions share with each other is not known",
}


def sniff(head: Head, name: str) -> float:
    """Sure of the two lists of lengths."""
    record = head.record
    own = {"input_prompt_length", "assistant_response_length", "tool_call_output_length"}
    return 0.97 if isinstance(record, dict) and own <= record.keys() else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield a session's requests for every line."""
    rows = list(json_rows(source))
    scope = f"{NAME}|{context.digest(orjson.dumps([row for _, row in rows]))}"  # the same in any container
    for number, row in rows:
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        try:
            yield from _session(row, number, context, scope)
        except ValueError as error:
            yield Reject(number, str(error))


def _session(row: dict[str, Any], number: int, context: Context, scope: str) -> list[Request]:
    answers = _lengths(row, "assistant_response_length")
    tools = _lengths(row, "tool_call_output_length")
    final = count(row.get("final_assistant_response_length"), "final_assistant_response_length")
    added = count(row.get("input_prompt_length"), "input_prompt_length")
    if added is None:
        raise ValueError("no input_prompt_length")
    if len(tools) not in (len(answers), len(answers) - 1):
        raise ValueError("as many tool outputs as answers, or one less, are expected")
    outputs: list[int | None] = list(answers)
    if len(tools) == len(answers):
        outputs.append(final)
    out, tokens = [], 0
    for turn, output in enumerate(outputs):
        if turn:
            added = tools[turn - 1]
            tokens += outputs[turn - 1] or 0
        tokens += added
        digest = context.digest
        piece = Piece(digest(f"{scope}|{number}|{turn}|in"), added, "tool_result" if turn else "unknown")
        reply = Piece(digest(f"{scope}|{number}|{turn}|out"), output or 0, "assistant")
        out.append(
            Request(
                key=f"{number}.{turn}",
                session_key=str(number),
                ordinal=number,
                time_basis="none",
                input_tokens=tokens,
                output_tokens=output,
                prompt=Prompt((piece,), Base(f"{number}.{turn - 1}") if turn else None, "structure"),
                reply=(reply,) if output else None,
                trigger="tool" if turn else "user",
            )
        )
    return out


def _lengths(row: dict[str, Any], field: str) -> list[int]:
    value = row.get(field)
    if not isinstance(value, list):
        raise ValueError(f"{field} is not a list")
    return [count(one, field) or 0 for one in value]
