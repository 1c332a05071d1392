"""What would change the ceiling: block size, TTL, a history that is not rewritten, a context cap, cached replies."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.events import build_gaps, hits_within
from analysis.miss_causes import REWRITING
from analysis.misses import Misses
from analysis.question import NeedsArrivals, Question
from analysis.warehouse import Warehouse

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
}


def what_if_table(warehouse: Warehouse, question: Question, found: Misses) -> pl.DataFrame:
    """One row per what-if: hit tokens and rate of the selected requests, and the difference to the ceiling.

    as_is: the ceiling. block_size: of that many tokens (multiples of the native block only). ttl: an unbounded cache
    that forgets blocks unused for so many seconds (left out where times are not known). context_cap: prompts cut off
    behind so many tokens; exact, since what truncated prompts share is what they shared, up to the cap.
    without_compaction, without_edits: prompts of these transitions also hit what their session's previous prompt had in
    place of what they changed (an upper bound). output_cached: a prompt that appends hits the previous reply too.
    """
    prepared = warehouse.prepare(question)
    chosen = warehouse.grouped(question, "all")["row"].to_numpy()
    rows = found.rows
    n, match, lost = (rows[name].to_numpy()[chosen] for name in ("prefix_tokens", "match_tokens", "lost_tokens"))
    block = prepared.block_size
    base = int(n.sum())
    as_is = _full(match, block)
    told: list[tuple[str, float | None, int, int]] = [("as_is", float(block), as_is, base)]
    native = np.lcm.reduce(np.array(warehouse.native_blocks() or [1], np.int64))
    told += [("block_size", float(b), _full(match, b), base) for b in BLOCKS if b % int(native) == 0]
    told += _ttls(warehouse, question, chosen, block, base)
    transition = warehouse.kinds()["transition"].gather(chosen)
    for name, kinds in (("without_compaction", ("compaction",)), ("without_edits", REWRITING)):
        gained = np.where(transition.is_in(list(kinds)).fill_null(False).to_numpy(), lost, 0)
        told.append((name, None, _full(match + gained, block), base))
    told += [
        ("context_cap", float(cap), _full(np.minimum(match, cap), block), int(np.minimum(n, cap).sum()))
        for cap in CAPS
        if n.size and cap < int(n.max())
    ]
    with_output = warehouse.query("hit_rate", question, block=block)["ceiling_with_output"][0]
    if with_output is not None:
        told.append(("output_cached", None, round(with_output * base), base))
    frame = pl.DataFrame(
        [(name, value, hit, prefix, hit / prefix if prefix else None, None) for name, value, hit, prefix in told],
        schema=_SCHEMA,
        orient="row",
    )
    return frame.with_columns(difference=pl.col("hit_rate") - (as_is / base if base else None))


def _full(match: NDArray[np.int64], block: int) -> int:
    return int((match // block).sum()) * block


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
    runs = pl.read_parquet(prepared.runs, columns=["request", "blocks", "gap_s"])
    mine = np.zeros(prepared.requests, np.bool_)
    mine[chosen] = True
    kept = mine[runs["request"].to_numpy()]
    gaps = build_gaps(runs["gap_s"].fill_null(np.nan).to_numpy()[kept], runs["blocks"].to_numpy()[kept])
    hits = hits_within(gaps, np.array(TTLS_S))[0]
    return [("ttl", ttl, int(hit) * block, base) for ttl, hit in zip(TTLS_S, hits, strict=True)]
