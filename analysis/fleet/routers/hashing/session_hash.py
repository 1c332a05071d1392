"""Rendezvous (highest random weight) hashing of the session: argmax over replicas of h(session, replica).

A replica that joins n others takes 1 / (n + 1) of the sessions and no other session moves (Thaler and Ravishankar
1998; Modal's `Modal-Session-Id`). It is blind to load.
"""

from __future__ import annotations

import numpy as np

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, mix
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    best = -1
    heaviest = np.uint64(0)
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            weight = mix(memory.session_key[session] ^ mix(memory.replica_key[r]))
            if best < 0 or weight > heaviest:
                best = r
                heaviest = weight
    return best


POLICY = Policy(_choose, hashes=True, seeded=True)
