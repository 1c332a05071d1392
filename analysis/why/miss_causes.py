"""Where each request's input tokens went: what was hit, and the one cause of every token that was not.

All on plain arrays, per request row. A look-up hits a leading part of the prompt, whatever the capacity and the TTL:
along a path the stack distance grows and the last touch gets older. So every cause is the distance between two depths,
and the causes sum to the prompt exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths
from analysis.kernel.reuse import reuse

CAUSES = ("hit", "in_flight", "routing", "ttl", "capacity", "block_rounding", "rewritten", "first_seen")
"""In the order in which they are taken."""

REWRITING = ("edit", "system_change", "tail", "unrelated")
"""Transitions whose lost history counts as rewritten."""

Rows = NDArray[np.int64]


class Matches(NamedTuple):
    """The longest match of each prompt with any earlier one, to the token.

    Attributes:
        tokens: int64[r]; 0 where nothing is shared or the prompt is unknown.
        row: int64[r], the latest request that shares them; -1 none.
    """

    tokens: Rows
    row: Rows


class Depths(NamedTuple):
    """How many leading blocks of each prompt a cache holds, int64[r] each: within the TTL, and of those within the
    capacity too."""

    recent: Rows
    held: Rows


def longest_matches(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    arrival_s: NDArray[Any],
    paths: HeavyPaths,
) -> Matches:
    """The longest match with anyone: re-use at block size 1, unbounded, in one pass."""
    runs = reuse(parent, start, end, leaf, order, arrival_s, 1, None, paths)
    row = np.full(len(leaf), -1, np.int64)
    row[runs.request] = runs.last_request  # runs come head first, so the deepest one stays
    return Matches(runs.hit_blocks, row)


def lost_history(prefix_tokens: Rows, previous_tokens: Rows, match_tokens: Rows, native_tokens: Rows) -> Rows:
    """Tokens that the previous prompt had behind the place where this one parts from all before it, int64[r].

    max(0, min(n̄, m̄) − longest match with anyone). A bar rounds a length down to full native blocks, as transitions do:
    the partial last block of a hash trace has an id of its own in every prompt, and growing over it loses nothing. Of
    text (native block 1) this is to the token.

    Args:
        prefix_tokens, previous_tokens: int64[r], n and m; m is 0 where there is no previous prompt.
        match_tokens: int64[r], longest match with anyone.
        native_tokens: int64[r], native block of the request's source, 1 for text.
    """
    both = np.minimum(prefix_tokens, previous_tokens) // native_tokens * native_tokens
    lost: Rows = np.maximum(both - match_tokens, 0)
    return lost


def depths(
    request: NDArray[Any],
    blocks: NDArray[Any],
    distance_blocks: NDArray[Any],
    gap_s: NDArray[Any],
    requests: int,
    capacity_blocks: int | None,
    ttl_s: float | None,
) -> Depths:
    """How deep a cache holds each prompt, from its reuse runs.

    Args:
        request, blocks, distance_blocks, gap_s: the runs (`analysis.kernel.reuse.Reuse`).
        requests: how many requests there are.
        capacity_blocks: of the cache; None unbounded.
        ttl_s: seconds that a block outlives its last touch; None for ever. An unknown gap is above every TTL.
    """
    length = np.asarray(blocks, np.int64)
    recent = length if ttl_s is None else np.where(np.asarray(gap_s) <= ttl_s, length, 0)
    held = recent
    if capacity_blocks is not None:
        held = np.clip(capacity_blocks - np.asarray(distance_blocks, np.int64), 0, recent)
    return Depths(_sums(request, recent, requests), _sums(request, held, requests))


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


def first_seen_roles(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    role: NDArray[Any],
    leaf: NDArray[Any],
    first_seen: Rows,
) -> tuple[NDArray[np.int32], NDArray[np.int8], Rows]:
    """The first-seen tokens by the role of their nodes: (row, role code, tokens), several rows a request.

    A token is met for the first time once, so all walks together visit each node about once.

    Args:
        parent, start, end, role: the tree.
        leaf: int[r], node whose path is the prompt; -1 unknown.
        first_seen: int64[r], how many tokens at the end of the prompt.
    """
    arrays = (
        np.ascontiguousarray(parent, np.int64),
        np.ascontiguousarray(start, np.int64),
        np.ascontiguousarray(end, np.int64),
        np.ascontiguousarray(role, np.int8),
        np.ascontiguousarray(leaf, np.int64),
        np.ascontiguousarray(first_seen, np.int64),
    )
    count = _new_nodes(*arrays)
    row, code, tokens = np.empty(count, np.int32), np.empty(count, np.int8), np.empty(count, np.int64)
    _by_role(*arrays, row, code, tokens)
    return row, code, tokens


def _sums(request: NDArray[Any], values: NDArray[np.int64], requests: int) -> Rows:
    out = np.zeros(requests, np.int64)
    _add(np.asarray(request), values, out)
    return out


@njit(cache=True)
def _add(at: Any, values: Any, out: Any) -> None:
    for i in range(len(at)):
        out[at[i]] += values[i]


@njit(cache=True)
def _new_nodes(parent: Any, start: Any, end: Any, role: Any, leaf: Any, first_seen: Any) -> int:
    count = 0
    for row in range(len(leaf)):
        node = leaf[row]
        if node < 0 or first_seen[row] <= 0:
            continue
        begin = end[node] - first_seen[row]
        while node > 0 and end[node] > begin:
            count += 1
            node = parent[node]
    return count


@njit(cache=True)
def _by_role(
    parent: Any, start: Any, end: Any, role: Any, leaf: Any, first_seen: Any, out_row: Any, out_role: Any, out: Any
) -> None:
    at = 0
    for row in range(len(leaf)):
        node = leaf[row]
        if node < 0 or first_seen[row] <= 0:
            continue
        begin = end[node] - first_seen[row]
        while node > 0 and end[node] > begin:
            out_row[at] = row
            out_role[at] = role[node]
            out[at] = end[node] - max(start[node], begin)
            at += 1
            node = parent[node]
