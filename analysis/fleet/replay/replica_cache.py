"""Prefix caches of many replicas over one prefix tree, each LRU and evicting tails first. A request takes time
proportional to the heavy paths that its prompt crosses.

A cache that evicts tails first holds a prefix of every heavy path. So a *holding* (one replica's part of one path) is a
stack of entries (depth, touch): the shallowest entry is the most recent, and the deepest says how far the replica holds
the path. All entries of a replica form one list, oldest first and, within one touch, deepest first; eviction shortens
the entry at its front. Nothing is stored per block, so neither time nor memory grows with the length of prompts.

Each path lists its holdings, so a walk over the paths of a prompt shows how much of it each replica holds, without
looking at single blocks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.replay.recency_list import COUNTERS, ENDS, ENTRY, HOLDINGS, append, free_entry, new_entry, unlink
from analysis.kernel.heavy_paths import HeavyPaths
from analysis.kernel.numba_norc import norc_inner

HELD, EVER_HELD, SENT, IN_USE = range(4)  # rows that `matches` fills
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
        holdings: recency_list.HOLDINGS[h]. entries: recency_list.ENTRY[e].
        ends: recency_list.ENDS[R], oldest and newest entry of each replica's list.
        resident, capacity, pinned: int64[R], blocks; capacity -1 is unbounded.
        counters: recency_list.COUNTERS[1].
    """

    path: NDArray[np.int32]
    above: NDArray[np.int32]
    end_blocks: NDArray[np.int64]
    base: NDArray[np.int64]
    first: NDArray[np.int32]
    holdings: NDArray[np.void]
    entries: NDArray[np.void]
    ends: NDArray[np.void]
    resident: NDArray[np.int64]
    capacity: NDArray[np.int64]
    pinned: NDArray[np.int64]
    counters: NDArray[np.void]


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
        leaf: int[r], the prompts that will be touched; -1 is skipped.
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
        np.empty(holdings, HOLDINGS),
        np.empty(entries, ENTRY),
        np.array([(-1, -1)] * replicas, ENDS),
        np.zeros(replicas, np.int64),
        np.ascontiguousarray(capacity_blocks, np.int64),
        np.zeros(replicas, np.int64),
        np.array([(-1, 0, 0)], COUNTERS),
    )


@norc_inner()
def _crossings(path: Any, above: Any, leaf: Any) -> int:
    total = 0
    for i in range(len(leaf)):
        node = leaf[i]
        while node >= 0:
            total += 1
            node = above[path[node]]
    return total


@norc_inner()
def matches(c: Caches, node: int, found: Any) -> None:
    """Fill `found`, int64[4, R]: blocks of the prompt at `node` each replica holds, ever held, was sent, locks."""
    found[:] = 0
    while node >= 0:
        p = c.path[node]
        here = c.end_blocks[node]
        if here > c.base[p]:
            h = c.first[p]
            while h >= 0:
                r = c.holdings[h].owner
                if c.holdings[h].bottom >= 0:
                    found[HELD, r] = max(found[HELD, r], min(here, c.entries[c.holdings[h].bottom].depth))
                if c.holdings[h].inserted > c.base[p]:
                    found[EVER_HELD, r] = max(found[EVER_HELD, r], min(here, c.holdings[h].inserted))
                if c.holdings[h].routed > c.base[p]:
                    found[SENT, r] = max(found[SENT, r], min(here, c.holdings[h].routed))
                if c.holdings[h].locked > c.base[p]:
                    found[IN_USE, r] = max(found[IN_USE, r], min(here, c.holdings[h].locked))
                h = c.holdings[h].next
        node = c.above[p]


@norc_inner()
def holding_of(c: Caches, replica: int, p: int) -> int:
    """The replica's holding of path `p`; it is created if needed."""
    h = c.first[p]
    while h >= 0:
        if c.holdings[h].owner == replica:
            return h
        h = c.holdings[h].next
    h = c.counters[0].next_holding
    c.counters[0].next_holding += 1
    c.holdings[h].owner = replica
    c.holdings[h].path = p
    c.holdings[h].next = c.first[p]
    c.first[p] = h
    c.holdings[h].top = -1
    c.holdings[h].bottom = -1
    c.holdings[h].inserted = c.base[p]
    c.holdings[h].routed = c.base[p]
    c.holdings[h].locked = c.base[p]
    return h


@norc_inner()
def mark_routed(c: Caches, replica: int, node: int) -> None:
    """Record that the prompt at `node` was sent to the replica."""
    while node >= 0:
        p = c.path[node]
        here = c.end_blocks[node]
        if here > c.base[p]:
            h = holding_of(c, replica, p)
            c.holdings[h].routed = max(c.holdings[h].routed, here)
        node = c.above[p]


