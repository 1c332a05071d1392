"""The longest match of every prompt with an earlier one, and the history that a request lost."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths
from analysis.kernel.reuse import reuse
from analysis.store import arrivals as arrival_models
from analysis.store.prepared import Prepared
from analysis.store.warehouse import Warehouse
from analysis.why.attribution import Rows


class Matches(NamedTuple):
    """The longest match of each prompt with any earlier one, to the token.

    Attributes:
        tokens: int64[r]; 0 where nothing is shared or the prompt is unknown.
        row: int64[r], the latest request that shares them; -1 none.
    """

    tokens: Rows
    row: Rows


def matches(warehouse: Warehouse, prepared: Prepared) -> Matches:
    """`longest_matches` under an arrival model, kept in the dataset's cache."""
    arrivals = prepared.question.arrivals

    def make() -> pl.DataFrame:
        loaded, arrived = warehouse.loaded(), warehouse.arrived(arrivals)
        tree = loaded.tree
        made = longest_matches(
            tree.parent, tree.start, tree.end, loaded.leaf, arrived.order, arrived.arrival_s, loaded.paths
        )
        return pl.DataFrame({"tokens": made.tokens, "row": made.row})

    frame = warehouse.dataset.caches.frame("matches", (arrival_models.parse(arrivals),), make)
    return Matches(frame["tokens"].to_numpy(), frame["row"].to_numpy())


def longest_matches(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    arrival_s: NDArray[Any],
    paths: HeavyPaths,
) -> Matches:
    """The longest match of each prompt with any earlier one: reuse at block size 1, unbounded, in one pass."""
    runs = reuse(parent, start, end, leaf, order, arrival_s, 1, None, paths)
    row = np.full(len(leaf), -1, np.int64)
    row[runs.request] = runs.last_request  # runs come head first, so the deepest one stays
    return Matches(runs.hit_blocks, row)


def lost_history(prefix_tokens: Rows, previous_tokens: Rows, match_tokens: Rows, native_tokens: Rows) -> Rows:
    """Tokens of the previous prompt after the place where this one differs from all earlier prompts, int64[r].

    max(0, min(n̄, m̄) − longest match with any earlier prompt). A bar rounds a length down to full native blocks, as
    transitions do, because the partial last block of a hash trace has an id of its own in every prompt, and growing
    beyond it loses nothing. For text (native block 1) the figure is exact to the token.

    Args:
        prefix_tokens, previous_tokens: int64[r], n and m; m is 0 where there is no previous prompt.
        match_tokens: int64[r], longest match with any earlier prompt.
        native_tokens: int64[r], native block of the request's source, 1 for text.
    """
    both = np.minimum(prefix_tokens, previous_tokens) // native_tokens * native_tokens
    lost: Rows = np.maximum(both - match_tokens, 0)
    return lost
