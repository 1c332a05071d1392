"""Stacks of last touches, one per heavy path, and the compiled loops that walk them.

An entry (depth, request) says: down to this depth, from the end of the entry on top of it, this request was the last to
touch the path. The top entry is the shallowest and the most recent. A touch down to depth d replaces every entry that
ends at or above d. So the cost of a request grows with the heavy paths it crosses and the entries it reads, not with
its length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths
from traces.tree.compiled import njit


class PathStacks(NamedTuple):
    """Empty stacks at one block size, over n nodes and p heavy paths.

    A path's stack starts at first[path]; its last entry is the top. It never holds more entries than the path has
    nodes, because every depth in it is the end of a node.

    Attributes:
        path: int32[n], the path of a node.
        reach: int32[n], full blocks on the way root → node.
        above: int32[p], node above a path's first node; -1 for the root's path.
        base: int32[p], full blocks before a path's first node.
        first: int64[p + 1], where a path's entries start.
        height: int32[p], entries in use.
        depth: int32[n], full blocks down to which an entry's request was the last to touch.
        toucher: int32[n], that request.
    """

    path: NDArray[np.int32]
    reach: NDArray[np.int32]
    above: NDArray[np.int32]
    base: NDArray[np.int32]
    first: NDArray[np.int64]
    height: NDArray[np.int32]
    depth: NDArray[np.int32]
    toucher: NDArray[np.int32]


class Runs(NamedTuple):
    """Runs of reused blocks in arrival order, u rows; see `kernel.reuse.Reuse`. `last_rank` is an arrival rank."""

    request: NDArray[Any]
    start_block: NDArray[Any]
    blocks: NDArray[Any]
    distance_blocks: NDArray[Any]
    last_rank: NDArray[Any]


def touch_stacks(paths: HeavyPaths, end: NDArray[np.int64], block_tokens: int) -> PathStacks:
    """Empty stacks for blocks of `block_tokens`; `end` is int64[n], tokens on the way root → node.

    Raises:
        ValueError: a prompt of 2**31 blocks or more.
    """
    longest = int(end.max(initial=0)) // block_tokens
    if longest >= 2**31:
        raise ValueError(f"a prompt of {longest} blocks is too long; the longest may have {2**31 - 1}")
    return PathStacks(
        paths.path,
        (end // block_tokens).astype(np.int32),
        paths.above,
        (paths.head_start // block_tokens).astype(np.int32),
        paths.first,
        np.zeros(len(paths.above), np.int32),
        np.empty(len(paths.path), np.int32),
        np.empty(len(paths.path), np.int32),
    )


def lru_runs(
    stacks: PathStacks, leaf: NDArray[np.int32], order: NDArray[np.int32], room: int | None = None
) -> tuple[Runs, NDArray[np.int64], int, int]:
    """Every run with its stack distance; hit blocks per row, int64[r]; distinct blocks; steps taken.

    Args:
        stacks: empty ones; the call fills them, so they cannot be used again.
        leaf: int32[r], node whose path is the prompt; -1 unknown.
        order: int32[r], the rows in arrival order.
        room: runs to allocate at first (default 2 r, about what coding agents need); it grows as needed.
    """
    newer = np.zeros(len(order) + 1, np.int64)
    hits = np.zeros(len(leaf), np.int64)
    runs = _room(2 * len(order) if room is None else room)
    rank = used = cached = steps = 0
    while True:
        rank, used, need, cached, steps = _advance(*stacks, leaf, order, newer, hits, *runs, rank, used, cached, steps)
        if rank == len(order):
            return Runs(*(column[:used] for column in runs)), hits, cached, steps
        # The arrays grow outside the compiled loop: growing them inside makes it much slower to compile and to run.
        larger = _room(max(2 * len(runs.request), used + need))
        for old, new in zip(runs, larger, strict=True):
            new[:used] = old[:used]
        runs = larger


def session_overlap(
    stacks: PathStacks, leaf: NDArray[np.int32], grouped: NDArray[np.int32], session: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Blocks shared with an earlier request of the same session, int64[r], and the latest such row, int32[r] (-1 none).

    Args:
        stacks: empty ones; the call fills them, so they cannot be used again.
        leaf: int32[r], node whose path is the prompt; -1 unknown.
        grouped: int32[k], rows that have a session, grouped by session and in arrival order inside each.
        session: int64[r], session code.
    """
    shared, deepest = _session_overlap(*stacks, leaf, grouped, session)
    return shared, deepest


def _room(runs: int) -> Runs:
    return Runs(
        np.empty(runs, np.int32),
        np.empty(runs, np.int64),
        np.empty(runs, np.int64),
        np.empty(runs, np.int64),
        np.empty(runs, np.int32),
    )


