"""Session affinity: a new session takes the next replica, round robin, and stays there."""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, next_alive
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    if fleet.last[session] >= 0:
        return fleet.last[session]
    chosen = next_alive(fleet.alive, memory.ints[0] - 1)
    memory.ints[0] = chosen + 1
    return chosen


POLICY = Policy(_choose)
