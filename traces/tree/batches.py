"""Converts prompts as readers give them into runs for the prefix tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.records import ROLES, Piece, Prompt
from traces.tree.blocks import Added, parse_ids, units_of
from traces.tree.insertion import LEAF_BASE, REPLY_BASE, ROOT_BASE, Batch
from traces.tree.nodes import VIRTUAL

ROLE_CODES = {role: code for code, role in enumerate(ROLES)}


class BlockRow(NamedTuple):
    """A prompt given by block ids: its row, its length, its native block, and the ids it adds."""

    row: int
    tokens: int
    block_tokens: int
    space: int
    added: Added


class PieceRow(NamedTuple):
    """A prompt given by pieces: its row, the row it extends (-1 none) and its reply's pieces."""

    row: int
    space: int
    prompt: Prompt
    base_row: int
    reply: tuple[Piece, ...]


def _scramble(a: NDArray[np.uint64], b: NDArray[Any]) -> NDArray[np.uint64]:
    """Mix two arrays into 64-bit values that differ where either does."""
    x = (a + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ b.astype(np.uint64) * np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(29)
    return x


def block_batch(rows: list[BlockRow], digest: Callable[[str], int], secret: int) -> tuple[Batch, NDArray[np.int8]]:
    """Runs of block-id prompts, and int8 per row: 1 used, 0 its ids are invalid.

    A prompt of n tokens has ⌊n/B⌋ whole blocks. One more id belongs to the partial last block (`ceil`); without it
    (`floor`) the remaining tokens are private. With fewer ids than whole blocks, the blocks without an id are private.
    """
    count = len(rows)
    row_ids, lengths_of, blocks_of, spaces, adds = zip(*rows, strict=True) if rows else ((),) * 5
    bases, base_counts, texts, _, totals = zip(*adds, strict=True) if adds else ((),) * 5
    row, tokens, block = np.array(row_ids, np.int64), np.array(lengths_of, np.int64), np.array(blocks_of, np.int64)
    space = np.array(spaces, np.int32)
    base, base_blocks, total = (np.array(v, np.int64) for v in (bases, base_counts, totals))
    lengths = np.array([len(text) for text in texts], np.int64)
    ends = np.cumsum(lengths)
    text = np.frombuffer(b"".join(texts), np.uint8)
    units = np.zeros(int(total.sum() - base_blocks.sum()) + 1, np.uint64)
    starts = np.zeros(count + 1, np.int64)
    in_batch = np.searchsorted(row, base)
    in_batch[(base < row[0]) if count else base < 0] = -1
    fine = parse_ids(text, ends - lengths, ends, in_batch, units, starts)
    begin = starts[:-1].copy()
    extra: list[NDArray[np.uint64]] = []
    for i, r in enumerate(rows):
        if r.added.labels is not None or not fine[i]:
            labels = r.added.labels if r.added.labels is not None else _big_numbers(r.added)
            try:
                found = units_of(labels, digest) if labels is not None and r.added.base < 0 else None
            except ValueError:
                found = None
            if found is None:
                fine[i] = 0
                continue
            fine[i] = 1
            begin[i] = units.size + sum(e.size for e in extra)
            extra.append(found)
    if extra:
        units = np.concatenate([units, *extra])
    whole = tokens // block
    rest = tokens - whole * block
    known = np.minimum(whole, total)
    ceil_tail = (total == whole + 1) & (rest > 0)
    last = np.clip(begin + total - base_blocks - 1, 0, units.size - 1)
    private = _scramble(row.astype(np.uint64) + np.uint64(secret & 0xFFFFFFFFFFFF), np.full(count, secret >> 48))
    tail_value = np.where(ceil_tail, _scramble(units[last], rest), private)
    runs = np.arange(count, dtype=np.int64) * 3
    zeros = np.zeros(count, np.int64)

    def three(a: Any, b: Any, c: Any, dtype: Any) -> NDArray[Any]:
        return np.stack([np.broadcast_to(np.asarray(x, dtype), count) for x in (a, b, c)], axis=1).reshape(-1)

    batch = Batch(
        row=row,
        base_kind=np.where(base >= 0, LEAF_BASE, ROOT_BASE).astype(np.int8),
        base_row=np.maximum(base, 0),
        keep=np.full(count, -1, np.int64),
        space=space,
        first_run=runs,
        reply_run=runs + 3,
        end_run=runs + 3,
        run_offset=three(begin, VIRTUAL, VIRTUAL, np.int64),
        run_value=three(zeros, private + np.uint64(1 << 40), tail_value, np.uint64),
        run_count=three(np.maximum(known - base_blocks, 0), whole - known, (rest > 0).astype(np.int64), np.int64),
        run_per_unit=three(block, block, np.maximum(rest, 1), np.int32),
        run_role=np.zeros(3 * count, np.int8),
        run_full=three(1, 0, 0, np.int8),
        units=units,
    )
    return _only(batch, fine), fine


def _big_numbers(added: Added) -> list[Any] | None:
    """Ids that the fast parser cannot read, as labels; None if they are not a list of labels."""
    try:
        found = json.loads(b"[" + added.text + b"]")  # whole numbers of any size stay whole
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) else None


