"""Pins on the paths of prompts: blocks that running requests read are not evicted."""

from __future__ import annotations

from typing import Any

from analysis.fleet.replay.replica_cache import Caches, holding_of
from analysis.kernel.numba_norc import norc_inner


@norc_inner()
def lock(c: Caches, replica: int, node: int) -> None:
    """Protect the prompt at `node` from eviction."""
    while node >= 0:
        p = c.path[node]
        here = c.end_blocks[node]
        if here > c.base[p]:
            h = holding_of(c, replica, p)
            if here > c.holdings[h].locked:
                c.pinned[replica] += here - c.holdings[h].locked
                c.holdings[h].locked = here
        node = c.above[p]


@norc_inner()
def unlock(c: Caches, replica: int, node: int, first: int, requests: Any, prompts: Any) -> None:
    """Release the prompt at `node`; requests `first`, `requests[first].run_next`, ... still run there,
    each on the prompt at `prompts[request].leaf`."""
    while node >= 0:
        p = c.path[node]
        here = c.end_blocks[node]
        if here > c.base[p]:
            h = holding_of(c, replica, p)
            if here >= c.holdings[h].locked:
                still = c.base[p]
                k = first
                while k >= 0:
                    other = prompts[k].leaf
                    while other >= 0:
                        if c.path[other] == p:
                            still = max(still, c.end_blocks[other])
                            break
                        other = c.above[c.path[other]]
                    k = requests[k].run_next
                c.pinned[replica] -= c.holdings[h].locked - still
                c.holdings[h].locked = still
        node = c.above[p]
