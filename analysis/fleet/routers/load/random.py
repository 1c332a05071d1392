"""Uniform random, for every request: what a load balancer without a session header does."""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, draw_alive
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    return draw_alive(memory.rng, fleet.alive)


POLICY = Policy(_choose, seeded=True)
