"""Round robin over requests (vLLM production-stack RoundRobinRouter)."""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, next_alive
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    chosen = next_alive(fleet.alive, memory.ints[0] - 1)  # ints[0]: one after the last choice
    memory.ints[0] = chosen + 1
    return chosen


POLICY = Policy(_choose)
