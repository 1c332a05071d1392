"""sglang-router's cache_aware, defaults of its command line (0.3.2); rule from smg's cache_aware.rs.

Out of balance (max - min > abs and max > rel x min, in requests in flight): the least loaded. Else the replica whose
approximate tree matches most of the prompt if that is more than `cache_threshold` of it, else the least loaded; ties
by requests processed, then index. The tree's eviction (2^26 characters a replica, every 60 s) is left out. Without
load every tie falls alike and all requests go to one replica, so the policy is only offered where service takes time.
"""

from __future__ import annotations

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, int_each
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    processed = memory.ints
    idlest = -1
    busiest = -1
    match = -1
    for r in range(len(fleet.alive)):
        if not fleet.alive[r]:
            continue
        load = fleet.running[r]
        if (
            idlest < 0
            or load < fleet.running[idlest]
            or (load == fleet.running[idlest] and processed[r] < processed[idlest])
        ):
            idlest = r
        if busiest < 0 or load > fleet.running[busiest]:
            busiest = r
        if match < 0 or fleet.routed[r] > fleet.routed[match]:
            match = r
    low = fleet.running[idlest]
    high = fleet.running[busiest]
    chosen = idlest
    balanced = not (high - low > memory.params[1] and high > memory.params[2] * low)
    if balanced and fleet.routed[match] * fleet.block_tokens[0] > memory.params[0] * tokens:
        chosen = match
    processed[chosen] += 1
    return chosen


POLICY = Policy(
    _choose,
    {"cache_threshold": 0.3, "balance_abs_threshold": 64.0, "balance_rel_threshold": 1.5},
    prepare=int_each,
    needs_load=True,
)
