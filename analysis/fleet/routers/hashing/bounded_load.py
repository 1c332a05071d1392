"""Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, arXiv 1608.01350).

The session's first replica round the ring with fewer than ceil(c (m + 1) / n) requests in flight, m being those of
the whole fleet; c = 1.25 (brpc's default, and the paper's example). A key spills each time its home is full.
"""

from __future__ import annotations

import math

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy
from analysis.fleet.routers.hashing.ring import prepare_ring
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    sessions = len(fleet.last)
    points = len(memory.ints) - sessions
    in_flight = 0
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            in_flight += fleet.running[r]
    most = math.ceil(memory.params[1] * (in_flight + 1) / fleet.alive.sum())
    at = memory.ints[session]
    for step in range(points):
        r = memory.ints[sessions + (at + step) % points]
        if fleet.alive[r] and fleet.running[r] < most:
            return r
    return -1


POLICY = Policy(_choose, {"vnodes": 160.0, "c": 1.25}, prepare=prepare_ring)
