"""Tower: place sessions by load, then balance requests within a budget of tokens recomputed.

An affinity router balances sessions, but requests are what loads a replica, and the two differ by what sessions do
not do most of the time. Once a session has been served by two replicas, both hold nearly all of its prompt, and its
next request may go to either for the few tokens of the turns between. So every request goes to the replica alive with
the least

    requests in flight + price x tokens to recompute / mean prompt tokens

where tokens to recompute = the longest prefix any replica holds less the one held there, plus live sessions' KV that
would be pushed out. Every prompt token earns `budget` tokens of credit, every token recomputed spends one, and the
price falls by the factor e for each 1 / `stiffness` mean prompts of credit: what is recomputed stays within the budget,
and is bought where a token buys most balance. Tokens sent before that no replica holds any more count too, at
`eviction_weight` and out of at most `eviction_share` of what is earned, for copies push out what others need. A new
session counts live sessions and requests in flight and goes where both are few, which also fills new replicas, at a
price of at most `placing_price`: heads that all sessions share are worth holding everywhere. A session with
`session_limit` requests in flight at its home or more is split: each one more counts as load of its home.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory, Policy, Setup
from analysis.kernel.numba_norc import numba_norc

CREDIT, EVICTED, SEEN, REQUESTS = range(4)  # Memory.floats, tokens: to spend, still to be paid for, of prompts; prompts
MOST = 40.0  # mean prompts of credit or of evicted tokens kept: a quiet hour is no licence for a costly one
LEAST_PRICE = 1.0  # a whole mean prompt is never recomputed to spare a replica one request


@numba_norc(SIGNATURE)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    budget, price, stiffness, session_limit, session_weight, kv_weight = memory.params[:6]
    eviction_weight, eviction_share, placing_price = memory.params[6:9]
    books = memory.floats
    block = fleet.block_tokens[0]
    blocks = tokens // block
    home = fleet.last[session]
    longest = 0
    known = 0
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            longest = max(longest, fleet.held[r])
            known = max(known, fleet.routed[r])
    books[SEEN] += tokens
    books[REQUESTS] += 1
    mean_tokens = max(books[SEEN] / books[REQUESTS], 1.0)
    earned = budget * tokens
    books[EVICTED] = min(books[EVICTED] + eviction_weight * (known - longest) * block, MOST * mean_tokens)
    paid = min(books[EVICTED], eviction_share * earned)
    books[EVICTED] -= paid
    books[CREDIT] = min(books[CREDIT] + earned - paid, MOST * mean_tokens)
    price = max(price * np.exp(-stiffness * books[CREDIT] / mean_tokens), LEAST_PRICE)
    loaded = fleet.running.sum() > 0
    if home < 0 and loaded:
        price = min(price, placing_price)
    best = -1
    best_score = np.inf
    for r in range(len(fleet.alive)):
        if not fleet.alive[r]:
            continue
        missing = float(longest - fleet.held[r])
        load = float(fleet.running[r])
        if r == home:
            load += max(fleet.session_running[session] - session_limit + 1, 0.0)
        if fleet.capacity[r] > 0:
            pushed = fleet.session_blocks[r] + (0 if r == home else blocks) - fleet.capacity[r]
            missing += kv_weight * min(max(pushed, 0), blocks)
        if home < 0 and loaded:
            load += session_weight * fleet.sessions[r]
        score = load + price * missing * block / mean_tokens
        if best < 0 or score < best_score or (score == best_score and fleet.held[r] > fleet.held[best]):
            best = r
            best_score = score
    books[CREDIT] -= (longest - fleet.held[best]) * block
    return best


def _prepare(setup: Setup) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.zeros(1, np.int64), np.zeros(4)


POLICY = Policy(
    _choose,
    {
        "budget": 0.0185,
        "price": 30.0,
        "stiffness": 0.6,
        "session_limit": 2.0,
        "session_weight": 1.0,
        "kv_weight": 0.2,
        "eviction_weight": 0.6,
        "eviction_share": 0.85,
        "placing_price": 2.0,
    },
    prepare=_prepare,
)
