"""Mooncake JSONL as AIPerf writes it: a row of a session holds what the turn *adds*, the answers are threaded live.

A turn's prompt is the previous prompt, its answer, and the row. Distinguished from cumulative Mooncake by name only
(--format mooncake-delta): the two look alike and read as each other they are silently wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from traces.formats.hashes.hash_rows import HashRow, Ids, rows
from traces.records import Base, Context, Piece, Prompt, Record, Reject, Request
from traces.source.clock import to_seconds
from traces.source.sources import Head, Source, parse_json

NAME = "mooncake-delta"
SUMMARY = {
    "carries": "block ids and lengths of what each turn adds, sessions, times of first turns",
    "time": "milliseconds from an unknown zero; turns that only have a delay have no time",
    "blocks": "512 tokens unless the row or --block-size says otherwise; ids name contents, not positions",
    "computes": "shapes and hit rates of the whole prompts that the turns add up to",
    "notes": "only read where it is named: --format mooncake-delta",
}
SESSION_SCOPE = "trace"
DEFAULT_BLOCK_TOKENS = 512


_decoder = msgspec.json.Decoder(HashRow)


class _Turn(msgspec.Struct):
    key: str
    tokens: int


def sniff(head: Head, name: str) -> float:
    """Never sure: its rows look like cumulative ones."""
    return 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a line, each extending the one before it in its session."""
    last: dict[str, _Turn] = {}
    digest = context.digest
    for one in rows(source, _decoder):
        if isinstance(one, Reject):
            yield one
            continue
        number, row, added, ids = one
        try:
            labels = _labels(ids)
            arrival = to_seconds(row.timestamp, context.time_unit or "ms")
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        block = row.block_size or context.block_tokens or DEFAULT_BLOCK_TOKENS
        if len(labels) > -(-added // block):
            yield Reject(number, "more block ids than the length allows at this block size (--block-size N)")
            continue
        output, key = row.output, str(number)
        session = key if row.session_id is None else str(row.session_id)
        before = last.get(session)
        tokens = added + (before.tokens if before else 0)
        scope = f"{NAME}|{source.digest().hex()}|{block}"
        pieces = [
            Piece(digest(f"{scope}|{label}"), min(block, added - place * block), "unknown")
            for place, label in enumerate(labels)
        ]
        rest = added - sum(piece.tokens for piece in pieces)
        pieces.append(Piece(digest(f"{scope}|rest|{number}"), rest, "unknown"))
        reply = Piece(digest(f"{scope}|reply|{number}"), output or 0, "assistant")
        last[session] = _Turn(key, tokens + (output or 0))
        yield Request(
            key=key,
            session_key=session,
            ordinal=number,
            arrival_s=arrival,
            time_basis="trace",
            model=row.model,
            input_tokens=tokens,
            output_tokens=output,
            prompt=Prompt(tuple(pieces), Base(before.key) if before else None, "structure"),
            reply=(reply,) if output else None,
        )


def _labels(ids: Ids) -> list[str]:
    if ids is None:
        return []
    found = ids if isinstance(ids, list) else parse_json(b"[" + ids + b"]")
    if not all(isinstance(label, int | str) and not isinstance(label, bool) for label in found):
        raise ValueError("hash_ids are not whole numbers or strings")
    return [str(label) for label in found]
