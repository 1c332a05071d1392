"""Ray Serve's PrefixCacheAffinityRouter (2.60): best match from `match_rate`, else the smallest tree.

Out of balance (spread of requests in flight at or above `imbalanced_threshold`; by default infinite, so never) it
falls back to power of two choices. The trees hold what was routed; their eviction is off by default.
"""

from __future__ import annotations

import math

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, draw_alive, int_each
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    tree_tokens = memory.ints
    match = -1
    smallest = -1
    low = high = -1
    for r in range(len(fleet.alive)):
        if not fleet.alive[r]:
            continue
        if match < 0 or fleet.routed[r] > fleet.routed[match]:
            match = r
        if smallest < 0 or tree_tokens[r] < tree_tokens[smallest]:
            smallest = r
        if low < 0 or fleet.running[r] < low:
            low = fleet.running[r]
        high = max(high, fleet.running[r])
    if high - low >= memory.params[0]:
        chosen = draw_alive(memory.rng, fleet.alive)
        other = draw_alive(memory.rng, fleet.alive)
        if fleet.running[other] < fleet.running[chosen]:
            chosen = other
    elif fleet.routed[match] > 0 and fleet.routed[match] * fleet.block_tokens[0] >= memory.params[1] * tokens:
        chosen = match
    else:
        chosen = smallest
    tree_tokens[chosen] += tokens - fleet.routed[chosen] * fleet.block_tokens[0]
    return chosen


POLICY = Policy(_choose, {"imbalanced_threshold": math.inf, "match_rate": 0.1}, prepare=int_each, seeded=True)
