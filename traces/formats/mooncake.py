"""Mooncake JSONL: one request a line, 512-token block ids, milliseconds.

A row may carry `session_id` (then rows are whole, cumulative prompts) and `block_size`. Only the ids that are new since
the session's previous row are ever parsed (traces.blocks).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from traces.clock import seconds_per
from traces.records import Blocks, Context, Note, Record, Reject, Request
from traces.sources import Head, Source, parse_json

NAME = "mooncake"
SUMMARY = {
    "carries": "block ids, lengths, times; sessions where a writer adds session_id",
    "time": "milliseconds from an unknown zero",
    "blocks": "512 tokens unless the row or --block-size says otherwise; a partial last block has an id (ceil)",
}
SESSION_SCOPE = "trace"
DEFAULT_BLOCK_TOKENS = 512

_IDS = b'"hash_ids"'


class _Row(msgspec.Struct):
    input_length: int | None = None
    input_tokens: int | None = None
    output_length: int | None = None
    output_tokens: int | None = None
    timestamp: int | float | None = None
    created_time: int | float | None = None
    hash_ids: Any = None
    session_id: str | int | None = None
    block_size: int | None = None
    model: str | None = None
    delay: int | float | None = None


_decode = msgspec.json.Decoder(_Row).decode


def sniff(head: Head, name: str) -> float:
    """Sure where the first record has hash_ids and a length, and none of the fields of its relatives."""
    record = head.record
    if not isinstance(record, dict) or "hash_ids" not in record:
        return 0.0
    if not {"input_length", "input_tokens"} & record.keys():
        return 0.0
    if {"chat_id", "requests", "dependencies", "play_id", "wait_for", "branches"} & record.keys():
        return 0.1
    return 0.9


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a line."""
    default = context.block_tokens or DEFAULT_BLOCK_TOKENS
    unit = seconds_per(context.time_unit or "ms")
    deltas = 0
    for number, line in source.lines():
        if line is None:
            yield Reject(number, "a line longer than 256 MiB")
            continue
        if not line or line.isspace():
            continue
        try:
            row, ids = _row(line)
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        tokens = row.input_length if row.input_length is not None else row.input_tokens
        output = row.output_length if row.output_length is not None else row.output_tokens
        time = row.timestamp if row.timestamp is not None else row.created_time
        block = row.block_size or default
        problem = _problem(tokens, output, time, block)
        if problem:
            yield Reject(number, problem)
            continue
        if row.delay is not None and time is None:
            deltas += 1
        session = row.session_id
        yield Request(
            key=str(number),
            session_key=None if session is None else str(session),
            ordinal=number,
            arrival_s=None if time is None else time * unit,
            time_basis="trace",
            model=row.model,
            input_tokens=tokens,
            output_tokens=output,
            prompt=None if ids is None else Blocks(ids, block),
        )
    if deltas:
        yield Note(
            f"{deltas:,} rows have a delay and no timestamp, as traces of deltas have (a row holds what a turn adds). "
            "They were read as whole prompts; if they are deltas, every figure is wrong: name the format."
        )


def _row(line: bytes) -> tuple[_Row, bytes | list[Any] | None]:
    """Return the row without its ids, and the ids (raw text where they are plain numbers).

    Raises:
        ValueError: with a reason that quotes nothing.
    """
    at = line.find(_IDS)
    if at > 0 and line[at - 1] != 92:
        begin = line.find(b"[", at)
        end = line.find(b"]", begin)
        if begin > 0 and end > 0 and line[at + 10 : begin].strip() == b":":
            try:
                return _decode(line[:at] + b'"hash_ids":0' + line[end + 1 :]), line[begin + 1 : end]
            except (msgspec.DecodeError, ValueError):
                pass
    value = parse_json(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    ids = value.pop("hash_ids", None)
    if ids is not None and not isinstance(ids, list):
        raise ValueError("hash_ids is not a list")
    try:
        return msgspec.convert(value, _Row), ids
    except msgspec.ValidationError as error:
        raise ValueError(_without_content(str(error))) from None


def _without_content(message: str) -> str:
    return re.sub(r"[^ -~]", "?", message)[:120]


def _problem(tokens: int | None, output: int | None, time: float | None, block: int) -> str | None:
    if tokens is None:
        return "no input_length"
    if tokens < 0 or (output is not None and output < 0):
        return "a negative length"
    if time is not None and not abs(time) < 1e15:
        return "a timestamp that is no time"
    if block <= 0:
        return "a block size below 1"
    return None
