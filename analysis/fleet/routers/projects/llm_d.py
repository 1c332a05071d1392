"""llm-d inference scheduler: weighted sum of scores, the highest wins, ties at random (Helm defaults 3 : 2 : 2).

prefix = matched / total blocks; queue = min-max of waiting requests (1 where all are equal); kv = 1 - KV in use /
capacity (1 where unbounded). `precise` 1 scores what is resident (KV events); 0 scores the approximate producer,
which sees what was routed and at most `max_prefix_blocks` of 16 tokens: by default prompts that share 4,096 tokens
cannot be distinguished.
"""

from __future__ import annotations

import numpy as np

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, drawn_among, float_each
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    prefix_weight, queue_weight, kv_weight, precise, most_blocks = memory.params[:5]
    most = most_blocks * 16.0
    total = max(float(tokens), 1.0)
    score = memory.floats
    shortest = np.inf
    longest = -np.inf
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            shortest = min(shortest, fleet.waiting[r])
            longest = max(longest, fleet.waiting[r])
    best = -np.inf
    for r in range(len(fleet.alive)):
        if not fleet.alive[r]:
            continue
        if precise > 0:
            prefix = fleet.held[r] * fleet.block_tokens[0] / total
        else:
            prefix = min(float(fleet.routed[r] * fleet.block_tokens[0]), most) / max(min(total, most), 1.0)
        queue = (longest - fleet.waiting[r]) / (longest - shortest) if longest > shortest else 1.0
        kv = 1.0 - fleet.busy_blocks[r] / fleet.capacity[r] if fleet.capacity[r] > 0 else 1.0
        score[r] = prefix_weight * prefix + queue_weight * queue + kv_weight * kv
        best = max(best, score[r])
    return drawn_among(score, best, fleet.alive, memory.rng)


POLICY = Policy(
    _choose,
    {"prefix_weight": 3.0, "queue_weight": 2.0, "kv_weight": 2.0, "precise": 1.0, "max_prefix_blocks": 256.0},
    prepare=float_each,
    seeded=True,
)
