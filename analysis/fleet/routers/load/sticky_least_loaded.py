"""vllm-router's sticky_least_loaded: a new session takes the replica with the fewest live sessions and stays."""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, least
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    if fleet.last[session] >= 0:
        return fleet.last[session]
    return least(fleet.sessions, fleet.alive, -1)


POLICY = Policy(_choose)
