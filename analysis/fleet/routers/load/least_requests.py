"""Least requests in flight (Envoy, AIBrix `least-request`); ties go round the fleet."""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, least
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    chosen = least(fleet.running, fleet.alive, memory.ints[0] - 1)
    memory.ints[0] = chosen + 1
    return chosen


POLICY = Policy(_choose)
