"""vLLM's block manager, v1, one full-attention KV group, requests one after another (vllm/v1/core, 0.33.0).

A look-up reads the first (P - 1) // B chained blocks and stops at the first miss, so a fully cached prompt computes its
last block again. New blocks come from the front of the free queue and lose their hash at that moment. Blocks of the
prompt and of generated tokens are cached when full. A finished request returns its blocks to the queue tail first.
Block 0 is the null block: C GPU blocks give C - 1 usable ones. Nothing is de-duplicated: a block computed twice exists
twice. The queue is held as segments of whole stretches of blocks, so time and memory follow the tree, not its lengths.

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
            paths.parent, paths.blocks, paths.leaf, paths.prompt_tokens, paths.lookup, paths.prompt, paths.cached,
            paths.prompt_slots, paths.slots, k, legacy, deepest_path(paths.parent, paths.leaf),
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


# Columns of the table of segments. A segment is a stretch of the free queue: blocks LOW to HIGH of one atom, deepest
# first, or HIGH slots without a hash (atom -1, LOW 0). Row 0 is the sentinel between the queue's tail and its head.
_ATOM, _LOW, _HIGH, _BEFORE, _AFTER, _OLDER, _NEWER = range(7)


@njit(cache=True)
def _made(table: Ints, free: Ints, atom: int, low: int, high: int) -> int:
    """A new segment, in no queue and on no list. `free[0]` counts the free rows that follow it."""
    free[0] -= 1
    segment = free[free[0] + 1]
    table[segment] = (atom, low, high, -1, -1, -1, -1)
    return segment


@njit(cache=True)
def _link(table: Ints, left: int, segment: int) -> None:
    """Put a segment into the queue after `left`."""
    right = table[left, _AFTER]
    table[left, _AFTER] = table[right, _BEFORE] = segment
    table[segment, _BEFORE], table[segment, _AFTER] = left, right


@njit(cache=True)
def _unlink(table: Ints, segment: int) -> None:
    """Take a segment out of the queue."""
    table[table[segment, _BEFORE], _AFTER] = table[segment, _AFTER]
    table[table[segment, _AFTER], _BEFORE] = table[segment, _BEFORE]


@njit(cache=True)
def _join(table: Ints, copies: Ints, atom: int, older: int, newer: int) -> None:
    """Make two segments neighbours on an atom's list; -1 is the end of the list on that side."""
    if older < 0:
        copies[atom, 0] = newer
    else:
        table[older, _NEWER] = newer
    if newer < 0:
        copies[atom, 1] = older
    else:
        table[newer, _OLDER] = older


@njit(cache=True)
def _hash(table: Ints, copies: Ints, segment: int, older: int) -> None:
    """Enter a segment on its atom's list (oldest first) after `older`. `copies` per atom: oldest, newest, count."""
    atom = table[segment, _ATOM]
    newer = copies[atom, 0] if older < 0 else table[older, _NEWER]
    _join(table, copies, atom, older, segment)
    _join(table, copies, atom, segment, newer)
    copies[atom, 2] += 1


@njit(cache=True)
def _release(table: Ints, free: Ints, copies: Ints, segment: int) -> None:
    """Give up a segment that is in no queue: take it off its atom's list and free its row."""
    atom = table[segment, _ATOM]
    if atom >= 0:
        _join(table, copies, atom, table[segment, _OLDER], table[segment, _NEWER])
        copies[atom, 2] -= 1
    free[free[0] + 1] = segment
    free[0] += 1


@njit(cache=True)
def _hit(table: Ints, free: Ints, copies: Ints, atom: int, at: int, most: int) -> tuple[int, int]:
    """Take the oldest copy of an atom's blocks from `at` on out of the queue, up to `most`.

    Returns (the segment that holds them now, where they end); (-1, at) if block `at` is not cached.
    """
    end = most
    segment = copies[atom, 0]
    while segment >= 0 and not table[segment, _LOW] <= at < table[segment, _HIGH]:
        # An older copy that starts later holds the blocks from there on.
        if table[segment, _LOW] > at:
            end = min(end, table[segment, _LOW])
        segment = table[segment, _NEWER]
    if segment < 0:
        return -1, at
    low, high = table[segment, _LOW], table[segment, _HIGH]
    end = min(end, high)
    # What the segment holds beyond these blocks stays in the queue: the deeper part before it, the other one after it.
    if end < high:
        deeper = _made(table, free, atom, end, high)
        _link(table, table[segment, _BEFORE], deeper)
        _hash(table, copies, deeper, segment)
    if low < at:
        upper = _made(table, free, atom, low, at)
        _link(table, segment, upper)
        _hash(table, copies, upper, segment)
    table[segment, _LOW], table[segment, _HIGH] = at, end
    _unlink(table, segment)
    return segment, end


