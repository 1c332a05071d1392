"""NVIDIA Dynamo's KV router (1.6.1): least prompt blocks to compute plus KV blocks in use; ties at random.

cost = prefill_load_scale x max((active prefill + prompt tokens) / B - overlap_score_credit x decay x overlap, 0)
       + blocks in use with this request + active_request_weight x requests in flight,
decay = 1 / (1 + credit_decay x (active prefill - least active prefill) / B / prompt blocks).
Temperature T > 0 draws with softmax(-(cost - min) / ((max - min) T)). Source: lib/kv-router scheduling/selector.
"""

from __future__ import annotations

import numpy as np

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, draw, drawn_among, float_each
from analysis.kernel.numba_norc import numba_norc


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    credit, credit_decay, scale, weight, temperature = memory.params[:5]
    block = fleet.block_tokens[0]
    blocks = tokens / block
    cost = memory.floats
    least_prefill = np.inf
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            least_prefill = min(least_prefill, fleet.prefill_tokens[r])
    low = np.inf
    high = -np.inf
    for r in range(len(fleet.alive)):
        if not fleet.alive[r]:
            cost[r] = np.inf
            continue
        ahead = (fleet.prefill_tokens[r] - least_prefill) / block
        decay = 1.0 / (1.0 + credit_decay * ahead / max(blocks, 1.0))
        compute = max((fleet.prefill_tokens[r] + tokens) / block - credit * decay * fleet.held[r], 0.0)
        in_use = fleet.busy_blocks[r] + (tokens + block - 1) // block - fleet.in_use[r]
        cost[r] = scale * compute + in_use + weight * fleet.running[r]
        low = min(low, cost[r])
        high = max(high, cost[r])
    if temperature > 0 and high > low:
        total = 0.0
        for r in range(len(fleet.alive)):
            if fleet.alive[r]:
                total += np.exp(-(cost[r] - low) / ((high - low) * temperature))
        left = total * draw(memory.rng, 1 << 53) / (1 << 53)
        last = -1
        for r in range(len(fleet.alive)):
            if fleet.alive[r]:
                last = r
                left -= np.exp(-(cost[r] - low) / ((high - low) * temperature))
                if left < 0:
                    break
        return last
    return drawn_among(cost, low, fleet.alive, memory.rng)


POLICY = Policy(
    _choose,
    {
        "overlap_score_credit": 1.0,
        "overlap_score_credit_decay": 0.0,
        "prefill_load_scale": 1.0,
        "active_request_weight": 0.0,
        "temperature": 0.0,
    },
    prepare=float_each,
    seeded=True,
)
