"""Stacks of last touches, one per heavy path, and the compiled loops that walk them.

A stack holds (depth, last request), shallowest and most recent on top. A touch down to depth d replaces every entry
that ends at or above d, so a request costs the heavy paths it crosses plus the entries it reads, whatever its length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths
from traces.tree.compiled import njit


class PathStacks(NamedTuple):
    """Empty stacks at one block size, over n nodes and p heavy paths.

    A path's stack lives at first[path] and never holds more entries than the path has nodes, since every depth in it is
    the end of one. Its top is its last entry.

    Attributes:
        path: int32[n], the path of a node.
        reach: int32[n], full blocks on the way root → node.
        above: int32[p], node above a path's first node; -1 for the root's path.
        base: int32[p], full blocks before a path's first node.
        first: int64[p + 1], where a path's entries live.
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


def path_stacks(paths: HeavyPaths, end: NDArray[np.int64], block_tokens: int) -> PathStacks:
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
        stacks: fresh ones; they are used up.
        leaf: int32[r], node whose path is the prompt; -1 unknown.
        order: int32[r], the rows in arrival order.
        room: runs to make room for at first (default 2 r, about what agents need); it grows as needed.
    """
    newer = np.zeros(len(order) + 1, np.int64)
    hits = np.zeros(len(leaf), np.int64)
    runs = _room(2 * len(order) if room is None else room)
    rank = used = cached = steps = 0
    while True:
        rank, used, need, cached, steps = _advance(*stacks, leaf, order, newer, hits, *runs, rank, used, cached, steps)
        if rank == len(order):
            return Runs(*(column[:used] for column in runs)), hits, cached, steps
        # Grown out here: compiled code that grows arrays inside the loop is much slower, and so is compiling it.
        larger = _room(max(2 * len(runs.request), used + need))
        for old, new in zip(runs, larger, strict=True):
            new[:used] = old[:used]
        runs = larger


def session_overlap(
    stacks: PathStacks, leaf: NDArray[np.int32], grouped: NDArray[np.int32], session: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Blocks shared with an earlier request of the same session, int64[r], and the latest such row, int32[r] (-1 none).

    Args:
        stacks: fresh ones; they are used up.
        leaf: int32[r], node whose path is the prompt; -1 unknown.
        grouped: int32[k], rows with a session, grouped by it and in arrival order within.
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
    newer: Any,  # Fenwick tree over arrival ranks: blocks by last toucher
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
    """Go on from `rank` until all requests are done or the next one's runs may not fit."""
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
        segments = 0
        walked = 0
        entries = 0
        while node >= 0:
            p = path[node]
            if reach[node] > base[p]:  # else it owns no block here
                crossed[segments] = p
                reached[segments] = reach[node]
                segments += 1
                entries += height[p]
            node = above[p]
            walked += 1
        if runs + entries > len(run_request):
            return rank, runs, entries, cached, steps
        steps += walked
        first_run = runs
        at = np.int64(0)  # blocks of the path looked up so far
        known = True
        for s in range(segments - 1, -1, -1):
            p = crossed[s]
            d = reached[s]
            bottom = first[p]
            top = bottom + height[p]
            i = top - 1
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
            known = at == d  # below a block that nobody touched, nobody touched any
            while top > bottom and depth[top - 1] <= d:
                top -= 1
            depth[top] = d
            toucher[top] = rank
            height[p] = top + 1 - bottom
        hits[row] = at
        # Distances first, all of them: the touch must not be seen by the look-up it follows.
        for u in range(first_run, runs):
            older = np.int64(0)
            i = np.int64(run_last[u]) + 1
            while i > 0:
                older += newer[i]
                i &= i - 1
            run_distance[u] = cached - older
        for u in range(first_run, runs):
            i = np.int64(run_last[u]) + 1
            while i <= count:
                newer[i] -= run_blocks[u]
                i += i & -i
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
    owner = np.full(len(above), -1, np.int64)  # session that a stack belongs to: another's is empty
    shared = np.zeros(len(leaf), np.int64)
    deepest = np.full(len(leaf), -1, np.int32)
    for row in grouped:
        node = leaf[row]
        looking = True
        while node >= 0:
            p = path[node]
            d = reach[node]
            node = above[p]
            if d <= base[p]:
                continue
            bottom = first[p]
            if owner[p] != session[row]:
                owner[p] = session[row]
                height[p] = 0
            top = bottom + height[p]
            if looking and top > bottom:
                looking = False
                to = min(depth[bottom], d)
                shared[row] = to
                i = top - 1
                while depth[i] < to:
                    i -= 1
                deepest[row] = toucher[i]
            while top > bottom and depth[top - 1] <= d:
                top -= 1
            depth[top] = d
            toucher[top] = row
            height[p] = top + 1 - bottom
    return shared, deepest
