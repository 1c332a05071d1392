"""Stack distances under vLLM's free queue: one pass that gives the hits of each capacity where no block is lost in use.

The rules are those of `analysis.peers.engines.vllm`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.peers.engines.paths import BlockPaths, Ints, deepest_path, walk
from traces.tree.compiled import njit

VERSIONS = ("0.23", "0.20")


class Runs(NamedTuple):
    """Stack distances of a whole trace: runs of consecutive blocks, as in the reuse table.

    Block i of a run hits at K usable blocks if distance + i < K. `recomputed` counts requests that compute a block that
    was computed before (a fully cached prompt, or a repeated answer). Then a block can exist twice, and the runs are
    only a bound.
    """

    request: Ints
    start_block: Ints
    blocks: Ints
    distance_blocks: Ints
    recomputed: int


def stack_distances(paths: BlockPaths, version: str = "0.23") -> Runs:
    """Stack distances for all capacities in one pass. Each is measured before its request touches anything.

    From version 0.23 on a request that ends with a partial block returns it to the front of the queue, so the next
    request has one block less; in 0.20 the partial block ages like any other.
    """
    legacy = appends_partial(version)
    partial = paths.slots > paths.cached
    out = _distances(
        paths.parent,
        paths.blocks,
        paths.leaf,
        paths.lookup,
        paths.cached,
        partial,
        legacy,
        deepest_path(paths.parent, paths.leaf),
    )
    return Runs(*out)


def hit_blocks_at(runs: Runs, usable_blocks: int, requests: int) -> Ints:
    """Blocks hit per request at a capacity, from the runs of one pass."""
    hits = np.clip(usable_blocks - runs.distance_blocks, 0, runs.blocks)
    return np.bincount(runs.request, weights=hits, minlength=requests).astype(np.int64)


def appends_partial(version: str) -> bool:
    """Whether this version of vLLM puts a partial block at the end of the free queue.

    Raises:
        ValueError: for a version that is not known.
    """
    if version not in VERSIONS:
        raise ValueError(
            f"unknown vLLM version {version!r}; known: {', '.join(VERSIONS)} (free-queue order changed between)"
        )
    return version == "0.20"


@njit(cache=True)
def _add(tree: Ints, index: int, value: int) -> None:
    """Add `value` at `index` of a Fenwick tree."""
    i = index + 1
    while i < len(tree):
        tree[i] += value
        i += i & -i


@njit(cache=True)
def _sum_to(tree: Ints, index: int) -> int:
    """Sum of a Fenwick tree up to and including `index`."""
    total = 0
    i = index + 1
    while i > 0:
        total += tree[i]
        i -= i & -i
    return total


@njit(cache=True)
def _distances(
    parent: Ints,
    blocks: Ints,
    leaf: Ints,
    lookup: Ints,
    cached: Ints,
    partial: NDArray[np.bool_],
    legacy: bool,
    deepest: int,
) -> tuple[Ints, Ints, Ints, Ints, int]:
    n = len(leaf)
    last = np.full(len(parent), -1, np.int64)
    tree = np.zeros(n + 2, np.int64)
    scratch = np.empty(deepest + 1, np.int64)
    room = max(16, 4 * n)
    rows = np.empty((room, 4), np.int64)
    used = 0
    held = 0
    recomputed = 0
    empty_slot = 0
    for r in range(n):
        count = walk(parent, leaf[r], scratch)
        depth = 0
        i = 0
        again = False
        # Each stretch of atoms that one request e touched last is a run; the look-up limit cuts the last run short.
        while i < count and last[scratch[i]] >= 0:
            e = last[scratch[i]]
            begin = depth
            while i < count and last[scratch[i]] == e:
                depth += blocks[scratch[i]]
                i += 1
            wanted = min(depth, lookup[r]) - begin
            if wanted > 0:
                if used == room:
                    grown = np.empty((room * 2, 4), np.int64)
                    grown[:room] = rows
                    rows = grown
                    room *= 2
                rows[used, 0] = r
                rows[used, 1] = begin
                rows[used, 2] = wanted
                rows[used, 3] = held - _sum_to(tree, e) + empty_slot
                used += 1
            again = again or depth > lookup[r]
        # Touch the path after all look-ups: take its atoms from the requests that touched them last,
        for j in range(i):
            atom = scratch[j]
            _add(tree, last[atom], -blocks[atom])
            held -= blocks[atom]
        # and count them, with the generated blocks, for this one.
        for j in range(count):
            last[scratch[j]] = r
        junk = 1 if legacy and partial[r] else 0
        _add(tree, r, cached[r] + junk)
        held += cached[r] + junk
        empty_slot = 1 if partial[r] and not legacy else 0
        if again:
            recomputed += 1
    rows = rows[:used]
    return rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy(), rows[:, 3].copy(), recomputed
