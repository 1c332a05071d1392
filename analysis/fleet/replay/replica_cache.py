"""Prefix caches of many replicas over one prefix tree, each LRU with tails leaving first, in O(paths crossed) a
request.

A cache that evicts tails first holds, of every heavy path, a prefix. So a *holding* (one replica's part of one path)
is a stack of entries (depth, touch): the shallowest entry is the most recent, the deepest tells how far the replica
holds the path. All entries of a replica form one list, oldest first and, within one touch, deepest first: eviction
shortens the entry at its front. Nothing is stored per block, so neither time nor memory grows with the length of the
prompts.

Holdings hang on their path: who holds how much of a prompt is read by walking the paths it crosses, never block by
block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.replay.recency_list import (
    DEPTH,
    DOWN,
    HOLDING,
    NEWER,
    NEWEST,
    NEXT_HOLDING,
    OLDEST,
    UP,
    append,
    free_entry,
    new_entry,
    unlink,
)
from analysis.kernel.heavy_paths import HeavyPaths
from analysis.kernel.numba_norc import inner

OWNER, PATH, NEXT, TOP, BOTTOM, INSERTED, ROUTED, LOCKED = range(8)  # columns of Caches.holdings
HELD, EVER_HELD, SENT, IN_USE = range(4)  # rows that `matches` fills; the last three as INSERTED, ROUTED, LOCKED
JUNK = (
    -1
)  # holding of an entry whose blocks no prompt shares: generated tokens that no later prompt is known to re-send


class Caches(NamedTuple):
    """The state of R caches over p paths. Depths are full blocks from the root; -1 is "none".

    Attributes:
        path: int32[n], the path each node is on.
        above: int32[p], the node above each path.
        end_blocks: int64[n], full blocks at each node's end.
        base: int64[p], full blocks above each path's first node.
        first: int32[p], first holding of the path.
        holdings: int32[h, 8]: the replica; the path; the next holding of the path; the shallowest and the deepest
            entry; the deepest depth ever held (what an unbounded cache would still hold), ever routed there, and that
            running requests read.
        entries: int32[e, 6]: the depth (of JUNK: the number of blocks); the holding; the next entry of its stack, up
            and down; the next entry of the replica's list, older and newer.
        ends: int32[R, 2], oldest and newest entry of each replica's list.
        resident, capacity, pinned: int64[R], blocks; capacity -1 is unbounded.
        counters: int64[3]: first free entry, entries and holdings ever used.
    """

    path: NDArray[np.int32]
    above: NDArray[np.int32]
    end_blocks: NDArray[np.int64]
    base: NDArray[np.int64]
    first: NDArray[np.int32]
    holdings: NDArray[np.int32]
    entries: NDArray[np.int32]
    ends: NDArray[np.int32]
    resident: NDArray[np.int64]
    capacity: NDArray[np.int64]
    pinned: NDArray[np.int64]
    counters: NDArray[np.int64]


def open_caches(
    paths: HeavyPaths,
    end: NDArray[Any],
    leaf: NDArray[Any],
    block_tokens: int,
    capacity_blocks: NDArray[Any],
    touches: int,
) -> Caches:
    """Empty caches, one per entry of `capacity_blocks` (-1: unbounded).

    Args:
        paths: the tree's heavy paths.
        end: int[n], tokens at each node's end.
        leaf: int[r], the prompts that will be touched; -1 takes no part.
        block_tokens: block size B.
        capacity_blocks: int[R].
        touches: how often one prompt is touched, over all caches, at most: bounds the memory (pages never written
            cost none).
    """
    crossings = int(_crossings(paths.path, paths.above, leaf))
    entries = crossings * touches + len(leaf) + 16
    replicas = len(capacity_blocks)
    holdings = min(crossings * 3, len(paths.above) * replicas) + 16
    if entries >= 2**31:
        raise ValueError(
            f"{len(leaf)} requests cross {crossings} paths: too many for one replay; split the trace by time"
        )

    return Caches(
        paths.path,
        paths.above,
        np.ascontiguousarray(end, np.int64) // block_tokens,
        paths.head_start // block_tokens,
        np.full(len(paths.above), -1, np.int32),
        np.empty((holdings, 8), np.int32),
        np.empty((entries, 6), np.int32),
        np.full((replicas, 2), -1, np.int32),
        np.zeros(replicas, np.int64),
        np.ascontiguousarray(capacity_blocks, np.int64),
        np.zeros(replicas, np.int64),
        np.array([-1, 0, 0], np.int64),
    )


@inner()
def _crossings(path: Any, above: Any, leaf: Any) -> int:
    total = 0
    for i in range(len(leaf)):
        node = leaf[i]
        while node >= 0:
            total += 1
            node = above[path[node]]
    return total


@inner()
def matches(c: Caches, node: int, found: Any) -> None:
    """Fill `found`, int64[4, R]: blocks of the prompt at `node` each replica holds, ever held, was sent, locks."""
    found[:] = 0
    while node >= 0:
        p = c.path[node]
        here = c.end_blocks[node]
        if here > c.base[p]:
            h = c.first[p]
            while h >= 0:
                r = c.holdings[h, OWNER]
                if c.holdings[h, BOTTOM] >= 0:
                    found[HELD, r] = max(found[HELD, r], min(here, c.entries[c.holdings[h, BOTTOM], DEPTH]))
                for row in range(EVER_HELD, IN_USE + 1):
                    deep = c.holdings[h, INSERTED - EVER_HELD + row]
                    if deep > c.base[p]:
                        found[row, r] = max(found[row, r], min(here, deep))
                h = c.holdings[h, NEXT]
        node = c.above[p]


@inner()
def holding_of(c: Caches, replica: int, p: int) -> int:
    """The replica's holding of path `p`, made if there is none."""
    h = c.first[p]
    while h >= 0:
        if c.holdings[h, OWNER] == replica:
            return h
        h = c.holdings[h, NEXT]
    h = c.counters[NEXT_HOLDING]
    c.counters[NEXT_HOLDING] += 1
    c.holdings[h, OWNER] = replica
    c.holdings[h, PATH] = p
    c.holdings[h, NEXT] = c.first[p]
    c.first[p] = h
    c.holdings[h, TOP] = -1
    c.holdings[h, BOTTOM] = -1
    c.holdings[h, INSERTED] = c.base[p]
    c.holdings[h, ROUTED] = c.base[p]
    c.holdings[h, LOCKED] = c.base[p]
    return h


