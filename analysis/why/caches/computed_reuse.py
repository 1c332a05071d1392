"""Reuse when a prompt can be hit only after it has been computed (`Cache.insert` is `finish`).

The stacks and stack distances are those of `analysis.kernel.reuse`, but look-ups and touches happen at different times:
a request looks up its blocks at its arrival and touches them when they are computed, last to first. Blocks of requests
that are running at a look-up are blocks that the prompt could have hit a little later.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths, lca
from analysis.kernel.touch_stacks import touch_stacks
from analysis.store.question import BadQuestion
from traces.tree.compiled import njit


class ComputedReuse(NamedTuple):
    """Runs as in `analysis.kernel.reuse.Reuse` (u rows), with gaps since the blocks were computed.

    Attributes:
        request, blocks, distance_blocks, gap_s: of each run, head first.
        running_blocks: int64[r], leading blocks shared with an earlier request whose prompt was not yet computed.
    """

    request: NDArray[np.int32]
    blocks: NDArray[np.int64]
    distance_blocks: NDArray[np.int64]
    gap_s: NDArray[np.float64]
    running_blocks: NDArray[np.int64]


def computed_at(requests: pl.DataFrame, arrival_s: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """When each prompt's KV is computed, float64[r]: at its first token, else at its end; and how many requests have
    neither time.

    Raises:
        BadQuestion: no request has one.
    """
    took = requests["ttft_s"].fill_null(requests["duration_s"]).fill_null(np.nan).to_numpy()
    if requests.height and np.isnan(took).all():
        raise BadQuestion("finish needs durations, and no request of this dataset has one", "insert", ["arrival"])
    return arrival_s + np.nan_to_num(np.maximum(took, 0)), int(np.isnan(took).sum())


def computed_reuse(
    paths: HeavyPaths,
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    arrival_s: NDArray[Any],
    computed_s: NDArray[Any],
    block_tokens: int,
) -> ComputedReuse:
    """Find the reused runs that were already computed at each arrival.

    Args:
        paths: the tree's heavy paths.
        end: int[n], tokens on the path with the node.
        leaf: int[r], node of the prompt; -1 unknown.
        order: int[k], rows in arrival order (those of one replica, or all).
        arrival_s: float[r], seconds, all known.
        computed_s: float[r], when the prompt's blocks are computed; at least `arrival_s`.
        block_tokens: block size B.

    Raises:
        ValueError: an arrival is unknown, or later than its time of computation.
    """
    ends = np.ascontiguousarray(end, np.int64)
    rows = np.ascontiguousarray(order, np.int32)
    arrival = np.ascontiguousarray(arrival_s, np.float64)
    computed = np.ascontiguousarray(computed_s, np.float64)
    if np.isnan(arrival[rows]).any() or not (computed[rows] >= arrival[rows]).all():
        raise ValueError("every request needs an arrival, and a time of computation that is not earlier")
    leaves = np.ascontiguousarray(leaf, np.int32)
    done = np.lexsort((np.arange(len(rows)), computed[rows])).astype(np.int64)
    stacks = touch_stacks(paths, ends, block_tokens)
    room = 2 * len(rows) + 16
    while True:  # repeat the whole pass if there was not enough room: rare, and simpler than continuing
        runs = (np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int32))
        running = np.zeros(len(leaves), np.int64)
        stacks.height[:] = 0
        used = _replay(
            *stacks, paths.level, ends, leaves, rows, done, arrival, computed, block_tokens, running, *runs
        )  # fmt: skip
        if used >= 0:
            break
        room *= 2
    request, last = runs[0][:used], runs[3][:used]
    return ComputedReuse(request, runs[1][:used], runs[2][:used], arrival[request] - computed[last], running)


@njit(cache=True)
def _replay(
    path: Any,
    reach: Any,
    above: Any,
    base: Any,
    first: Any,
    height: Any,
    depth: Any,
    toucher: Any,  # place in the order of computation
    level: Any,
    end: Any,
    leaf: Any,
    rows: Any,
    done: Any,  # places in `rows`, by time of computation
    arrival: Any,
    computed: Any,
    block_tokens: Any,
    running_blocks: Any,
    run_request: Any,
    run_blocks: Any,
    run_distance: Any,
    run_last: Any,
) -> int:
    count = len(rows)
    newer = np.zeros(count + 1, np.int64)

    crossed = np.empty(64, np.int32)
    reached = np.empty(64, np.int64)
    running = np.empty(count, np.int32)
    runners = 0
    cached: Any = np.int64(0)
    touched = 0
    runs = 0
    for rank in range(count):
        row = rows[rank]
        now = arrival[row]
        # Touch the prompts that were computed since the last arrival.
        while touched < count and computed[rows[done[touched]]] <= now and done[touched] < rank:
            cached += _touch(
                path, reach, above, base, first, height, depth, toucher, leaf[rows[done[touched]]], touched, newer,
                crossed, reached,
            )  # fmt: skip
            touched += 1
        node = leaf[row]
        if node < 0:
            continue
        # What a running prompt shares with this one is being computed; forget those that have ended.
        kept = 0
        for i in range(runners):
            s = running[i]
            if computed[s] > now:
                running[kept] = s
                kept += 1
                shared = end[lca(path, above, level, end, node, leaf[s])] // block_tokens
                running_blocks[row] = max(running_blocks[row], shared)
        runners = kept
        running[runners] = row
        runners += 1
        # The heavy paths that the prompt crosses, from the leaf up, and how many blocks of each it holds.
        segments = 0
        entries = 0
        while node >= 0:
            p = path[node]
            if reach[node] > base[p]:
                crossed[segments] = p
                reached[segments] = reach[node]
                segments += 1
                entries += height[p]
            node = above[p]
        if runs + entries > len(run_request):
            return -1
        # From the root down: each entry of a path's stack is a run last touched by one prompt, until one is missing.
        begin = runs
        at = np.int64(0)
        known = True
        for s in range(segments - 1, -1, -1):
            p = crossed[s]
            bottom = first[p]
            i = bottom + height[p] - 1
            while known and i >= bottom and at < reached[s]:
                to = min(np.int64(depth[i]), reached[s])
                if runs > begin and run_last[runs - 1] == toucher[i]:
                    run_blocks[runs - 1] += to - at
                else:
                    run_request[runs] = row
                    run_blocks[runs] = to - at
                    run_last[runs] = toucher[i]
                    runs += 1
                at = to
                i -= 1
            known = at == reached[s]
        # A run's distance: cached blocks less those that its last prompt, or an earlier one, touched last.
        for u in range(begin, runs):
            older: Any = np.int64(0)
            slot: Any = np.int64(run_last[u]) + 1
            while slot > 0:
                older += newer[slot]
                slot &= slot - 1
            run_distance[u] = cached - older
            run_last[u] = rows[done[run_last[u]]]
    return runs


@njit(cache=True)
def _touch(
    path: Any, reach: Any, above: Any, base: Any, first: Any, height: Any, depth: Any, toucher: Any, leaf: Any,
    place: Any, newer: Any, crossed: Any, reached: Any,
) -> Any:  # fmt: skip
    """Make `place` the last to touch the path to `leaf`; returns how many blocks are new to the cache."""
    if leaf < 0:
        return 0
    # The heavy paths that the prompt crosses, from the leaf up.
    node = leaf
    segments = 0
    while node >= 0:
        p = path[node]
        if reach[node] > base[p]:
            crossed[segments] = p
            reached[segments] = reach[node]
            segments += 1
        node = above[p]
    count = len(newer) - 1
    full = np.int64(reach[leaf])
    at = np.int64(0)
    known = True
    for s in range(segments - 1, -1, -1):
        p = crossed[s]
        bottom = first[p]
        top = bottom + height[p]
        # Take the blocks from the prompts that touched them last.
        i = top - 1
        while known and i >= bottom and at < reached[s]:
            to = min(np.int64(depth[i]), reached[s])
            k = np.int64(toucher[i]) + 1
            while k <= count:
                newer[k] -= to - at
                k += k & -k
            at = to
            i -= 1
        known = at == reached[s]
        # Replace the entries that this prompt covers by one of its own.
        while top > bottom and depth[top - 1] <= reached[s]:
            top -= 1
        depth[top] = reached[s]
        toucher[top] = place
        height[p] = top + 1 - bottom
    # All blocks of the prompt count for it.
    k = np.int64(place) + 1
    while k <= count:
        newer[k] += full
        k += k & -k
    return full - at
