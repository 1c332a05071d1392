"""Consistent hashing of the session on a ring: vllm-router's consistent_hash, checked against its recorded choices.

Envoy's ring_hash and production-stack's session router work alike with other hashes. It is blind to load.
"""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy
from analysis.fleet.routers.hashing.ring import prepare_ring
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    sessions = len(fleet.last)
    points = len(memory.ints) - sessions
    at = memory.ints[session]
    for step in range(points):
        r = memory.ints[sessions + (at + step) % points]
        if fleet.alive[r]:
            return r
    return -1


POLICY = Policy(_choose, {"vnodes": 160.0}, prepare=prepare_ring)
