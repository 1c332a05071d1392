"""The cause of every input token, from how deep caches hold each prompt and how much it shares.

A look-up hits a leading part of the prompt, whatever the capacity and the TTL: along a path the stack distance grows
and the last touch gets older. So every cause is the distance between two depths, and the causes of a request sum to its
prompt exactly. All functions work on plain arrays with one value per request row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


class Depths(NamedTuple):
    """How many leading blocks of each prompt a cache holds, int64[r] each.

    Attributes:
        recent: within the TTL, whatever the capacity.
        held: of those, within the capacity too.
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
        match_tokens: int64[r], longest match with anyone.
        block_tokens: block size B.
        shared: depths in one shared cache of the total size.
        local: int64[r], leading blocks held by the replica that was chosen; None: there is one cache.
        running_blocks: int64[r], leading blocks that a running request was computing; None: none are.
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
    """`causes` where another tool or an engine says what hits: at the capacity, and with an unbounded cache.

    What is shared and is no hit even then is its rounding (blocks, a token that it always computes). Where it hits more
    than prompts share (replies that it kept), that counts as shared.
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
