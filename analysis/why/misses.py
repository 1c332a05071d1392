"""Where the input tokens of a dataset went: `misses`, by any axis. They sum exactly to the prefix tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.peers.defined_hits import defined_hits
from analysis.store import arrivals as arrival_models
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.attribution import causes, causes_as_defined
from analysis.why.caches.cache import Cache, check_cache
from analysis.why.caches.depths import cache_depths
from analysis.why.causes import REWRITING
from analysis.why.first_seen import first_seen_roles
from analysis.why.matches import lost_history, matches
from traces.records import ROLES


class Misses(NamedTuple):
    """The causes of every request's tokens.

    Attributes:
        rows: one row per request row: `row`, `prefix_tokens`, `match_tokens`, `lost_tokens` and a column per cause.
            lost_tokens: tokens of the previous prompt after the place where this one differs from all earlier ones, in
            full native blocks of a hash trace.
        roles: the first-seen tokens by role (`row`, `role`, `tokens`).
        notes: what the figures assume.
        causes: the Parquet file of `rows`, for the queries that read it.
    """

    rows: pl.DataFrame
    roles: pl.DataFrame
    notes: tuple[str, ...]
    causes: str


def misses(warehouse: Warehouse, question: Question, cache: Cache | None = None) -> Misses:
    """Attribute every prefix token of every request (filters are applied by `by_group`).

    Raises:
        NeedsArrivals: the answer depends on times or on an order that the dataset does not have.
        BadQuestion: a cache that does not fit the dataset or the question.
    """
    cache = cache or Cache()
    prepared = warehouse.prepare(question)
    check_cache(warehouse, prepared, cache)
    loaded, kinds = warehouse.loaded(), warehouse.kinds()
    count = len(loaded.leaf)
    known = loaded.leaf >= 0
    prefix = np.where(known, loaded.tree.end[np.maximum(loaded.leaf, 0)], 0)
    found = matches(warehouse, prepared)
    previous = kinds["previous_row"].to_numpy().astype(np.int64)
    before = np.where((previous >= 0) & known, prefix[np.maximum(previous, 0)], 0)
    rewrote = kinds["transition"].is_in(list(REWRITING)).fill_null(False).to_numpy()
    notes: tuple[str, ...] = ()
    rewritten_end = np.where(rewrote, np.minimum(prefix, before), 0)
    if question.definition == "tracetower":
        deep = cache_depths(warehouse, prepared, cache)
        notes = deep.notes
        split = causes(
            prefix, found.tokens, prepared.block_size, deep.shared, deep.replica, deep.running, rewritten_end
        )
    else:
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
    key = (prepared.block_size, arrival_models.parse(question.arrivals), cache, question.definition)
    file = warehouse.dataset.caches.find("causes", key) or warehouse.dataset.caches.keep("causes", key, rows)
    return Misses(rows, _roles(loaded, split["first_seen"]), notes, str(file))


def by_group(warehouse: Warehouse, question: Question, found: Misses, axis: str = "all") -> list[dict[str, Any]]:
    """The selected requests' tokens by cause for each group of an axis, with the keys of the command line."""
    frame = warehouse.query("misses", question, axis=axis, causes=found.causes)
    groups = warehouse.grouped(question, axis).select("row", "group")
    roles = groups.join(found.roles, on="row", how="inner").group_by("group", "role").agg(pl.col("tokens").sum())
    by_role: dict[str, dict[str, int]] = {}
    for group, role, tokens in roles.sort("tokens", "role", descending=[True, False]).rows():
        by_role.setdefault(group, {})[role] = tokens
    return [{"axis": axis, **row, "first_seen_by_role": by_role.get(row["group"], {})} for row in frame.to_dicts()]


def _roles(loaded: Any, first_seen: NDArray[np.int64]) -> pl.DataFrame:
    tree = loaded.tree
    row, code, tokens = first_seen_roles(tree.parent, tree.start, tree.end, tree.role, loaded.leaf, first_seen)
    names = pl.Series(list(ROLES), dtype=pl.String)
    frame = pl.DataFrame({"row": row.astype(np.int64), "role": names.gather(code.astype(np.uint32)), "tokens": tokens})
    return frame.group_by("row", "role", maintain_order=True).agg(pl.col("tokens").sum())
