"""How old blocks are when an LRU cache evicts them: the time since their last use, exact at any capacity.

A reuse run says how many blocks a look-up takes over from which earlier request. So the replay tracks no single blocks,
only how many cached blocks each request touched last. LRU evicts from the least recent request, tails first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from traces.tree.compiled import njit

_SCHEMA = {
    "capacity_blocks": pl.Int64,
    "capacity_tokens": pl.Int64,
    "evicted_tokens": pl.Int64,
    "age_s_p10": pl.Float64,
    "age_s_p50": pl.Float64,
    "age_s_p90": pl.Float64,
}


class Evictions(NamedTuple):
    """Evictions of one capacity, e rows, in the order in which they happen.

    Attributes:
        row: int64[e], the request that touched the blocks last.
        at: int64[e], the request whose arrival evicts them.
        blocks: int64[e], how many.
    """

    row: NDArray[np.int64]
    at: NDArray[np.int64]
    blocks: NDArray[np.int64]


def evictions(
    request: NDArray[Any],
    blocks: NDArray[Any],
    distance_blocks: NDArray[Any],
    last_request: NDArray[Any],
    full_blocks: NDArray[Any],
    order: NDArray[Any],
    capacity_blocks: int,
) -> Evictions:
    """Replay an LRU cache of `capacity_blocks` in O(requests + runs).

    Args:
        request, blocks, distance_blocks, last_request: int[u], the runs in arrival order
        (`analysis.kernel.reuse.Reuse`).
        full_blocks: int[r], full blocks of each prompt.
        order: int[r], rows in arrival order.
        capacity_blocks: of the cache, at least 0.
    """
    held = np.ascontiguousarray(full_blocks, np.int64)
    runs = [np.ascontiguousarray(a, np.int64) for a in (request, blocks, distance_blocks, last_request)]
    row, at, gone = (np.empty(2 * len(held), np.int64) for _ in range(3))
    replay: Any = _replay
    count = replay(*runs, held, np.ascontiguousarray(order, np.int64), capacity_blocks, row, at, gone)
    return Evictions(row[:count], at[:count], gone[:count])


def eviction_age(
    warehouse: Warehouse, question: Question, capacities_tokens: tuple[int, ...] | None = None
) -> pl.DataFrame:
    """Age at eviction by cache size, for one LRU cache that starts empty and serves all requests.

    Args:
        warehouse, question: the dataset, block size and arrivals. Window and filters choose which evicted blocks are
            counted: those that a selected request touched last.
        capacities_tokens: cache sizes; None: every power of two in blocks, from the size of the median prompt to the
            size of all prompts together.

    Returns:
        capacity_blocks, capacity_tokens, evicted_tokens, and quantiles over evicted blocks of the time from their last
        use to the arrival that evicts them. A size that evicts nothing has no row.

    Raises:
        NeedsArrivals, BadQuestion: the dataset does not say when requests arrive.
    """
    prepared = warehouse.prepare(question)
    warehouse.need_times(prepared, "the age at eviction", seconds=True)
    block = prepared.block_size
    runs = prepared.read_runs(columns=["request", "blocks", "distance_blocks", "last_request"])
    full = prepared.read_facts(columns=["full_blocks"])["full_blocks"].fill_null(0).to_numpy()
    arrived = warehouse.arrived(question.arrivals)
    chosen = np.zeros(len(full), np.bool_)
    chosen[warehouse.grouped(question, "all")["row"].to_numpy()] = True
    request, blocks, distance, last = (runs[name].to_numpy() for name in runs.columns)
    distinct = int(full.sum()) - int(runs["blocks"].sum())
    if capacities_tokens is None:
        least = max(int(np.median(full[full > 0])) - 1, 0).bit_length() if full.any() else 0
        sizes = [1 << i for i in range(least, max(distinct - 1, 0).bit_length())]
    else:
        sizes = [tokens // block for tokens in capacities_tokens]
    rows = []
    for size in sizes:
        found = evictions(request, blocks, distance, last, full, arrived.order, size)
        mine = chosen[found.row]
        age = arrived.arrival_s[found.at[mine]] - arrived.arrival_s[found.row[mine]]
        gone = found.blocks[mine]
        if len(gone):
            rows.append((size, size * block, int(gone.sum()) * block, *_quantiles(age, gone, (0.1, 0.5, 0.9))))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _quantiles(values: NDArray[Any], weights: NDArray[Any], shares: tuple[float, ...]) -> list[float]:
    """The weighted quantile: the least value that at least this share of the weight does not exceed."""
    by = np.argsort(values, kind="stable")
    below = np.cumsum(weights[by])
    at = np.searchsorted(below, np.array(shares) * below[-1])
    return [float(value) for value in values[by][np.minimum(at, len(by) - 1)]]


@njit(cache=True)
def _replay(
    request: Any, blocks: Any, distance: Any, last: Any, full: Any, order: Any, capacity: Any,
    out_row: Any, out_at: Any, out_blocks: Any,
) -> int:  # fmt: skip
    held = np.zeros(len(full), np.int64)  # by row: cached blocks that this request touched last
    cached = 0
    oldest = 0  # place in the order: no request before it holds a block
    evictions = 0
    run = 0
    for place in range(len(order)):
        row = order[place]
        # The runs that hit move from the requests that touched them last to this one.
        while run < len(request) and request[run] == row:
            near = min(max(capacity - distance[run], 0), blocks[run])
            held[last[run]] -= near
            cached -= near
            run += 1
        held[row] = full[row]
        cached += full[row]
        # Evict from the oldest request that still holds blocks until the rest fits.
        while cached > capacity:
            back = order[oldest]
            gone = min(held[back], cached - capacity)
            if gone > 0:
                held[back] -= gone
                cached -= gone
                out_row[evictions], out_at[evictions], out_blocks[evictions] = back, row, gone
                evictions += 1
            if cached > capacity:
                oldest += 1
    return evictions
