"""Kinds planted into sessions of block ids, as hash traces have them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.planted.prompts import common
from tests.planted.score import Planted
from tests.references import naive

HASH_KINDS = ("nonce", "edit", "compaction", "fork")
"""What can be planted where prompts are block ids. A nonce changes the first block, and so every id."""


def plant_hashes(seed: int, sessions: Sequence[Sequence[int]], rates: dict[str, float], block: int = 64) -> Planted:
    """Plant kinds into sessions of block ids, chained as engines do: after a change every id is another.

    An edit or a compaction keeps less than any earlier prompt of the session has: what keeps all of one is a rewind.

    Args:
        seed: of everything that is drawn.
        sessions: per session the lengths of its prompts in blocks, growing.
        rates: by kind of `HASH_KINDS`, the chance that a call after the first gets it.
        block: tokens a block holds.
    """
    rng = random.Random(seed)
    used = 0
    rows: list[dict[str, Any]] = []
    truth: list[str | None] = []

    def fresh(count: int) -> list[int]:
        nonlocal used
        used += count
        return list(range(used - count, used))

    for number, lengths in enumerate(sessions):
        at = 1_790_000_000.0 + 100_000 * number
        ids: list[int] = []
        past: list[list[int]] = []
        before = 0
        for length in lengths:
            drawn = [kind for kind in HASH_KINDS if past and rng.random() < rates.get(kind, 0.0)]
            kind: str | None = drawn[0] if drawn else None
            least = min(map(len, past), default=0)
            if (kind in ("edit", "compaction") and least < 8) or (
                kind == "fork" and (len(past) < 3 or len(past[-1]) - len(past[-2]) < 3)
            ):
                kind = None  # within the tolerance of a block it would be an append
            if kind == "fork":
                branch = past[-2] + fresh(5)
                at += 30
                rows.append(_hash_row(rng, number, at, branch, block))
                truth.append("fork")
            elif kind == "nonce":
                ids = fresh(len(ids))
            elif kind == "edit":
                keep = rng.randint(1, least - 3)
                ids = ids[:keep] + fresh(len(ids) - keep)
            elif kind == "compaction":
                keep = rng.randint(1, least // 2 - 1)
                ids = ids[:keep] + fresh(max(1, len(ids) // 3 - keep))
            grown = max(1, length - before)
            before = length
            if kind == "compaction":
                grown = min(grown, len(past[-1]) - len(ids) - 1)
            ids = ids + fresh(max(grown, 0))
            at += 30
            rows.append(_hash_row(rng, number, at, ids, block))
            truth.append(kind)
            past.append(ids)
    none = [False] * len(rows)
    return Planted(rows, truth, none, lost_hash_tokens(rows), [""] * len(rows))


def lost_hash_tokens(rows: Sequence[dict[str, Any]]) -> list[int]:
    """Tokens of the previous prompt that no earlier prompt shares; ids of one session match no other's."""
    past: dict[str, list[Any]] = {}
    lost = []
    for row in rows:
        prompt, earlier = np.array(row["hash_ids"]), past.setdefault(row["session_id"], [])
        both = min(len(prompt), len(earlier[-1])) if earlier else 0
        lost.append(max(0, both - max((common(o, prompt) for o in earlier), default=0)) * row["block_size"])
        earlier.append(prompt)
    return lost


def _hash_row(rng: random.Random, number: int, at: float, ids: list[int], block: int) -> dict[str, Any]:
    return {
        "ts": at, "end_time": at + rng.choice((2.0, 120.0)), "session_id": f"s{number}", "block_size": block,
        "input_tokens": block * len(ids), "hash_ids": ids,
    }  # fmt: skip


def real_lengths(most: int) -> list[list[int]]:
    """Lengths in blocks of the published sessions, as far as they only grow; none where they are not at hand."""
    trace = naive.weka_trace()
    if trace is None:
        return []
    blocks = trace.tree.end[trace.tree.leaf] // 64
    found = []
    for code in range(int(trace.session.max()) + 1):
        rows = np.flatnonzero(trace.session == code)
        lengths: list[int] = []
        for length in blocks[rows[np.argsort(trace.arrival_s[rows], kind="stable")]].tolist():
            if lengths and length <= lengths[-1]:
                break
            lengths.append(length)
        if len(lengths) > 5:
            found.append(lengths)
    return found[:most]
