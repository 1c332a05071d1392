"""Tower: place sessions by load, then balance requests within a budget of tokens recomputed.

An affinity router balances sessions, but requests are what loads a replica, and the two differ by what sessions do
not do most of the time. Once a session has been served by two replicas, both hold nearly all of its prompt, and its
next request may go to either for the few tokens of the turns between. So every request goes to the replica alive with
the least

    requests in flight + price x tokens to recompute / mean prompt tokens

where tokens to recompute = the longest prefix any replica holds less the one held there, plus live sessions' KV that
would be pushed out. The price floats: it rises while more than `budget` of the prompt tokens of the recent past was
recomputed for balance, and falls while less was, so balance is bought where a token buys most of it. A new session
counts live sessions and requests in flight and goes where both are few, which also fills new replicas. A session with
`session_limit` requests in flight at its home or more is split: each one more counts as load of its home.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from analysis.routers.fleet import SIGNATURE, Fleet, Memory, Policy, Setup

PRICE, SPENT, SEEN, REQUESTS = range(4)  # Memory.floats: the price; recent tokens recomputed, of prompts, and requests


@njit(SIGNATURE, cache=True)
def _choose(session: int, tokens: int, now: float, fleet: Fleet, memory: Memory) -> int:
    budget, session_limit, pace, memory_requests, session_weight, kv_weight = memory.params[:6]
    books = memory.floats
    block = fleet.block_tokens[0]
    blocks = tokens // block
    home = fleet.last[session]
    longest = 0
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            longest = max(longest, fleet.held[r])
    books[SEEN] += tokens
    books[REQUESTS] += 1
    mean_tokens = max(books[SEEN] / books[REQUESTS], 1.0)
    loaded = fleet.running.sum() > 0
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
        score = load + books[PRICE] * missing * block / mean_tokens
        if best < 0 or score < best_score or (score == best_score and fleet.held[r] > fleet.held[best]):
            best = r
            best_score = score
    books[SPENT] += (longest - fleet.held[best]) * block
    share = books[SPENT] / max(books[SEEN], 1.0)
    books[PRICE] *= np.exp(pace * (share / budget - 1.0))
    books[PRICE] = min(max(books[PRICE], 0.01), 1e6)
    if books[REQUESTS] > memory_requests:
        books[SPENT] *= 0.5
        books[SEEN] *= 0.5
        books[REQUESTS] *= 0.5
    return best


def _prepare(setup: Setup) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.zeros(1, np.int64), np.array([10.0, 0.0, 0.0, 0.0])


POLICY = Policy(
    _choose,
    {
        "budget": 0.012,
        "session_limit": 2.0,
        "pace": 0.01,
        "memory_requests": 2000.0,
        "session_weight": 1.0,
        "kv_weight": 0.3,
    },
    prepare=_prepare,
)
