"""Longest prefix: the replica that holds most of the prompt, ties to the lowest index. It has no load term."""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    best = -1
    for r in range(len(fleet.alive)):
        if fleet.alive[r] and (best < 0 or fleet.held[r] > fleet.held[best]):
            best = r
    return best


POLICY = Policy(_choose)
