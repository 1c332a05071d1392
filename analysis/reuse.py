"""The reuse kernel: which earlier request a block was last touched by, and at what LRU stack distance.

One pass over the requests answers every cache capacity at once (Mattson et al., "Evaluation techniques for storage
hierarchies", 1970). Blocks that a request shares with the past form *runs*: consecutive blocks last touched by one
request e. A request looks up all its blocks, then touches them last to first, so e's blocks sit in the LRU order as on
the path, and block i of a run has stack distance N(e) + i, where N(e) = cached blocks whose last touch is after e. It
hits at capacity C iff N(e) + i < C.

Each heavy path keeps a stack of (depth, last request), shallowest and most recent on top: a touch down to depth d
replaces every entry that ends at or above d, so a request costs the heavy paths it crosses plus the runs it finds,
whatever its length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from analysis.heavy_paths import HeavyPaths, heavy_paths


class Reuse(NamedTuple):
    """Runs of re-used blocks (u rows, in arrival order, head first), and figures per request (r rows).

    Attributes:
        request: int32[u], row of the request that finds the run.
        start_block: int64[u], first block of the run on the request's path.
        blocks: int64[u], length of the run.
        distance_blocks: int64[u], LRU stack distance of its first block; block i hits at capacity C iff
            distance + i < C.
        last_request: int32[u], row of the request that touched the run last.
        gap_s: float64[u], seconds from that touch to this arrival; NaN where either arrival is unknown. The run hits
            under a TTL iff gap_s <= TTL.
        full_blocks: int64[r], full blocks of the prompt; 0 where the prompt is unknown.
        hit_blocks: int64[r], blocks shared with any earlier request (the ceiling's hits).
        same_session_hit_blocks: int64[r], blocks shared with an earlier request of the same session; None without
            sessions.
        distinct_blocks: blocks on some prompt's path, each counted once.
        steps: heavy paths crossed plus stack entries read, over all requests.
    """

    request: NDArray[np.int32]
    start_block: NDArray[np.int64]
    blocks: NDArray[np.int64]
    distance_blocks: NDArray[np.int64]
    last_request: NDArray[np.int32]
    gap_s: NDArray[np.float64]
    full_blocks: NDArray[np.int64]
    hit_blocks: NDArray[np.int64]
    same_session_hit_blocks: NDArray[np.int64] | None
    distinct_blocks: int
    steps: int


def reuse(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    arrival_s: NDArray[Any],
    block_tokens: int,
    session: NDArray[Any] | None = None,
    paths: HeavyPaths | None = None,
) -> Reuse:
    """Find every run of re-used blocks, exactly, for all capacities.

    Args:
        parent: int[n], the tree; node 0 is the root.
        start: int[n], tokens on the path before the node.
        end: int[n], tokens on the path with the node; a block belongs to the node that holds its last token.
        leaf: int[r], node whose path is the prompt; -1 where the prompt is unknown (takes no part).
        order: int[r], the rows in arrival order.
        arrival_s: float[r], seconds; NaN unknown.
        block_tokens: block size B.
        session: int[r], dense session code; -1 unknown. Asks for `same_session_hit_blocks`.
        paths: `heavy_paths(parent, start)`, where it is at hand.

    Raises:
        ValueError: a block size below 1, or arrays that do not belong together.
    """
    if block_tokens < 1:
        raise ValueError(f"block size must be at least 1 token, not {block_tokens}")
    leaves = _row_ids(leaf, len(parent), "leaf")
    rows = _row_ids(order, len(leaves), "order")
    if len(rows) != len(leaves) or len(arrival_s) != len(leaves):
        raise ValueError(
            f"{len(leaves)} leaves, {len(rows)} places in the order, {len(arrival_s)} arrivals: one each a request"
        )
    cut = paths if paths is not None else heavy_paths(parent, start)
    ends = np.ascontiguousarray(end, dtype=np.int64)
    runs = _lru_runs(cut.path, cut.above, cut.head_start, cut.first, ends, leaves, rows, block_tokens)
    request, start_block, blocks, distance, last, hits, distinct, steps = runs
    times = np.asarray(arrival_s, dtype=np.float64)
    full = np.where(leaves >= 0, ends[leaves] // block_tokens, 0)
    same = None
    if session is not None:
        same = deepest_in_session(cut, ends, leaves, rows, session, block_tokens)[0]
    return Reuse(
        request,
        start_block,
        blocks,
        distance,
        last,
        times[request] - times[last],
        full,
        hits,
        same,
        int(distinct),
        int(steps),
    )


def deepest_in_session(
    paths: HeavyPaths,
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    session: NDArray[Any],
    block_tokens: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Longest common prefix with an earlier request of the same session, and that request.

    Returns:
        int64[r], shared full blocks (0 where there are none), and int32[r], the row of the earlier request that shares
        them (the latest of equals; -1 where nothing is shared).
    """
    leaves = _row_ids(leaf, len(end), "leaf")
    codes = np.ascontiguousarray(session, dtype=np.int64)
    if len(codes) != len(leaves):
        raise ValueError(f"{len(leaves)} leaves but {len(codes)} session codes: one each a request")
    grouped, _ = by_session(codes, np.asarray(order))
    ends = np.ascontiguousarray(end, dtype=np.int64)
    return _session_overlap(
        paths.path, paths.above, paths.head_start, paths.first, ends, leaves, grouped, codes, block_tokens
    )


def by_session(session: NDArray[Any], order: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Rows grouped by session, in the given order within each.

    Returns:
        int32[k], the rows that have a session, and int64[s + 1], where each session's rows begin.
    """
    codes = np.ascontiguousarray(session, dtype=np.int64)
    sessions = int(codes.max()) + 1 if len(codes) else 0
    return _counting_sort(codes, np.ascontiguousarray(order, dtype=np.int32), sessions)


def _row_ids(values: NDArray[Any], limit: int, name: str) -> NDArray[np.int32]:
    ids = np.asarray(values)
    if limit >= 2**31:
        raise ValueError(f"{limit} rows do not fit 32-bit ids; split the dataset")
    low = -1 if name == "leaf" else 0
    if len(ids) and (ids.min() < low or ids.max() >= limit):
        bad = int(np.argmax((ids < low) | (ids >= limit)))
        raise ValueError(f"{name}[{bad}] is {ids[bad]}, outside 0..{limit - 1}")
    return np.ascontiguousarray(ids, dtype=np.int32)


@njit(cache=True)
def _counting_sort(code: Any, order: Any, groups: int) -> Any:
    first = np.zeros(groups + 1, np.int64)
    for row in order:
        if code[row] >= 0:
            first[code[row] + 1] += 1
    for g in range(groups):
        first[g + 1] += first[g]
    fill = first[:-1].copy()
    rows = np.empty(first[groups], np.int32)
    for row in order:
        if code[row] >= 0:
            rows[fill[code[row]]] = row
            fill[code[row]] += 1
    return rows, first


@njit(cache=True)
def _grown(values: Any) -> Any:
    larger = np.empty(2 * len(values), values.dtype)
    larger[: len(values)] = values
    return larger


@njit(cache=True)
def _lru_runs(path: Any, above: Any, head_start: Any, first: Any, end: Any, leaf: Any, order: Any, block: int) -> Any:
    # A path's stack lives at first[path]; it never holds more entries than the path has nodes, since every depth in it
    # is the end of one. The top of a stack is its last entry.
    depth = np.empty(len(path), np.int32)
    toucher = np.empty(len(path), np.int32)
    height = np.zeros(len(above), np.int32)
    count = len(order)
    newer = np.zeros(count + 1, np.int64)  # Fenwick tree over arrival ranks: blocks by last toucher
    cached = 0
    steps = 0
    capacity = 2 * count + 16
    run_request = np.empty(capacity, np.int32)
    run_start = np.empty(capacity, np.int64)
    run_blocks = np.empty(capacity, np.int64)
    run_distance = np.empty(capacity, np.int64)
    run_last = np.empty(capacity, np.int32)
    runs = 0
    hits = np.zeros(len(leaf), np.int64)
    crossed = np.empty(64, np.int32)  # a path to the root crosses at most log2(n) < 32 heavy paths
    reached = np.empty(64, np.int64)
    for rank in range(count):
        row = order[rank]
        node = leaf[row]
        if node < 0:
            continue
        segments = 0
        while node >= 0:
            p = path[node]
            crossed[segments] = p
            reached[segments] = end[node] // block
            segments += 1
            node = above[p]
        steps += segments
        full = reached[0]
        first_run = runs
        at = 0  # blocks of the path looked up so far
        known = True
        for s in range(segments - 1, -1, -1):
            p = crossed[s]
            d = reached[s]
            base = first[p]
            top = base + height[p]
            if d <= head_start[p] // block:
                continue  # owns no block here
            if known:
                i = top - 1
                while i >= base and at < d:
                    e = toucher[i]
                    to = min(np.int64(depth[i]), d)
                    if runs > first_run and run_last[runs - 1] == e:
                        run_blocks[runs - 1] += to - at
                    else:
                        if runs == capacity:
                            run_request = _grown(run_request)
                            run_start = _grown(run_start)
                            run_blocks = _grown(run_blocks)
                            run_distance = _grown(run_distance)
                            run_last = _grown(run_last)
                            capacity *= 2
                        run_request[runs] = row
                        run_start[runs] = at
                        run_blocks[runs] = to - at
                        run_last[runs] = e
                        runs += 1
                    at = to
                    i -= 1
                    steps += 1
                known = at == d  # below a block that nobody touched, nobody touched any
            while top > base and depth[top - 1] <= d:
                top -= 1
            depth[top] = d
            toucher[top] = rank
            height[p] = top + 1 - base
        hits[row] = at
        # Distances first, all of them: the touch must not be seen by the look-up it follows.
        for u in range(first_run, runs):
            older = 0
            i = run_last[u] + 1
            while i > 0:
                older += newer[i]
                i &= i - 1
            run_distance[u] = cached - older
        for u in range(first_run, runs):
            e = run_last[u]
            i = e + 1
            while i <= count:
                newer[i] -= run_blocks[u]
                i += i & -i
            run_last[u] = order[e]
        cached += full - at
        i = rank + 1
        while i <= count:
            newer[i] += full
            i += i & -i
    return (
        run_request[:runs],
        run_start[:runs],
        run_blocks[:runs],
        run_distance[:runs],
        run_last[:runs],
        hits,
        cached,
        steps,
    )


@njit(cache=True)
def _session_overlap(
    path: Any, above: Any, head_start: Any, first: Any, end: Any, leaf: Any, grouped: Any, session: Any, block: int
) -> Any:
    depth = np.empty(len(path), np.int32)
    toucher = np.empty(len(path), np.int32)
    height = np.zeros(len(above), np.int32)
    owner = np.full(len(above), -1, np.int64)  # session that a stack belongs to: another's is empty
    shared = np.zeros(len(leaf), np.int64)
    deepest = np.full(len(leaf), -1, np.int32)
    for row in grouped:
        node = leaf[row]
        looking = True
        while node >= 0:
            p = path[node]
            d = end[node] // block
            node = above[p]
            if d <= head_start[p] // block:
                continue
            base = first[p]
            if owner[p] != session[row]:
                owner[p] = session[row]
                height[p] = 0
            top = base + height[p]
            if looking and top > base:
                looking = False
                to = min(np.int64(depth[base]), d)
                shared[row] = to
                i = top - 1
                while depth[i] < to:
                    i -= 1
                deepest[row] = toucher[i]
            while top > base and depth[top - 1] <= d:
                top -= 1
            depth[top] = d
            toucher[top] = row
            height[p] = top + 1 - base
    return shared, deepest
