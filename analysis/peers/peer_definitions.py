"""Hit rates as other tools define them, to compare with what they print.

kvcache-simulator: token-weighted over the last half of the requests. A partial last block is a block like others: it
hits if its id repeats (with the weight of its tokens) and takes a place in the cache. It evicts only leaves, the least
recent first, but never blocks of the inserted prompt that were cached before. That is the LRU order of the curve,
except for prompts with more blocks than the cache (`simulated_hits`). AIPerf analyze-trace: the unweighted mean over
requests of hit blocks / blocks, in an unbounded cache, counting partial blocks.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import heavy_paths
from analysis.kernel.reuse import reuse
from analysis.store.question import BadQuestion, Question, parse_window
from analysis.store.warehouse import Warehouse
from traces.tree.compiled import njit


class Units(NamedTuple):
    """Reuse counted in ids: runs of the requests, ids of each request, and which rows count."""

    request: NDArray[np.int64]
    start: NDArray[np.int64]
    blocks: NDArray[np.int64]
    distance: NDArray[np.int64]
    total: NDArray[np.int64]  # ids a request has
    hit: NDArray[np.int64]  # ids hit with an unbounded cache
    tokens: NDArray[np.int64]  # prompt tokens
    counts: NDArray[np.bool_]
    order: NDArray[np.int64]  # rows in arrival order


def units_of(warehouse: Warehouse, question: Question) -> Units:
    """Reuse counted in the block ids of our Mooncake export, which those tools read.

    There a partial last block has an id, one for each node where prompts end, so it hits only if a whole prompt is
    repeated. Formats that round the number of blocks up bring ids for partial blocks; formats that round down (Weka)
    and text do not.
    """
    loaded = warehouse.loaded()
    block = warehouse.prepare(question).block_size
    arrived = warehouse.arrived(question.arrivals)
    tree, leaf = loaded.tree, loaded.leaf.astype(np.int64)
    ends = np.unique(leaf[leaf >= 0])
    ends = ends[tree.end[ends] % block > 0]
    tail_of = np.full(tree.end.size, -1, np.int64)
    tail_of[ends] = tree.end.size + np.arange(ends.size)
    parent = np.concatenate([tree.parent, ends])
    start = np.concatenate([tree.start // block, tree.end[ends] // block])
    end = np.concatenate([tree.end // block, tree.end[ends] // block + 1])
    at = np.maximum(leaf, 0)
    leaf = np.where((leaf >= 0) & (tail_of[at] >= 0), tail_of[at], leaf)
    runs = reuse(parent, start, end, leaf, arrived.order, arrived.arrival_s, 1, None, heavy_paths(parent, start))
    window = parse_window(question.window)
    share = window.last if window.last is not None else (0.5 if question.definition == "kvcache-simulator" else 1.0)
    count = loaded.leaf.size
    rank = np.empty(count, np.int64)
    rank[arrived.order] = np.arange(count)
    counts = (rank >= math.floor(count * (1 - share))) & (loaded.leaf >= 0)
    tokens = loaded.requests["prefix_tokens"].fill_null(0).to_numpy()
    return Units(
        runs.request.astype(np.int64), runs.start_block, runs.blocks, runs.distance_blocks, runs.full_blocks,
        runs.hit_blocks, tokens, counts, np.asarray(arrived.order, np.int64),
    )  # fmt: skip


def _tokens(units: Units, hit: NDArray[np.int64], block: int, request: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tokens of the first `hit` ids of the requests: the last id may be a partial block."""
    return np.minimum(hit * block, units.tokens[request])


def simulated_hits(units: Units, capacity: int) -> NDArray[np.int64]:
    """Blocks of each request that kvcache-simulator 0.1.3 finds in a cache of `capacity` blocks: int64[r].

    A prompt with more blocks than the cache is inserted from its head until all other blocks are evicted. The next
    block then evicts the block inserted just before it (only blocks cached before the request are protected), its
    parent is gone, and insertion stops (`simulate_trie_policy`). One place stays empty until a request brings a block
    that is not
    cached: until then the cache behaves like an LRU cache of `capacity` - 1.
    """
    rank = np.empty(units.order.size, np.int64)
    rank[units.order] = np.arange(units.order.size)
    first = np.searchsorted(rank[units.request], np.arange(units.order.size + 1))
    return np.asarray(_simulated(units.order, first, units.blocks, units.distance, units.total, capacity))


@njit(cache=True)
def _simulated(order: Any, first: Any, blocks: Any, distance: Any, total: Any, capacity: Any) -> Any:
    """The loop of `simulated_hits`; runs `first[k]` to `first[k + 1]` are those of the k-th request to arrive."""
    out = np.zeros(total.size, np.int64)
    free = 0  # places that a prompt larger than the cache left empty
    # Per request: sum its hits at the usable capacity, then see whether it leaves or fills the empty place.
    for k in range(order.size):
        row = order[k]
        hit = 0
        for u in range(first[k], first[k + 1]):
            hit += min(max(capacity - free - distance[u], 0), blocks[u])
        out[row] = hit
        if total[row] > capacity:
            free = 0 if hit == capacity else 1
        elif total[row] > hit:
            free = 0
    return out


def peer_ceiling(warehouse: Warehouse, question: Question) -> dict[str, Any]:
    """The unbounded hit rate under the peer's definition, in place of `ceiling` and its tokens."""
    units = units_of(warehouse, question)
    block = warehouse.prepare(question).block_size
    rows = np.flatnonzero(units.counts & (units.total > 0))
    if question.definition == "aiperf":
        return {"ceiling": float(np.mean(units.hit[rows] / units.total[rows])) if rows.size else None}
    hit = int(_tokens(units, units.hit[rows], block, rows).sum())
    base = int(units.tokens[units.counts].sum())
    return {"ceiling": hit / base if base else None, "ceiling_hit_tokens": hit}


def peer_curve(warehouse: Warehouse, question: Question, capacity_blocks: list[int] | None) -> list[dict[str, Any]]:
    """The LRU curve under the peer's definition.

    Raises:
        BadQuestion: for aiperf, which has no capacity.
    """
    if question.definition == "aiperf":
        raise BadQuestion("aiperf knows no capacity: it answers `report`", "definition", ["tracetower"])
    units = units_of(warehouse, question)
    block = warehouse.prepare(question).block_size
    if capacity_blocks is None:
        from analysis.kernel.sorted_runs import capacity_curve, capacity_grid, needed_blocks

        capacity_blocks = capacity_grid(needed_blocks(capacity_curve(units.distance, units.blocks))).tolist()
    base = int(units.tokens[units.counts].sum())
    counted = np.flatnonzero(units.counts)
    rows = []
    for capacity in capacity_blocks:
        tokens = int(_tokens(units, simulated_hits(units, capacity)[counted], block, counted).sum())
        rows.append(
            {
                "group": "all",
                "capacity_blocks": capacity,
                "capacity_tokens": capacity * block,
                "hit_tokens": tokens,
                "prefix_tokens": base,
                "hit_rate": tokens / base if base else None,
                "unschedulable_requests": int(((units.total > capacity) & units.counts).sum()),
            }
        )
    return rows
