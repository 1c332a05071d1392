"""Where the input tokens of a dataset went: `misses`, by any axis, summing to the prefix tokens exactly."""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import xxhash
from numpy.typing import NDArray

from analysis.store import arrivals as arrival_models
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Prepared, Warehouse
from analysis.why.caches.asked import Cache
from analysis.why.miss_causes import (
    REWRITING,
    Depths,
    Matches,
    Rows,
    causes,
    causes_as_defined,
    depths,
    first_seen_roles,
    longest_matches,
    lost_history,
)
from traces.records import ROLES

INSERTS = ("arrival", "finish")

LAYOUT = 2
"""Of the kept causes: files of another one are not read."""


class Misses(NamedTuple):
    """What became of every request's tokens.

    Attributes:
        rows: one row a request row (`row`, then `prefix_tokens`, `match_tokens`, `lost_tokens` and a column a cause).
            lost_tokens: what the previous prompt had behind the place where this one parts from all before it, in
            full native blocks of a hash trace.
        roles: the first-seen tokens by role (`row`, `role`, `tokens`).
        notes: what the figures assume.
        causes: the file that holds `rows`, for the queries that take it.
    """

    rows: pl.DataFrame
    roles: pl.DataFrame
    notes: tuple[str, ...]
    causes: str


def misses(warehouse: Warehouse, question: Question, cache: Cache | None = None) -> Misses:
    """Attribute every prefix token of every request (filters are applied by `by_group`).

    Raises:
        NeedsArrivals: the answer depends on times or on an order that the dataset does not have.
        BadQuestion: a cache that makes no sense here.
    """
    cache = cache or Cache()
    prepared = warehouse.prepare(question)
    _check(warehouse, prepared, cache)
    loaded, kinds = warehouse.loaded(), warehouse.kinds()
    count = len(loaded.leaf)
    known = loaded.leaf >= 0
    prefix = np.where(known, loaded.tree.end[np.maximum(loaded.leaf, 0)], 0)
    found = matches(warehouse, prepared)
    previous = kinds["previous_row"].to_numpy().astype(np.int64)
    before = np.where((previous >= 0) & known, prefix[np.maximum(previous, 0)], 0)
    rewrote = kinds["transition"].is_in(list(REWRITING)).fill_null(False).to_numpy()
    notes: list[str] = []
    rewritten_end = np.where(rewrote, np.minimum(prefix, before), 0)
    if question.definition == "tracetower":
        split = _split(warehouse, prepared, cache, prefix, found.tokens, rewritten_end, notes)
    else:
        from analysis.peers.defined_hits import defined_hits

        ceiling, hit = defined_hits(warehouse, question, cache.capacity_tokens)
        split = causes_as_defined(prefix, found.tokens, ceiling, hit, rewritten_end)
    rows = pl.DataFrame(
        {
            "row": np.arange(count),
            "prefix_tokens": prefix,
            "match_tokens": found.tokens,
            "lost_tokens": lost_history(prefix, before, found.tokens, loaded.native),
            **split,
        }
    )
    asked = xxhash.xxh3_64_hexdigest(repr((cache, question.definition, LAYOUT)).encode())
    key = f"{prepared.facts.stem.removeprefix('facts-')}-{asked}"
    file = prepared.facts.with_name(f"causes-{key}.parquet")
    if not file.is_file():
        part = file.with_name(f".{secrets.token_hex(4)}.{file.name}")
        rows.write_parquet(part)
        part.replace(file)
    return Misses(rows, _roles(loaded, split["first_seen"]), tuple(notes), str(file))


def _split(
    warehouse: Warehouse,
    prepared: Prepared,
    cache: Cache,
    prefix: Rows,
    match_tokens: Rows,
    rewritten_end: Rows,
    notes: list[str],
) -> dict[str, Rows]:
    """The causes in an LRU cache as this program defines it; adds to `notes` what it had to assume."""
    loaded, block, count = warehouse.loaded(), prepared.block_size, len(prefix)
    capacity = None if cache.capacity_tokens is None else cache.capacity_tokens // block
    total = None if capacity is None else capacity * (cache.replicas or 1)
    local = running = None
    if cache.insert == "finish":
        from analysis.why.caches.computed_reuse import computed_at, computed_reuse

        arrived = warehouse.arrived(prepared.question.arrivals)
        computed, unknown = computed_at(loaded.requests, arrived.arrival_s)
        if unknown:
            notes.append(f"{unknown:,} requests of unknown duration count as computed at their arrival")
        runs = computed_reuse(
            loaded.paths, loaded.tree.end, loaded.leaf, arrived.order, arrived.arrival_s, computed, block
        )
        running = runs.running_blocks
        shared = depths(runs.request, runs.blocks, runs.distance_blocks, runs.gap_s, count, total, cache.ttl_s)
    else:
        shared = _frame_depths(pl.read_parquet(prepared.runs), count, total, cache.ttl_s)
    if cache.replicas is not None:
        from analysis.why.caches.routed import replica_depths

        local = replica_depths(warehouse, prepared.question, cache, block, capacity)
    return causes(prefix, match_tokens, block, shared, local, running, rewritten_end)


