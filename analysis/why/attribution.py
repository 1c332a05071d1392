"""The cause of every input token, from the depth to which caches hold each prompt and the tokens it shares.

A look-up always hits a leading part of the prompt, at any capacity and TTL, because the stack distance and the age of
the last touch grow along a path. So every cause is the difference between two depths, and the causes of a request sum
exactly to its prompt. All functions work on arrays with one value per request row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class Depths(NamedTuple):
    """The number of leading blocks of each prompt that a cache holds, int64[r] each.

    Attributes:
        recent: blocks within the TTL, at any capacity.
        held: blocks within both the TTL and the capacity.
    """

    recent: Rows
    held: Rows


def causes(
    prefix_tokens: Rows,
    match_tokens: Rows,
    block_tokens: int,
    shared: Depths,
    local: Rows | None,
    running_blocks: Rows | None,
    rewritten_end: Rows,
) -> dict[str, Rows]:
    """Tokens of each request by cause; the values of a request sum to its `prefix_tokens`.

    Args:
        prefix_tokens: int64[r], prompt length; 0 where the prompt is unknown.
        match_tokens: int64[r], longest match with any earlier prompt.
        block_tokens: block size B.
        shared: depths in one shared cache of the total size.
        local: int64[r], leading blocks held by the chosen replica; None: there is only one cache.
        running_blocks: int64[r], leading blocks that a running request was computing; None: there are none.
        rewritten_end: int64[r], min(n, m) for requests that rewrote their history, else 0.
    """
    full = match_tokens // block_tokens
    hit = shared.held if local is None else np.minimum(local, full)
    flying = np.zeros_like(hit) if running_blocks is None else np.maximum(running_blocks - hit, 0)
    reached = hit + flying
    routed = np.maximum(shared.held, reached)
    recent = np.maximum(np.minimum(shared.recent, full), routed)
    rewritten = np.maximum(rewritten_end - match_tokens, 0)
    return {
        "hit": hit * block_tokens,
        "in_flight": flying * block_tokens,
        "routing": (routed - reached) * block_tokens,
        "ttl": (full - recent) * block_tokens,
        "capacity": (recent - routed) * block_tokens,
        "block_rounding": match_tokens - full * block_tokens,
        "rewritten": rewritten,
        "first_seen": prefix_tokens - match_tokens - rewritten,
    }


def causes_as_defined(
    prefix_tokens: Rows, match_tokens: Rows, ceiling_tokens: Rows, hit_tokens: Rows, rewritten_end: Rows
) -> dict[str, Rows]:
    """`causes` if another tool or an engine defines the hits: those at the capacity, and those of an unbounded cache.

    Shared tokens that miss even in an unbounded cache count as rounding (partial blocks, a token that is always
    computed). If the engine hits more than prompts share (replies that it kept), the extra hits count as shared.
    """
    match = np.maximum(match_tokens, ceiling_tokens)
    rewritten = np.maximum(rewritten_end - match, 0)
    nothing = np.zeros_like(hit_tokens)
    return {
        "hit": hit_tokens,
        "in_flight": nothing,
        "routing": nothing,
        "ttl": nothing,
        "capacity": ceiling_tokens - hit_tokens,
        "block_rounding": match - ceiling_tokens,
        "rewritten": rewritten,
        "first_seen": prefix_tokens - match - rewritten,
    }
