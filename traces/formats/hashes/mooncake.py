"""Mooncake JSONL: one request a line, 512-token block ids, milliseconds.

A row may carry `session_id` (then rows are whole, cumulative prompts) and `block_size`. Only the ids that are new since
the session's previous row are ever parsed (traces.tree.blocks).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from traces.formats.hashes.hash_rows import HashRow, Ids, rows
from traces.records import Blocks, Context, Note, Record, Reject, Request
from traces.source.clock import seconds_per, to_seconds
from traces.source.sources import Head, Source

NAME = "mooncake"
SUMMARY = {
    "carries": "block ids, lengths, times; sessions where a writer adds session_id",
    "time": "milliseconds from an unknown zero",
    "blocks": "512 tokens unless the row or --block-size says otherwise; a partial last block has an id (ceil)",
    "computes": "shapes, hit rates, capacity curves; sessions are inferred where rows name none",
}
SESSION_SCOPE = "trace"
TIME_UNIT = "ms"
DEFAULT_BLOCK_TOKENS = 512
SANE_TICKS = 1 << 33
"""Whole numbers below this are times in any unit; larger ones are looked at more closely."""


class _Row(HashRow):
    delay: int | float | None = None
    delay_ms: int | float | None = None


_decoder = msgspec.json.Decoder(_Row)


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
    unit = context.time_unit or "ms"
    scale = seconds_per(unit)
    doubts = _Doubts()
    for one in rows(source, _decoder):
        if isinstance(one, Reject):
            yield one
            continue
        number, row, tokens, ids = one
        time = row.timestamp if row.timestamp is not None else row.created_time
        plain = type(time) is int and -SANE_TICKS < time < SANE_TICKS
        try:
            arrival = time * scale if plain else to_seconds(time, unit)  # type: ignore[operator]
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        session = None if row.session_id is None else str(row.session_id)
        if session is not None and doubts.open:
            doubts.look(session, tokens, ids, row.delay is not None or row.delay_ms is not None)
        output = row.output_length if row.output_length is not None else row.output_tokens  # twice as fast as `output`
        prompt = None if ids is None else Blocks(ids, row.block_size or default)
        # by position, which is twice as fast: key, session, ordinal, arrival, basis, ttft, duration, model, input,
        # cache read and write, output, complete, estimate, reasoning, prompt
        yield Request(
            str(number), session, number, arrival, "trace", None, None, row.model, tokens,
            None, None, output, None, None, None, prompt,
        )  # fmt: skip
    yield from doubts.notes()


class _Doubts:
    """Whether a session's rows look like deltas: they start with other ids or are shorter than the row before."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, Any]] = {}
        self._follow = 0
        self._doubtful = 0
        self._delayed = False

    @property
    def open(self) -> bool:
        """False once thousands of rows have shown that these are whole prompts."""
        return self._follow < 4096 or self._doubtful * 10 > self._follow

    def look(self, session: str, tokens: int, ids: Ids, delayed: bool) -> None:
        first: Any = (ids or [None])[0]
        if isinstance(ids, bytes):
            comma = ids.find(b",")
            first = ids[: comma if comma >= 0 else None].strip() or None
        before = self._last.get(session)
        self._last[session] = (tokens, first)
        if before is not None:
            self._follow += 1
            self._delayed |= delayed
            self._doubtful += tokens < before[0] or (first is not None and first != before[1])

    def notes(self) -> Iterator[Record]:
        """A note where half of the follow-up rows do not extend the row before (nearly all, without delays)."""
        if self._doubtful and self._doubtful >= self._follow * (0.5 if self._delayed else 0.9):
            yield Note(
                f"{self._doubtful:,} of {self._follow:,} follow-up rows do not extend the row before them in their "
                "session, as in traces of deltas (a row holds what a turn adds). They were read as whole prompts; if "
                "they are deltas every figure is wrong: name the format (--format mooncake-delta)."
            )
