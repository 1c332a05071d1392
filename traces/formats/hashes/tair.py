"""Tair KV cache optimizer traces: one cache look-up a line, with block keys, microseconds, and lengths.

What its anonymiser starts from, lines of a time and a prompt's text, is read too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traces.formats.table.prompts import Prompts
from traces.records import Blocks, Context, Note, Record, Reject, Request, Skipped
from traces.source.clock import parse_time, to_seconds
from traces.source.rows import json_rows
from traces.source.sources import Head, Source
from traces.usage.rules import count

NAME = "tair"
SUMMARY = {
    "carries": "block keys (or texts), lengths, times; no sessions",
    "time": "wall clock (unix microseconds)",
    "blocks": "16 tokens unless --block-size says otherwise",
    "computes": "shapes, hit rates, capacity curves; sessions are inferred",
}
BLOCK_TOKENS = 16


def sniff(head: Head, name: str) -> float:
    """Sure where the first record has keys, a query type and a time in microseconds."""
    record = head.record
    if not isinstance(record, dict):
        return 0.0
    return 0.97 if {"keys", "timestamp_us"} <= record.keys() else 0.6 if record.keys() == {"time", "text"} else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request per look-up; writes and other events are no requests."""
    block = context.block_tokens or BLOCK_TOKENS
    assumed = 0
    prompts = Prompts(context)
    for number, row in json_rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        if row.keys() == {"time", "text"}:
            yield _text(row, number, prompts)
            continue
        if row.get("query_type") not in (None, "prefix_match"):
            yield Skipped("ignored", 1, "an event that is no look-up", number)
            continue
        keys = _keys(row)
        if keys is None:
            yield Reject(number, "keys is not a list")
            continue
        try:
            tokens = count(row.get("input_len"), "input_len")
            output = count(row.get("output_len"), "output_len")
            arrival = to_seconds(row.get("timestamp_us"), context.time_unit or "us")
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        if tokens is None:
            assumed += 1
            tokens = len(keys) * block
        yield Request(
            key=str(number),
            session_key=None,
            ordinal=number,
            arrival_s=arrival,
            time_basis="wall",
            input_tokens=tokens,
            # The optimizer writes 0 where it knows of no answer.
            output_tokens=output or None,
            prompt=Blocks(keys, block),
        )
    if assumed:
        yield Note(f"{assumed:,} look-ups have no input_len: each key was counted as a whole block")


def _text(row: dict[str, Any], number: int, prompts: Prompts) -> Record:
    arrival = parse_time(row["time"]) if isinstance(row["time"], str) else None
    if not isinstance(row["text"], str) or arrival is None:
        return Reject(number, "text is no text, or time no time")
    prompt, tokens = prompts.of_text(None, str(number), row["text"])
    return Request(str(number), None, number, arrival, "wall", input_tokens=tokens, prompt=prompt)


def _keys(row: dict[str, Any]) -> list[Any] | None:
    """All keys of the prompt: `total_keys` where `keys` holds only a part of them."""
    for name in ("total_keys", "keys"):
        found = row.get(name)
        if isinstance(found, list) and found:
            return found
    return row["keys"] if isinstance(row.get("keys"), list) else None
