"""The reuse kernel: for each reused block, the request that touched it last and its LRU stack distance.

One pass over the requests answers every cache capacity at once (Mattson et al., "Evaluation techniques for storage
hierarchies", 1970). Blocks that a request shares with earlier ones form *runs*: consecutive blocks that the same
request e touched last. A request looks up all its blocks, then touches them last to first. So e's blocks lie in the LRU
order as they do on the path, and block i of a run has stack distance N(e) + i, where N(e) is the number of cached
blocks touched after e. The block hits at capacity C iff N(e) + i < C.

Stacks along heavy paths store the last touches (`touch_stacks`), so the cost of a request grows with the number of
runs it reuses, not with its length.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths, heavy_paths
from analysis.kernel.touch_stacks import lru_runs, session_overlap, touch_stacks
from traces.tree.compiled import njit


class Reuse(NamedTuple):
    """Runs of reused blocks (u rows, in arrival order, head first), and figures per request (r rows).

    Attributes:
        request: int32[u], row of the request that reuses the run.
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
        distinct_blocks: blocks on the paths of all prompts, each counted once.
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
    """Find every run of reused blocks, exact at every capacity.

    Args:
        parent: int[n], the tree; node 0 is the root.
        start: int[n], tokens on the path before the node.
        end: int[n], tokens on the path with the node; a block belongs to the node that holds its last token.
        leaf: int[r], node whose path is the prompt; -1 where the prompt is unknown (the request is skipped).
        order: int[r], the rows in arrival order.
        arrival_s: float[r], seconds; NaN unknown.
        block_tokens: block size B.
        session: int[r], dense session code; -1 unknown. If given, `same_session_hit_blocks` is computed.
        paths: `heavy_paths(parent, start)`, if the caller has it already.

    Raises:
        ValueError: a block size below 1, or arrays whose lengths do not match.
    """
    if block_tokens < 1:
        raise ValueError(f"block size must be at least 1 token, not {block_tokens}")
    leaves = _row_ids(leaf, len(parent), "leaf")
    rows = _row_ids(order, len(leaves), "order")
    if len(rows) != len(leaves) or len(arrival_s) != len(leaves):
        raise ValueError(f"leaf, order and arrival_s differ in length: {len(leaves)}, {len(rows)} and {len(arrival_s)}")
    cut = paths if paths is not None else heavy_paths(parent, start)
    ends = np.ascontiguousarray(end, dtype=np.int64)
    runs, hits, distinct, steps = lru_runs(touch_stacks(cut, ends, block_tokens), leaves, rows)
    last = rows[runs.last_rank]
    times = np.asarray(arrival_s, dtype=np.float64)
    gap = times[runs.request] - times[last]
    full = np.where(leaves >= 0, ends[leaves] // block_tokens, 0)
    same = deepest_in_session(cut, ends, leaves, rows, session, block_tokens)[0] if session is not None else None
    return Reuse(*runs[:4], last, gap, full, hits, same, distinct, steps)


def deepest_in_session(
    paths: HeavyPaths,
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    session: NDArray[Any],
    block_tokens: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The longest prefix that each request shares with an earlier one of its session, and which one that is.

    Returns:
        int64[r], shared full blocks (0 where there are none), and int32[r], the row of the earlier request that shares
        them (the latest if several share equally much; -1 where nothing is shared).
    """
    leaves = _row_ids(leaf, len(end), "leaf")
    codes = np.ascontiguousarray(session, dtype=np.int64)
    if len(codes) != len(leaves):
        raise ValueError(f"leaf and session differ in length: {len(leaves)} and {len(codes)}; each has one per request")
    grouped, _ = by_session(codes, np.asarray(order))
    ends = np.ascontiguousarray(end, dtype=np.int64)
    return session_overlap(touch_stacks(paths, ends, block_tokens), leaves, grouped, codes)


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
    # Count the rows of each group; the running sum is where the group begins.
    first = np.zeros(groups + 1, np.int64)
    for row in order:
        if code[row] >= 0:
            first[code[row] + 1] += 1
    for g in range(groups):
        first[g + 1] += first[g]
    # Write the rows into their group's range, in the given order.
    fill = first[:-1].copy()
    rows = np.empty(first[groups], np.int32)
    for row in order:
        if code[row] >= 0:
            rows[fill[code[row]]] = row
            fill[code[row]] += 1
    return rows, first
