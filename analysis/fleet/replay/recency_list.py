"""Entries of the replicas' caches, each replica's in one list from the least recent to the most.

`entries`, `ends` and `counters` are those of `analysis.fleet.replay.replica_cache.Caches`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.kernel.numba_norc import norc_inner

ENTRY = np.dtype([("depth", "i4"), ("holding", "i4"), ("up", "i4"), ("down", "i4"), ("older", "i4"), ("newer", "i4")])
"""An entry: its depth in blocks (of JUNK: the number of blocks); its holding; the next entry of its stack, up and down;
the next entry of the replica's list, older and newer."""
HOLDINGS = np.dtype(
    [("owner", "i4"), ("path", "i4"), ("next", "i4"), ("top", "i4"), ("bottom", "i4"), ("inserted", "i4"),
     ("routed", "i4"), ("locked", "i4")]
)  # fmt: skip
"""One replica's part of one path: the replica; the path; the next holding of the path; the shallowest and the deepest
entry; the deepest depth ever held (what an unbounded cache would still hold), ever routed there, and that running
requests read."""
ENDS = np.dtype([("oldest", "i4"), ("newest", "i4")])
COUNTERS = np.dtype([("free_entry", "i8"), ("next_entry", "i8"), ("next_holding", "i8")])
"""The first free entry, and how many entries and holdings were ever used."""


@norc_inner()
def append(entries: Any, ends: Any, replica: int, e: int) -> None:
    """Make `e` the most recent entry of the replica."""
    last = ends[replica].newest
    entries[e].older = last
    entries[e].newer = -1
    if last >= 0:
        entries[last].newer = e
    else:
        ends[replica].oldest = e
    ends[replica].newest = e


@norc_inner()
def unlink(entries: Any, ends: Any, replica: int, e: int) -> None:
    """Take `e` out of the replica's list."""
    before = entries[e].older
    after = entries[e].newer
    if before >= 0:
        entries[before].newer = after
    else:
        ends[replica].oldest = after
    if after >= 0:
        entries[after].older = before
    else:
        ends[replica].newest = before


@norc_inner()
def new_entry(entries: Any, counters: Any) -> int:
    """A free entry."""
    e = counters[0].free_entry
    if e >= 0:
        counters[0].free_entry = entries[e].up
        return e
    e = counters[0].next_entry
    counters[0].next_entry += 1
    return e


@norc_inner()
def free_entry(entries: Any, counters: Any, e: int) -> None:
    """Return `e` to the free list."""
    entries[e].up = counters[0].free_entry
    counters[0].free_entry = e