@inner()
def mark_routed(c: Caches, replica: int, node: int) -> None:
    """Note that the prompt at `node` was sent to the replica."""
    while node >= 0:
        p = c.path[node]
        here = c.end_blocks[node]
        if here > c.base[p]:
            h = holding_of(c, replica, p)
            c.holdings[h, ROUTED] = max(c.holdings[h, ROUTED], here)
        node = c.above[p]


@inner()
def touch(c: Caches, replica: int, node: int, limit: int) -> None:
    """Touch the first `limit` full blocks of the prompt at `node`, last to first; those that are absent come in."""
    while node >= 0:
        p = c.path[node]
        here = min(c.end_blocks[node], limit)
        if here > c.base[p]:
            h = holding_of(c, replica, p)
            before = c.entries[c.holdings[h, BOTTOM], DEPTH] if c.holdings[h, BOTTOM] >= 0 else c.base[p]
            if here > before:
                c.resident[replica] += here - before
            top = c.holdings[h, TOP]
            while top >= 0 and c.entries[top, DEPTH] <= here:
                below = c.entries[top, DOWN]
                unlink(c.entries, c.ends, replica, top)
                free_entry(c.entries, c.counters, top)
                top = below
            e = new_entry(c.entries, c.counters)
            c.entries[e, DEPTH] = here
            c.entries[e, HOLDING] = h
            c.entries[e, UP] = -1
            c.entries[e, DOWN] = top
            if top >= 0:
                c.entries[top, UP] = e
            else:
                c.holdings[h, BOTTOM] = e
            c.holdings[h, TOP] = e
            append(c.entries, c.ends, replica, e)
            c.holdings[h, INSERTED] = max(c.holdings[h, INSERTED], here)
        node = c.above[p]


