"""Preble's E2, exploitation and exploration (Srivatsa et al., ICLR 2025, arXiv 2407.00023).

Exploit when the longest match covers more than half of the prompt: the replica that holds it, ties to less load. Else
explore: least sum of load (tokens computed in the last `window_s` = 180 s), tokens that would be evicted, and tokens
to prefill. The load term counts once service takes time. Rebalancing and replication of hot prefixes are left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, Setup
from analysis.kernel.numba_norc import numba_norc

# Memory.floats: tokens of this half window, of the one before, per replica; then when this half window began.


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    n = len(fleet.alive)
    work = memory.floats
    half = memory.params[0] / 2
    if now - work[2 * n] >= half:
        stale = now - work[2 * n] >= 2 * half
        for r in range(n):
            work[n + r] = 0.0 if stale else work[r]
            work[r] = 0.0
        work[2 * n] = now
    block = fleet.block_tokens[0]
    timed = fleet.work_s.sum() > 0
    match = -1
    cheapest = -1
    cheapest_cost = np.inf
    for r in range(n):
        if not fleet.alive[r]:
            continue
        load = work[r] + work[n + r] if timed else 0.0
        if (
            match < 0
            or fleet.held[r] > fleet.held[match]
            or (fleet.held[r] == fleet.held[match] and timed and load < work[match] + work[n + match])
        ):
            match = r
        new = tokens - fleet.held[r] * block
        over = fleet.resident[r] * block + new - fleet.capacity[r] * block if fleet.capacity[r] >= 0 else 0
        cost = load + max(over, 0) + new
        if cost < cheapest_cost:
            cheapest = r
            cheapest_cost = cost
    chosen = match if 2 * fleet.held[match] * block > tokens else cheapest
    work[chosen] += tokens - fleet.held[chosen] * block
    return chosen


def _prepare(setup: Setup) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.zeros(1, np.int64), np.zeros(2 * setup.replicas + 1)


POLICY = Policy(_choose, {"window_s": 180.0}, prepare=_prepare)
