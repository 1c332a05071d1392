"""vLLM production-stack `prefixaware`: the replica that was sent the longest prefix, random among equals, no load
term.

Its trie of 128-character chunks never forgets, so it follows what was routed, not what is resident; chunks are blocks
here. Below `prefix_min_match_length` tokens (0: never) it takes the replica with the fewest requests, where the real
one takes the lowest QPS.
"""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, drawn_among, least
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    deepest = 0
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            deepest = max(deepest, fleet.routed[r])
    if deepest * fleet.block_tokens[0] < memory.params[0]:
        return least(fleet.running, fleet.alive, -1)
    return drawn_among(fleet.routed, deepest, fleet.alive, memory.rng)


POLICY = Policy(_choose, {"prefix_min_match_length": 0.0}, seeded=True)
