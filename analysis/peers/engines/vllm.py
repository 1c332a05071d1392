"""vLLM's block manager, v1, one full-attention KV group, requests one after another (vllm/v1/core, 0.33.0).

A look-up reads the first (P - 1) // B chained blocks and stops at the first miss, so a fully cached prompt computes its
last block again. New blocks come from the front of the free queue and lose their hash at that moment. Blocks of the
prompt and of generated tokens are cached when full. A finished request returns its blocks to the queue tail first.
Block
0 is the null block: C GPU blocks give C - 1 usable ones. Nothing is de-duplicated: a block computed twice exists twice.

Version choice of the free queue: "0.23" puts the (hash-less) partial block at the front, where it is reused first;
"0.20" and before append everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.peers.engines.outcome import Replay
from analysis.peers.engines.paths import BlockPaths, Ints, deepest_path, walk
from analysis.peers.engines.vllm_distances import Runs, appends_partial, hit_blocks_at, stack_distances
from traces.tree.compiled import njit


def replay(
    paths: BlockPaths, gpu_blocks: Sequence[int], version: str = "0.23", method: str = "auto", null_block: bool = True
) -> list[Replay]:
    """What vLLM hits at each capacity.

    Args:
        paths: the requests at vLLM's block size.
        gpu_blocks: `num_gpu_blocks` of each capacity, the null block included.
        version: free-queue order, one of VERSIONS.
        method: auto uses the single pass where it is exact (every request fits and no block is computed twice) and the
            exact replay otherwise; one_pass and replay force one of them.
        null_block: False for managers without one (Dynamo's mocker).

    Raises:
        ValueError: an unknown version or method, or a capacity without a usable block.
    """
    if method not in ("auto", "one_pass", "replay"):
        raise ValueError(f"unknown method {method!r}; known: auto, one_pass, replay")
    legacy = appends_partial(version)
    usable = [int(n) - (1 if null_block else 0) for n in gpu_blocks]
    if any(k < 1 for k in usable):
        raise ValueError("a capacity needs at least one usable block; one more is the null block")
    largest = int(paths.slots.max(initial=0))
    runs = stack_distances(paths, version) if method != "replay" else None
    out = []
    for k in usable:
        reason = _why_replay(k, largest, runs) if method == "auto" else f"method {method} was requested"
        if runs is not None and (method == "one_pass" or not reason):
            why = reason or "every request fits and no block is computed twice"
            hits, all_run = hit_blocks_at(runs, k, paths.requests), np.ones(paths.requests, bool)
            out.append(Replay(k, paths.block_tokens, hits, all_run, 0, 0, "one_pass", why))
            continue
        hits, tokens, oom = _manager(
            paths.parent, paths.blocks, paths.first_block, paths.leaf, paths.prompt_tokens, paths.lookup, paths.prompt,
            paths.cached, paths.prompt_slots, paths.slots, k, legacy, paths.distinct_blocks,
            deepest_path(paths.parent, paths.leaf),
        )  # fmt: skip
        ran = hits >= 0
        found = np.maximum(hits, 0)
        out.append(Replay(k, paths.block_tokens, found, ran, int(tokens), int(oom), "replay", reason))
    return out


def _why_replay(usable: int, largest: int, runs: Runs | None) -> str:
    if usable < largest:
        return f"the largest request needs {largest} blocks"
    if runs is not None and runs.recomputed:
        return f"{runs.recomputed} requests compute a block that was computed before"
    return ""


@njit(cache=True)
def _unlink(before: Ints, after: Ints, slot: int) -> None:
    """Take a slot out of the free queue."""
    after[before[slot]] = after[slot]
    before[after[slot]] = before[slot]


@njit(cache=True)
def _forget(first: Ints, copies: Ints, held: Ints, slot: int) -> None:
    """Remove a slot's hash: take the slot from the list of copies of its block (oldest first)."""
    block = held[slot]
    if block < 0:
        return
    if first[block] == slot:
        first[block] = copies[slot]
    else:
        step = first[block]
        while copies[step] != slot:
            step = copies[step]
        copies[step] = copies[slot]
    held[slot] = -1


@njit(cache=True)
def _hash(first: Ints, copies: Ints, held: Ints, slot: int, block: int) -> None:
    """Give a slot a block's hash: append it to the list of copies of that block."""
    held[slot] = block
    copies[slot] = -1
    if first[block] < 0:
        first[block] = slot
        return
    step = first[block]
    while copies[step] >= 0:
        step = copies[step]
    copies[step] = slot


@njit(cache=True)
def _manager(
    parent: Ints,
    blocks: Ints,
    first_block: Ints,
    leaf: Ints,
    prompt_tokens: Ints,
    lookup: Ints,
    prompt: Ints,
    cached: Ints,
    prompt_slots: Ints,
    slots: Ints,
    usable: int,
    legacy: bool,
    distinct: int,
    deepest: int,
) -> tuple[Ints, int, int]:
    n = len(leaf)
    hits = np.zeros(n, np.int64)
    first = np.full(distinct, -1, np.int64)  # the oldest slot with a block's hash
    copies = np.full(usable, -1, np.int64)  # the next slot with the same hash
    held = np.full(usable, -1, np.int64)  # the block whose hash a slot has
    # The free queue: a ring of all slots with the sentinel `usable` between tail and head.
    after = np.empty(usable + 1, np.int64)
    before = np.empty(usable + 1, np.int64)
    for i in range(usable + 1):
        after[i] = (i + 1) % (usable + 1)
        before[i] = (i + usable) % (usable + 1)
    end = usable
    largest = 1
    for r in range(n):
        largest = max(largest, slots[r], prompt_slots[r])
    ids = np.empty(largest + 1, np.int64)
    mine = np.empty(largest + 1, np.int64)
    scratch = np.empty(deepest + 1, np.int64)
    unschedulable_tokens = 0
    oom = 0
    for r in range(n):
        if prompt_slots[r] > usable:
            hits[r] = -1
            unschedulable_tokens += prompt_tokens[r]
            continue
        # Expand the path into block ids.
        count = walk(parent, leaf[r], scratch)
        filled = 0
        for i in range(count):
            atom = scratch[i]
            for j in range(blocks[atom]):
                ids[filled] = first_block[atom] + j
                filled += 1
        # Look up to the first miss, and take the slots that hit out of the free queue.
        found = 0
        while found < lookup[r] and first[ids[found]] >= 0:
            mine[found] = first[ids[found]]
            found += 1
        hits[r] = found
        for i in range(found):
            _unlink(before, after, mine[i])
        # A request whose output does not fit ends after prefill.
        runs_out = slots[r] > usable
        total = prompt_slots[r] if runs_out else slots[r]
        full = prompt[r] if runs_out else cached[r]
        oom += 1 if runs_out else 0
        # Prefill takes slots from the front of the queue and hashes the full ones; then decode does the same.
        for i in range(found, prompt_slots[r]):
            slot = after[end]
            _unlink(before, after, slot)
            _forget(first, copies, held, slot)
            mine[i] = slot
        for i in range(found, prompt[r]):
            _hash(first, copies, held, mine[i], ids[i])
        for i in range(prompt_slots[r], total):
            slot = after[end]
            _unlink(before, after, slot)
            _forget(first, copies, held, slot)
            mine[i] = slot
        for i in range(prompt[r], full):
            _hash(first, copies, held, mine[i], ids[i])
        # Return the slots tail first to the back of the queue; from 0.23 on a slot without a hash goes to the front.
        for i in range(total - 1, -1, -1):
            slot = mine[i]
            left = before[end] if legacy or held[slot] >= 0 else end
            right = after[left]
            after[left] = slot
            before[slot] = left
            after[slot] = right
            before[right] = slot
    return hits, unschedulable_tokens, oom
