"""Bailian (Qwen) JSONL: one request a line, 16-token block ids, seconds; conversations by parent links."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from traces.formats.hashes.hash_rows import HashRow, rows
from traces.records import Blocks, Context, Note, Record, Reject, Request
from traces.source.clock import to_seconds
from traces.source.sources import Head, Source

NAME = "bailian"
SUMMARY = {
    "carries": "block ids, lengths, times, conversations by parent links",
    "time": "seconds from an unknown zero",
    "blocks": "16 tokens unless --block-size says otherwise; a partial last block has an id (ceil)",
    "computes": "shapes, hit rates, transitions, capacity curves",
}
SESSION_SCOPE = "trace"
BLOCK_TOKENS = 16


class _Row(HashRow, kw_only=True):
    chat_id: int | str
    parent_chat_id: int | str | None = None


_decoder = msgspec.json.Decoder(_Row)


def sniff(head: Head, name: str) -> float:
    """Sure where the first record has a chat_id and block ids or a parent."""
    record = head.record
    if not isinstance(record, dict) or "chat_id" not in record or "input_length" not in record:
        return 0.0
    return 0.95 if {"hash_ids", "parent_chat_id"} & record.keys() else 0.4


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a line; a conversation is what has one root (parent -1, none, or outside the trace)."""
    block = context.block_tokens or BLOCK_TOKENS
    roots: dict[int | str, str] = {}
    orphans = 0
    for one in rows(source, _decoder):
        if isinstance(one, Reject):
            yield one
            continue
        number, row, tokens, ids = one
        try:
            arrival = to_seconds(row.timestamp, context.time_unit or "s")
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        parent = row.parent_chat_id
        root = None if parent is None else roots.get(parent)
        if root is None:
            root = str(row.chat_id)
            orphans += parent not in (None, -1, "-1", "")
        roots[row.chat_id] = root
        yield Request(
            key=str(number),
            session_key=root,
            ordinal=number,
            arrival_s=arrival,
            time_basis="trace",
            input_tokens=tokens,
            output_tokens=row.output,
            prompt=None if ids is None else Blocks(ids, block),
        )
    if orphans:
        yield Note(
            f"{orphans:,} rows continue a conversation that began before the trace: each starts a session of its own"
        )