@njit(cache=True)
def _advance(
    path: Any,
    reach: Any,
    above: Any,
    base: Any,
    first: Any,
    height: Any,
    depth: Any,
    toucher: Any,
    leaf: Any,
    order: Any,
    newer: Any,  # Fenwick tree over arrival ranks: cached blocks by the request that touched them last
    hits: Any,
    run_request: Any,
    run_start: Any,
    run_blocks: Any,
    run_distance: Any,
    run_last: Any,
    rank: Any,
    runs: Any,
    cached: Any,
    steps: Any,
) -> Any:
    """Process requests from `rank` on, until all are done or the runs of the next one might not fit."""
    count = len(order)
    crossed = np.empty(64, np.int32)  # a walk to the root crosses at most log2(n) < 32 heavy paths
    reached = np.empty(64, np.int64)
    while rank < count:
        row = order[rank]
        node = leaf[row]
        if node < 0:
            rank += 1
            continue
        full = np.int64(reach[node])
        # Walk to the root and note the heavy paths crossed; their stack entries bound the number of runs.
        segments = 0
        walked = 0
        entries = 0
        while node >= 0:
            p = path[node]
            if reach[node] > base[p]:  # otherwise no block ends on this part of the path
                crossed[segments] = p
                reached[segments] = reach[node]
                segments += 1
                entries += height[p]
            node = above[p]
            walked += 1
        # Nothing has changed yet, so the caller can enlarge the arrays and repeat this request.
        if runs + entries > len(run_request):
            return rank, runs, entries, cached, steps
        steps += walked
        first_run = runs
        at = np.int64(0)  # blocks of the path looked up so far
        known = True
        # From the root down, per heavy path: look up its blocks, then touch them.
        for s in range(segments - 1, -1, -1):
            p = crossed[s]
            d = reached[s]
            bottom = first[p]
            top = bottom + height[p]
            i = top - 1
            # Each entry down to d gives a run; an entry of the same request as the previous run's lengthens that run.
            while known and i >= bottom and at < d:
                e = toucher[i]
                to = min(np.int64(depth[i]), d)
                if runs > first_run and run_last[runs - 1] == e:
                    run_blocks[runs - 1] += to - at
                else:
                    run_request[runs] = row
                    run_start[runs] = at
                    run_blocks[runs] = to - at
                    run_last[runs] = e
                    runs += 1
                at = to
                i -= 1
                steps += 1
            known = at == d  # requests touch prefixes: after the first untouched block, none below it was touched
            # Touch: remove the entries that end at or above d, and put this request on top.
            while top > bottom and depth[top - 1] <= d:
                top -= 1
            depth[top] = d
            toucher[top] = rank
            height[p] = top + 1 - bottom
        hits[row] = at
        # Distances of all runs, before `newer` changes: a look-up must not see the touch that follows it.
        # distance = cached blocks − those last touched by request e or an earlier one (a prefix sum of the Fenwick
        # tree).
        for u in range(first_run, runs):
            older = np.int64(0)
            i = np.int64(run_last[u]) + 1
            while i > 0:
                older += newer[i]
                i &= i - 1
            run_distance[u] = cached - older
        # The reused blocks no longer count for the requests that touched them before,
        for u in range(first_run, runs):
            i = np.int64(run_last[u]) + 1
            while i <= count:
                newer[i] -= run_blocks[u]
                i += i & -i
        # but for this one, together with its new blocks.
        cached += full - at
        rank += 1
        i = np.int64(rank)
        while i <= count:
            newer[i] += full
            i += i & -i
    return rank, runs, 0, cached, steps


@njit(cache=True)
def _session_overlap(
    path: Any,
    reach: Any,
    above: Any,
    base: Any,
    first: Any,
    height: Any,
    depth: Any,
    toucher: Any,
    leaf: Any,
    grouped: Any,
    session: Any,
) -> Any:
    owner = np.full(len(above), -1, np.int64)  # the session whose touches a stack holds
    shared = np.zeros(len(leaf), np.int64)
    deepest = np.full(len(leaf), -1, np.int32)
    for row in grouped:
        node = leaf[row]
        looking = True
        # Walk from the leaf to the root, so the first stack with entries holds the deepest shared block.
        while node >= 0:
            p = path[node]
            d = reach[node]
            node = above[p]
            if d <= base[p]:
                continue
            bottom = first[p]
            # The first touch of a session empties what another session left here.
            if owner[p] != session[row]:
                owner[p] = session[row]
                height[p] = 0
            top = bottom + height[p]
            if looking and top > bottom:
                # The bottom entry is the deepest; of the entries that reach `to`, the topmost is the most recent.
                looking = False
                to = min(depth[bottom], d)
                shared[row] = to
                i = top - 1
                while depth[i] < to:
                    i -= 1
                deepest[row] = toucher[i]
            # Touch, as in `_advance`.
            while top > bottom and depth[top - 1] <= d:
                top -= 1
            depth[top] = d
            toucher[top] = row
            height[p] = top + 1 - bottom
    return shared, deepest