def by_group(warehouse: Warehouse, question: Question, found: Misses, axis: str = "all") -> list[dict[str, Any]]:
    """The selected requests' tokens by cause for each group of an axis, in the contract's keys."""
    frame = warehouse.query("misses", question, axis=axis, causes=found.causes)
    groups = warehouse.grouped(question, axis).select("row", "group")
    roles = groups.join(found.roles, on="row", how="inner").group_by("group", "role").agg(pl.col("tokens").sum())
    by_role: dict[str, dict[str, int]] = {}
    for group, role, tokens in roles.sort("tokens", "role", descending=[True, False]).rows():
        by_role.setdefault(group, {})[role] = tokens
    return [{"axis": axis, **row, "first_seen_by_role": by_role.get(row["group"], {})} for row in frame.to_dicts()]


def matches(warehouse: Warehouse, prepared: Prepared) -> Matches:
    """The longest match of each prompt with anyone before it, kept in the dataset's cache."""
    arrivals = prepared.question.arrivals
    name = f"matches-{str(arrival_models.parse(arrivals)).replace(':', '-')}.parquet"
    kept = warehouse.dataset.read_cache(name)
    if kept is None:
        loaded, arrived = warehouse.loaded(), warehouse.arrived(arrivals)
        tree = loaded.tree
        found = longest_matches(
            tree.parent, tree.start, tree.end, loaded.leaf, arrived.order, arrived.arrival_s, loaded.paths
        )
        kept = pl.DataFrame({"tokens": found.tokens, "row": found.row})
        warehouse.dataset.write_cache(name, kept)
    return Matches(kept["tokens"].to_numpy(), kept["row"].to_numpy())


def _check(warehouse: Warehouse, prepared: Prepared, cache: Cache) -> None:
    if cache.insert not in INSERTS:
        raise BadQuestion(f"--insert is one of {', '.join(INSERTS)}, not {cache.insert!r}")
    if (cache.replicas is None) != (cache.policy is None):
        raise BadQuestion("--replicas and --policy belong together: name both")
    if prepared.question.definition != "tracetower" and cache != Cache(cache.capacity_tokens):
        raise BadQuestion(
            f"--definition {prepared.question.definition} has capacities only: no TTL, no replicas, no --insert finish"
        )
    bounded = cache.capacity_tokens is not None or cache.ttl_s is not None or cache.replicas is not None
    if bounded or cache.insert == "finish":
        timed = cache.ttl_s is not None or cache.insert == "finish"
        warehouse.need_times(prepared, "why a bounded, routed or busy cache misses", seconds=timed)
    elif not prepared.order_known:
        warehouse.need_times(prepared, "which request met a prefix first")


def _frame_depths(runs: pl.DataFrame, count: int, capacity: int | None, ttl_s: float | None) -> Depths:
    gap = runs["gap_s"].fill_null(np.nan).to_numpy()
    request, blocks, distance = (runs[name].to_numpy() for name in ("request", "blocks", "distance_blocks"))
    return depths(request, blocks, distance, gap, count, capacity, ttl_s)


def _roles(loaded: Any, first_seen: NDArray[np.int64]) -> pl.DataFrame:
    tree = loaded.tree
    row, code, tokens = first_seen_roles(tree.parent, tree.start, tree.end, tree.role, loaded.leaf, first_seen)
    names = pl.Series(list(ROLES), dtype=pl.String)
    frame = pl.DataFrame({"row": row.astype(np.int64), "role": names.gather(code.astype(np.uint32)), "tokens": tokens})
    return frame.group_by("row", "role", maintain_order=True).agg(pl.col("tokens").sum())
