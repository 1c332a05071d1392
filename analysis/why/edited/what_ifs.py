"""What-ifs for the ceiling: block size, TTL, a history that is not rewritten, a context cap, cached replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.reuse import reuse
from analysis.kernel.sorted_runs import hit_blocks_within, ttl_curve
from analysis.kernel.transitions import TEXT_TOLERANCE_TOKENS
from analysis.store.question import NeedsArrivals, Question
from analysis.store.warehouse import Warehouse
from analysis.why.consecutive import CHANCE_TOKENS
from analysis.why.edited.undoing import COMPACTION, REWRITTEN, undoing
from analysis.why.edited.undone import undone_workload
from analysis.why.matches import matches
from analysis.why.misses import Misses
from traces.records import ROLES

BLOCKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TTLS_S = (60.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0, 43_200.0, 86_400.0)
CAPS = (32_000, 64_000, 128_000, 256_000, 512_000, 1_000_000)
_SCHEMA = {
    "what_if": pl.String,
    "value": pl.Float64,
    "hit_tokens": pl.Int64,
    "prefix_tokens": pl.Int64,
    "hit_rate": pl.Float64,
    "difference": pl.Float64,
    "note": pl.String,
}

NOTES = {
    "as_is": "The ceiling: unbounded, one shared cache, at this block size.",
    "block_size": "Exact. The ceiling if the cache kept blocks of this many tokens.",
    "ttl": "Exact. An unbounded cache that forgets blocks unused for this many seconds.",
    "without_compaction": "Recomputed. A compacted prompt, and all that follow it, keep what was dropped, so they are "
    "longer; a summary is left out where the source names it, else it stays as new text. Nothing else changes, and "
    "no context window ends a session. Not a bound: without the compaction a session might have continued differently.",
    "without_edits": "Recomputed. A prompt whose history was rewritten has it as it was sent, and so have all that "
    "follow. Exact where both prompts are alike after one change; else the rewritten text counts as long as what "
    "it replaced, which is no bound.",
    "context_cap": "Exact. Every prompt cut off after this many tokens; the rest is neither requested nor hit.",
    "output_cached": "A prompt that appends to its session's last one also hits that reply except its last token: for "
    "those prompts an upper bound. What forks and rewinds would hit of earlier replies is not counted.",
}
"""What each what-if means, and whether its figure is exact, a recomputation under assumptions, or a bound."""


def what_if_table(warehouse: Warehouse, question: Question, found: Misses) -> pl.DataFrame:
    """One row per what-if: hit tokens and hit rate of the selected requests, and the difference from the ceiling.

    as_is: the ceiling. block_size: with blocks of that many tokens (multiples of the native block only). ttl: an
    unbounded cache that forgets blocks unused for this many seconds (left out if times are not known). context_cap:
    prompts cut off after this many tokens; exact, because truncated prompts share what they shared, up to the cap.
    without_compaction, without_edits: every prompt inserted again with these changes undone (see
    `analysis.why.edited.undoing`); `prefix_tokens` are those of the changed workload, and rate = hit / prefix in every
    row. output_cached: a prompt that appends hits the previous reply too (for those prompts an upper bound). `note`
    says in words what a row is (`NOTES`).
    """
    prepared = warehouse.prepare(question)
    chosen = warehouse.grouped(question, "all")["row"].to_numpy()
    rows = found.rows
    n, match = (rows[name].to_numpy()[chosen] for name in ("prefix_tokens", "match_tokens"))
    block = prepared.block_size
    base = int(n.sum())
    as_is = _full(match, block)
    answers: list[tuple[str, float | None, int, int]] = [("as_is", float(block), as_is, base)]
    native = np.lcm.reduce(np.array(warehouse.native_blocks() or [1], np.int64))
    answers += [("block_size", float(b), _full(match, b), base) for b in BLOCKS if b % int(native) == 0]
    answers += _ttls(warehouse, question, chosen, block, base)
    for name, kinds in (("without_compaction", COMPACTION), ("without_edits", REWRITTEN)):
        answers.append((name, None, *_undone(warehouse, question, found, kinds, chosen, (as_is, base))))
    answers += [
        ("context_cap", float(cap), _full(np.minimum(match, cap), block), int(np.minimum(n, cap).sum()))
        for cap in CAPS
        if n.size and cap < int(n.max())
    ]
    with_output = warehouse.query("hit_rate", question)["ceiling_with_output"][0]
    if with_output is not None:
        answers.append(("output_cached", None, round(with_output * base), base))
    frame = pl.DataFrame(
        [
            (name, value, hit, prefix, hit / prefix if prefix else None, None, NOTES[name])
            for name, value, hit, prefix in answers
        ],
        schema=_SCHEMA,
        orient="row",
    )
    return frame.with_columns(difference=pl.col("hit_rate") - (as_is / base if base else None))


def _full(match: NDArray[np.int64], block: int) -> int:
    return int((match // block).sum()) * block


def _undone(
    warehouse: Warehouse,
    question: Question,
    found: Misses,
    kinds: tuple[str, ...],
    chosen: NDArray[Any],
    as_is: tuple[int, int],
) -> tuple[int, int]:
    """Hit and prefix tokens of the chosen rows with changes of these kinds undone."""
    undone = undoing(warehouse, question, found, kinds)
    if not (undone.previous >= 0).any():
        return as_is
    prepared = warehouse.prepare(question)
    loaded, arrived, match = warehouse.loaded(), warehouse.arrived(question.arrivals), matches(warehouse, prepared)
    tree = loaded.tree
    left_out = np.zeros(len(tree.parent), np.bool_)
    if kinds == COMPACTION:
        left_out = np.asarray(tree.role) == ROLES.index("summary")
    made = undone_workload(
        tree.parent, tree.start, tree.end, loaded.leaf, arrived.order, match.row, match.tokens, undone, left_out,
        np.where(loaded.native == 1, TEXT_TOLERANCE_TOKENS, loaded.native), CHANCE_TOKENS,
    )  # fmt: skip
    runs = reuse(made.parent, made.start, made.end, made.leaf, arrived.order, arrived.arrival_s, prepared.block_size)
    prefix = int(made.end[made.leaf[chosen]].sum())
    return int(runs.hit_blocks[chosen].sum()) * prepared.block_size, prefix


def _ttls(
    warehouse: Warehouse, question: Question, chosen: NDArray[Any], block: int, base: int
) -> list[tuple[str, float | None, int, int]]:
    prepared = warehouse.prepare(question)
    try:
        warehouse.need_times(prepared, "a TTL", seconds=False)
    except NeedsArrivals:
        return []
    if not prepared.timed:
        return []
    runs = prepared.read_runs(columns=["request", "blocks", "gap_s"])
    mine = np.zeros(prepared.requests, np.bool_)
    mine[chosen] = True
    kept = mine[runs["request"].to_numpy()]
    gaps = ttl_curve(runs["gap_s"].fill_null(np.nan).to_numpy()[kept], runs["blocks"].to_numpy()[kept])
    hits = hit_blocks_within(gaps, np.array(TTLS_S))[0]
    return [("ttl", ttl, int(hit) * block, base) for ttl, hit in zip(TTLS_S, hits, strict=True)]