@norc_inner()
def touch(c: Caches, replica: int, node: int, limit: int) -> None:
    """Touch the first `limit` full blocks of the prompt at `node`, last to first; missing ones are inserted."""
    while node >= 0:
        p = c.path[node]
        here = min(c.end_blocks[node], limit)
        if here > c.base[p]:
            h = holding_of(c, replica, p)
            # how deep the replica held the path before
            before = c.entries[c.holdings[h].bottom].depth if c.holdings[h].bottom >= 0 else c.base[p]
            if here > before:
                c.resident[replica] += here - before
            # entries that are no deeper are as recent as this touch now
            top = c.holdings[h].top
            while top >= 0 and c.entries[top].depth <= here:
                below = c.entries[top].down
                unlink(c.entries, c.ends, replica, top)
                free_entry(c.entries, c.counters, top)
                top = below
            # one new entry on top of the stack, at the recent end of the replica's list
            e = new_entry(c.entries, c.counters)
            c.entries[e].depth = here
            c.entries[e].holding = h
            c.entries[e].up = -1
            c.entries[e].down = top
            if top >= 0:
                c.entries[top].up = e
            else:
                c.holdings[h].bottom = e
            c.holdings[h].top = e
            append(c.entries, c.ends, replica, e)
            c.holdings[h].inserted = max(c.holdings[h].inserted, here)
        node = c.above[p]


@norc_inner()
def add_junk(c: Caches, replica: int, blocks: int) -> None:
    """Put `blocks` that no prompt shares into the replica, as its most recent."""
    if blocks <= 0:
        return
    e = new_entry(c.entries, c.counters)
    c.entries[e].depth = blocks
    c.entries[e].holding = JUNK
    append(c.entries, c.ends, replica, e)
    c.resident[replica] += blocks


@norc_inner()
def evict(c: Caches, replica: int, capacity: int) -> None:
    """Evict the least recent blocks down to `capacity` (-1: unbounded), skipping locked ones."""
    if capacity < 0:
        return
    passed_over = -1
    while c.resident[replica] > capacity:
        e = c.ends[replica].oldest
        if e < 0 or e == passed_over:
            return
        h = c.entries[e].holding
        # low: where the entry's blocks begin; floor: what is locked of them stays
        if h == JUNK:
            low = 0
            floor = 0
        else:
            low = c.entries[c.entries[e].up].depth if c.entries[e].up >= 0 else c.base[c.holdings[h].path]
            floor = c.entries[e].depth if c.entries[e].down >= 0 else max(low, c.holdings[h].locked)
        # its deepest blocks leave first
        gone = min(c.resident[replica] - capacity, c.entries[e].depth - floor)
        if gone > 0:
            c.entries[e].depth -= gone
            c.resident[replica] -= gone
        # an entry without blocks leaves its stack and its list
        if c.entries[e].depth == low:
            unlink(c.entries, c.ends, replica, e)
            if h != JUNK:
                if c.entries[e].up >= 0:
                    c.entries[c.entries[e].up].down = -1
                else:
                    c.holdings[h].top = -1
                c.holdings[h].bottom = c.entries[e].up
            free_entry(c.entries, c.counters, e)
        elif c.resident[replica] > capacity:  # in use: its place in the order is settled when it is released
            if passed_over < 0:
                passed_over = e
            unlink(c.entries, c.ends, replica, e)
            append(c.entries, c.ends, replica, e)


@norc_inner()
def clear(c: Caches, replica: int) -> None:
    """Clear everything the replica holds and ever held (it was lost, or restarted)."""
    e = c.ends[replica].oldest
    while e >= 0:
        after = c.entries[e].newer
        free_entry(c.entries, c.counters, e)
        e = after
    c.ends[replica].oldest = -1
    c.ends[replica].newest = -1
    c.resident[replica] = 0
    c.pinned[replica] = 0
    for h in range(c.counters[0].next_holding):
        if c.holdings[h].owner == replica:
            c.holdings[h].top = -1
            c.holdings[h].bottom = -1
            base = c.base[c.holdings[h].path]
            c.holdings[h].inserted = base
            c.holdings[h].routed = base
            c.holdings[h].locked = base


@norc_inner()
def duplicate_blocks(c: Caches, replicas: int) -> int:
    """Shared blocks held by the first `replicas` caches minus the distinct blocks among them."""
    copies = 0
    distinct = 0
    for p in range(len(c.first)):
        deepest = c.base[p]
        h = c.first[p]
        while h >= 0:
            if c.holdings[h].owner < replicas and c.holdings[h].bottom >= 0:
                held = c.entries[c.holdings[h].bottom].depth
                copies += held - c.base[p]
                deepest = max(deepest, held)
            h = c.holdings[h].next
        distinct += deepest - c.base[p]
    return copies - distinct
