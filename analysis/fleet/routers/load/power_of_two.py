"""Power of two choices: of two replicas at random, the one with fewer requests in flight (SGLang, Ray Serve)."""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, draw_alive
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    first = draw_alive(memory.rng, fleet.alive)
    if fleet.alive.sum() < 2:
        return first
    second = first
    while second == first:
        second = draw_alive(memory.rng, fleet.alive)
    return second if fleet.running[second] < fleet.running[first] else first


POLICY = Policy(_choose, seeded=True)
