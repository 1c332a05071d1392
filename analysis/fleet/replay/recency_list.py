"""Entries of the replicas' caches, each replica's in one list from the least recent to the most.

`entries`, `ends` and `counters` are those of `analysis.fleet.replay.replica_cache.Caches`.
"""

from __future__ import annotations

from typing import Any

from analysis.kernel.numba_norc import inner

DEPTH, HOLDING, UP, DOWN, OLDER, NEWER = range(6)  # columns of Caches.entries
OLDEST, NEWEST = range(2)  # columns of Caches.ends
FREE_ENTRY, NEXT_ENTRY, NEXT_HOLDING = range(3)  # positions in Caches.counters


@inner()
def append(entries: Any, ends: Any, replica: int, e: int) -> None:
    """Make `e` the most recent entry of the replica."""
    last = ends[replica, NEWEST]
    entries[e, OLDER] = last
    entries[e, NEWER] = -1
    if last >= 0:
        entries[last, NEWER] = e
    else:
        ends[replica, OLDEST] = e
    ends[replica, NEWEST] = e


@inner()
def unlink(entries: Any, ends: Any, replica: int, e: int) -> None:
    """Take `e` out of the replica's list."""
    before = entries[e, OLDER]
    after = entries[e, NEWER]
    if before >= 0:
        entries[before, NEWER] = after
    else:
        ends[replica, OLDEST] = after
    if after >= 0:
        entries[after, OLDER] = before
    else:
        ends[replica, NEWEST] = before


@inner()
def new_entry(entries: Any, counters: Any) -> int:
    """An entry that nobody uses."""
    e = counters[FREE_ENTRY]
    if e >= 0:
        counters[FREE_ENTRY] = entries[e, UP]
        return e
    e = counters[NEXT_ENTRY]
    counters[NEXT_ENTRY] += 1
    return e


@inner()
def free_entry(entries: Any, counters: Any, e: int) -> None:
    """Give `e` back."""
    entries[e, UP] = counters[FREE_ENTRY]
    counters[FREE_ENTRY] = e