@inner()
def add_junk(c: Caches, replica: int, blocks: int) -> None:
    """Put `blocks` that no prompt shares into the replica, as its most recent."""
    if blocks <= 0:
        return
    e = new_entry(c.entries, c.counters)
    c.entries[e, DEPTH] = blocks
    c.entries[e, HOLDING] = JUNK
    append(c.entries, c.ends, replica, e)
    c.resident[replica] += blocks


@inner()
def evict(c: Caches, replica: int, capacity: int) -> None:
    """Evict the least recent blocks down to `capacity` (-1: unbounded), passing over what is locked."""
    if capacity < 0:
        return
    passed_over = -1
    while c.resident[replica] > capacity:
        e = c.ends[replica, OLDEST]
        if e < 0 or e == passed_over:
            return
        h = c.entries[e, HOLDING]
        if h == JUNK:
            low = 0
            floor = 0
        else:
            low = c.entries[c.entries[e, UP], DEPTH] if c.entries[e, UP] >= 0 else c.base[c.holdings[h, PATH]]
            floor = c.entries[e, DEPTH] if c.entries[e, DOWN] >= 0 else max(low, c.holdings[h, LOCKED])
        gone = min(c.resident[replica] - capacity, c.entries[e, DEPTH] - floor)
        if gone > 0:
            c.entries[e, DEPTH] -= gone
            c.resident[replica] -= gone
        if c.entries[e, DEPTH] == low:
            unlink(c.entries, c.ends, replica, e)
            if h != JUNK:
                if c.entries[e, UP] >= 0:
                    c.entries[c.entries[e, UP], DOWN] = -1
                else:
                    c.holdings[h, TOP] = -1
                c.holdings[h, BOTTOM] = c.entries[e, UP]
            free_entry(c.entries, c.counters, e)
        elif c.resident[replica] > capacity:  # in use: its place in the order is settled when it is released
            if passed_over < 0:
                passed_over = e
            unlink(c.entries, c.ends, replica, e)
            append(c.entries, c.ends, replica, e)


@inner()
def clear(c: Caches, replica: int) -> None:
    """Forget everything the replica holds and held (it was lost, or started anew)."""
    e = c.ends[replica, OLDEST]
    while e >= 0:
        after = c.entries[e, NEWER]
        free_entry(c.entries, c.counters, e)
        e = after
    c.ends[replica, OLDEST] = -1
    c.ends[replica, NEWEST] = -1
    c.resident[replica] = 0
    c.pinned[replica] = 0
    for h in range(c.counters[NEXT_HOLDING]):
        if c.holdings[h, OWNER] == replica:
            c.holdings[h, TOP] = -1
            c.holdings[h, BOTTOM] = -1
            base = c.base[c.holdings[h, PATH]]
            c.holdings[h, INSERTED] = base
            c.holdings[h, ROUTED] = base
            c.holdings[h, LOCKED] = base


@inner()
def duplicate_blocks(c: Caches, replicas: int) -> int:
    """Shared blocks held by the first `replicas` caches, less the distinct ones among them."""
    copies = 0
    distinct = 0
    for p in range(len(c.first)):
        deepest = c.base[p]
        h = c.first[p]
        while h >= 0:
            if c.holdings[h, OWNER] < replicas and c.holdings[h, BOTTOM] >= 0:
                held = c.entries[c.holdings[h, BOTTOM], DEPTH]
                copies += held - c.base[p]
                deepest = max(deepest, held)
            h = c.holdings[h, NEXT]
        distinct += deepest - c.base[p]
    return copies - distinct