@njit(cache=True)
def _pop(table: Ints, free: Ints, copies: Ints, count: int) -> None:
    """Take `count` slots from the front of the queue; they lose their hashes."""
    while count > 0:
        segment = table[0, _AFTER]
        size = table[segment, _HIGH] - table[segment, _LOW]
        if size > count:
            table[segment, _HIGH] -= count
            return
        count -= size
        _unlink(table, segment)
        _release(table, free, copies, segment)


@njit(cache=True)
def _give_back(table: Ints, free: Ints, copies: Ints, segment: int) -> None:
    """Put a segment at the back of the queue, joined to the last one where that continues it."""
    last = table[0, _BEFORE]
    same = table[last, _ATOM] == table[segment, _ATOM] and table[last, _LOW] == table[segment, _HIGH]
    if last > 0 and same and (table[last, _OLDER] == segment or table[last, _NEWER] == segment):
        table[last, _LOW] = table[segment, _LOW]
        _release(table, free, copies, segment)
    else:
        _link(table, last, segment)


@njit(cache=True)
def _add_empty(table: Ints, free: Ints, count: int, back: bool) -> None:
    """Put `count` slots without a hash at the back or the front of the queue."""
    end = table[0, _BEFORE] if back else table[0, _AFTER]
    if end > 0 and table[end, _ATOM] < 0:
        table[end, _HIGH] += count
    else:
        _link(table, table[0, _BEFORE] if back else 0, _made(table, free, -1, 0, count))


@njit(cache=True)
def _manager(
    parent: Ints,
    blocks: Ints,
    leaf: Ints,
    prompt_tokens: Ints,
    lookup: Ints,
    prompt: Ints,
    cached: Ints,
    prompt_slots: Ints,
    slots: Ints,
    usable: int,
    legacy: bool,
    deepest: int,
) -> tuple[Ints, int, int]:
    n = len(leaf)
    hits = np.zeros(n, np.int64)
    copies = np.full((len(parent), 3), -1, np.int64)
    copies[:, 2] = 0
    table = np.zeros((1024, 7), np.int64)
    table[0, _ATOM] = -1
    free = np.arange(1024, 0, -1)
    free[0] = 1023
    _add_empty(table, free, usable, True)
    mine = np.empty(64, np.int64)
    path = np.empty(deepest + 1, np.int64)
    unschedulable_tokens = 0
    oom = 0
    for r in range(n):
        if prompt_slots[r] > usable:
            hits[r] = -1
            unschedulable_tokens += prompt_tokens[r]
            continue
        count = walk(parent, leaf[r], path)
        # Make room: every copy on the path may be cut twice, and every atom gets one more.
        need = 4
        for i in range(count):
            need += 2 * (2 * copies[path[i], 2] + 1) + 1
        if need > len(mine):
            mine = np.empty(2 * need, np.int64)
        if need > free[0]:
            old = len(table)
            larger = np.zeros((2 * old + need, 7), np.int64)
            larger[:old] = table
            table = larger
            rows = np.empty(len(table), np.int64)
            rows[: free[0] + 1] = free[: free[0] + 1]
            for row in range(old, len(table)):
                rows[0] += 1
                rows[rows[0]] = row
            free = rows
        # Look up to the first miss, and take the slots that hit out of the free queue.
        used, found, depth = 0, 0, 0
        for i in range(count):
            depth += blocks[path[i]]
            if depth > lookup[r]:
                break
            at = 0
            while at < blocks[path[i]]:
                segment, at = _hit(table, free, copies, path[i], at, blocks[path[i]])
                if segment < 0:
                    break
                mine[used] = segment
                used += 1
            found = depth - blocks[path[i]] + at
            if found < depth:
                break
        hits[r] = found
        # A request whose output does not fit ends after prefill.
        runs_out = slots[r] > usable
        total = prompt_slots[r] if runs_out else slots[r]
        full = prompt[r] if runs_out else cached[r]
        oom += 1 if runs_out else 0
        # Prefill and decode take slots from the front of the queue and hash the full ones.
        _pop(table, free, copies, total - found)
        depth = 0
        for i in range(count):
            atom = path[i]
            low, high = max(found - depth, 0), min(full - depth, blocks[atom])
            depth += blocks[atom]
            if low < high:
                mine[used] = _made(table, free, atom, low, high)
                _hash(table, copies, mine[used], copies[atom, 1])
                used += 1
        # Return the slots tail first to the back of the queue; from 0.23 on a slot without a hash goes to the front.
        if total > full:
            _add_empty(table, free, total - full, legacy)
        for i in range(used - 1, -1, -1):
            _give_back(table, free, copies, mine[i])
    return hits, unschedulable_tokens, oom
