"""How each request's prompt relates to the earlier prompts of its session, and the type of session that results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths, lca
from analysis.kernel.reuse import by_session, deepest_in_session
from traces.tree.compiled import njit

KINDS = (
    "first",
    "retry",
    "append",
    "fork",
    "rewind",
    "tail",
    "unrelated",
    "compaction",
    "system_change",
    "edit",
)
"""Transitions; the position is the code."""

TYPES = ("single", "append", "branched", "compacted", "edited")
"""Trajectory types, least to most hostile to a cache; the position is the code."""

TEXT_TOLERANCE_TOKENS = 16
"""A text prompt may miss this many tokens at the end of an earlier one and still count as extending it. For hash traces
the tolerance is one native block."""

_FIRST, _RETRY, _APPEND, _FORK, _REWIND, _TAIL, _UNRELATED, _COMPACTION, _SYSTEM_CHANGE, _EDIT = range(len(KINDS))
_TYPE_OF_KIND = np.array([1, 1, 1, 2, 2, 1, 2, 3, 4, 4], np.int8)


class Transitions(NamedTuple):
    """Per request, r rows.

    Attributes:
        code: int8[r], index into `KINDS`; -1 where the session or the prompt is unknown.
        previous_row: int32[r], q: the previous request of the session whose prompt is known; -1 none.
        shared_previous_tokens: int64[r], L: tokens shared with q; -1 where there is no q.
        deepest_row: int32[r], p: the earlier request of the session that shares most, the latest if several share
            equally much; -1 none.
        deepest_shared_tokens: int64[r], L_p: tokens shared with p; -1 where there is no p.
    """

    code: NDArray[np.int8]
    previous_row: NDArray[np.int32]
    shared_previous_tokens: NDArray[np.int64]
    deepest_row: NDArray[np.int32]
    deepest_shared_tokens: NDArray[np.int64]


def transitions(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    paths: HeavyPaths,
    leaf: NDArray[Any],
    order: NDArray[Any],
    session: NDArray[Any],
    native_block_tokens: NDArray[Any],
    arrival_s: NDArray[Any],
    duration_s: NDArray[Any],
    compaction: NDArray[Any],
    head_tokens: NDArray[Any],
) -> Transitions:
    """Name each request's transition, exact to the token. The first rule that matches decides, in the order of `KINDS`.

    n is the prompt's length and m that of q; a bar rounds a length down to full native blocks; tol is one native block
    (16 tokens for text).

    - retry: n = p's length and L_p ≥ n̄ − tol
    - append: n > m and L ≥ m̄ − tol
    - fork, rewind: L ≥ n̄ − tol, or an earlier request o shares > 0 and ≥ min(n̄, m̄_o) − tol; it is a fork if o, or a
      request that extends o, is still running
    - tail: L ≥ m̄ − max(tol, 2 % of m̄)
    - unrelated: L_p = 0
    - compaction: the source says so, or n < m
    - system_change: L < the head's length. That length is not rounded, so a change anywhere in the native block in
      which the head ends counts as a change of the head
    - edit: everything else

    Args:
        parent: int[n], the tree; node 0 is the root.
        start: int[n], tokens on the path before the node.
        end: int[n], tokens on the path with the node.
        paths: `heavy_paths(parent, start)`.
        leaf: int[r], node whose path is the prompt; -1 unknown.
        order: int[r], the rows in arrival order.
        session: int[r], dense session code in 0..s − 1; -1 unknown.
        native_block_tokens: int[r], the source's native block; 1 for text.
        arrival_s: float[r], seconds; NaN unknown.
        duration_s: float[r], seconds from arrival to the end of the reply; NaN unknown (never counts as running).
        compaction: bool[r], the source says that the history was compacted before this request.
        head_tokens: int[s], length of the session's head (tools and system prompt); -1 unknown.

    Raises:
        ValueError: arrays whose lengths do not match, or a native block below 1 token.
    """
    codes = np.ascontiguousarray(session, dtype=np.int64)
    for name, values in (("native_block_tokens", native_block_tokens), ("arrival_s", arrival_s)):
        if len(values) != len(codes):
            raise ValueError(f"session and {name} differ in length: {len(codes)} and {len(values)}")
    if len(codes) and int(codes.max()) >= len(head_tokens):
        raise ValueError(f"session code {int(codes.max())} has no head length: head_tokens has {len(head_tokens)}")
    native = np.ascontiguousarray(native_block_tokens, dtype=np.int64)
    if len(native) and int(native.min()) < 1:
        raise ValueError(f"a native block must be at least 1 token, not {int(native.min())}")
    leaves = np.ascontiguousarray(leaf, dtype=np.int32)
    ends = np.ascontiguousarray(end, dtype=np.int64)
    deepest_shared, deepest_row = deepest_in_session(paths, ends, leaves, order, codes, 1)
    grouped, _ = by_session(codes, np.asarray(order))
    code, previous, shared = _classify(
        np.ascontiguousarray(parent, dtype=np.int64),
        np.ascontiguousarray(start, dtype=np.int64),
        ends,
        paths.path,
        paths.above,
        paths.level,
        leaves,
        grouped,
        codes,
        native,
        np.ascontiguousarray(arrival_s, dtype=np.float64),
        np.ascontiguousarray(duration_s, dtype=np.float64),
        np.ascontiguousarray(compaction, dtype=np.bool_),
        np.ascontiguousarray(head_tokens, dtype=np.int64),
        deepest_row,
        deepest_shared,
    )
    return Transitions(code, previous, shared, deepest_row, deepest_shared)


def trajectory_types(session: NDArray[Any], code: NDArray[Any], sessions: int) -> NDArray[np.int8]:
    """The type of each session: the most cache-hostile transition in it.

    Args:
        session: int[r], session code in 0..sessions − 1; -1 unknown.
        code: int8[r], `Transitions.code`.
        sessions: number of sessions.

    Returns:
        int8[sessions], index into `TYPES`; -1 where it is unknown: the session has no requests, or has several and no
        transition between them is known.
    """
    codes, kinds = np.asarray(session), np.asarray(code)
    requests = np.bincount(codes[codes >= 0], minlength=sessions)
    steps = (codes >= 0) & (kinds > _FIRST)
    worst = np.full(sessions, -1, np.int8)
    np.maximum.at(worst, codes[steps], _TYPE_OF_KIND[kinds[steps]])
    worst[requests == 1] = TYPES.index("single")
    return worst


@njit(cache=True)
def _marked(path: Any, above: Any, end: Any, owner: Any, mark: Any, session: Any, node: Any) -> bool:
    """Whether the session has marked a node on the walk root → `node`."""
    while node >= 0:
        p = path[node]
        if owner[p] == session and mark[p] <= end[node]:
            return True
        node = above[p]
    return False


@njit(cache=True)
def _classify(
    parent: Any,
    start: Any,
    end: Any,
    path: Any,
    above: Any,
    level: Any,
    leaf: Any,
    grouped: Any,
    session: Any,
    native: Any,
    arrival: Any,
    duration: Any,
    compaction: Any,
    head: Any,
    deepest_row: Any,
    deepest_shared: Any,
) -> Any:
    code = np.full(len(leaf), -1, np.int8)
    previous = np.full(len(leaf), -1, np.int32)
    shared = np.full(len(leaf), -1, np.int64)
    # Marks answer whether a prompt extends *any* earlier o without comparing it with every o. Each o marks the node at
    # which it is complete except for the tolerance; a prompt that passes a marked node extends that o. Per heavy path
    # only the session's shallowest mark is stored: whoever passes a deeper mark passes this one too.
    owner = np.full(len(above), -1, np.int64)
    mark = np.zeros(len(above), np.int64)
    running = np.empty(len(grouped), np.int32)
    runners = 0
    current = np.int64(-1)
    q = np.int32(-1)
    for row in grouped:
        # A new session starts without a previous request and without running ones.
        if session[row] != current:
            current = session[row]
            q = np.int32(-1)
            runners = 0
            code[row] = _FIRST
        node = leaf[row]
        if node < 0:
            deepest_shared[row] = -1
            continue
        block = native[row]
        tol = block if block > 1 else TEXT_TOLERANCE_TOKENS
        n = end[node]
        n_full = n // block * block
        # Keep only the requests that still run at this arrival.
        still = 0
        for i in range(runners):
            s = running[i]
            if arrival[row] < arrival[s] + duration[s]:
                running[still] = s
                still += 1
        runners = still
        if q < 0:
            deepest_shared[row] = -1
        else:
            # Compare with the previous request q and the closest one p, then apply the rules in order.
            m = end[leaf[q]]
            m_full = m // block * block
            L = end[lca(path, above, level, end, node, leaf[q])]
            previous[row] = q
            shared[row] = L
            if deepest_row[row] < 0:
                deepest_row[row] = q  # it shares nothing with any of them: take the latest
            p = deepest_row[row]
            deep = deepest_shared[row]
            if n == end[leaf[p]] and deep >= n_full - tol:
                kind = _RETRY
            elif n > m and m_full - tol <= L:
                kind = _APPEND
            elif (
                n_full - tol <= L
                or (deep > 0 and deep >= n_full - tol)
                or _marked(path, above, end, owner, mark, current, node)
            ):
                kind = _REWIND
                # A fork if a running request s extends q, covers this prompt, or passes the same mark of some o ≠ q.
                for i in range(runners):
                    s = running[i]
                    meet = lca(path, above, level, end, node, leaf[s])
                    extends = n_full - tol <= L and (
                        s == q or end[lca(path, above, level, end, leaf[q], leaf[s])] >= max(1, m_full - tol)
                    )
                    covers = end[meet] >= max(1, n_full - tol)
                    if extends or covers or _marked(path, above, end, owner, mark, current, meet):
                        kind = _FORK
                        break
            elif m_full - max(float(tol), 0.02 * m_full) <= L:
                kind = _TAIL
            elif deep == 0:
                kind = _UNRELATED
            elif compaction[row] or n < m:
                kind = _COMPACTION
            elif head[current] > L:
                kind = _SYSTEM_CHANGE
            else:
                kind = _EDIT
            code[row] = kind
        # Mark the highest node at which this prompt is complete except for the tolerance.
        if n > 0:
            complete = max(1, n_full - tol)
            at = node
            while start[at] >= complete:
                at = parent[at]
            p = path[at]
            if owner[p] != current or mark[p] > end[at]:
                owner[p] = current
                mark[p] = end[at]
        # Only a request with known times can be running later.
        if not (np.isnan(arrival[row]) or np.isnan(duration[row])):
            running[runners] = row
            runners += 1
        q = row
    return code, previous, shared