def _only(batch: Batch, fine: NDArray[np.int8]) -> Batch:
    """Drop the invalid rows (their runs stay in place, unused)."""
    if fine.all():
        return batch
    keep = fine.astype(bool)
    names = ("row", "base_kind", "base_row", "keep", "space", "first_run", "reply_run", "end_run")
    return batch._replace(**{name: getattr(batch, name)[keep] for name in names})


def piece_batch(rows: list[PieceRow]) -> Batch:
    """Runs of prompts given by pieces."""
    offset: list[int] = []
    value: list[int] = []
    size: list[int] = []
    role: list[int] = []
    units: list[NDArray[np.uint64]] = []
    used = 0
    first: list[int] = []
    middle: list[int] = []
    end: list[int] = []
    for r in rows:
        first.append(len(size))
        for part in (r.prompt.pieces, r.reply):
            for piece in part:
                if piece.tokens <= 0:
                    continue
                if piece.units is not None:
                    offset.append(used)
                    value.append(0)
                    units.append(piece.units.astype(np.uint64, copy=False))
                    used += piece.tokens
                else:
                    offset.append(VIRTUAL)
                    value.append(piece.key & 0xFFFFFFFFFFFFFFFF)
                size.append(piece.tokens)
                role.append(ROLE_CODES.get(piece.role, 0))
            if part is r.prompt.pieces and len(middle) < len(first):
                middle.append(len(size))
        end.append(len(size))
    bases = [r.prompt.base for r in rows]
    kinds = [
        ROOT_BASE if r.base_row < 0 or b is None else (REPLY_BASE if b.with_reply else LEAF_BASE)
        for r, b in zip(rows, bases, strict=True)
    ]
    keep = [-1 if b is None or b.keep_tokens is None else b.keep_tokens for b in bases]
    return Batch(
        row=np.array([r.row for r in rows], np.int64),
        base_kind=np.array(kinds, np.int8),
        base_row=np.array([max(0, r.base_row) for r in rows], np.int64),
        keep=np.array(keep, np.int64),
        space=np.array([r.space for r in rows], np.int32),
        first_run=np.array(first, np.int64),
        reply_run=np.array(middle, np.int64),
        end_run=np.array(end, np.int64),
        run_offset=np.array(offset, np.int64),
        run_value=np.array(value, np.uint64),
        run_count=np.array(size, np.int64),
        run_per_unit=np.ones(len(size), np.int32),
        run_role=np.array(role, np.int8),
        run_full=np.ones(len(size), np.int8),
        units=np.concatenate(units) if units else np.zeros(0, np.uint64),
    )
