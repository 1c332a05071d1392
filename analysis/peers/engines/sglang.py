"""SGLang's RadixCache, requests one after another, LRU (sglang/srt/mem_cache/radix_cache.py and allocator, 0.5.23).

SGLang evicts whole leaves, so it may free more than it needs. That is not a stack algorithm, so every capacity is
replayed. A look-up updates the time of every node on its path, including a node that it matches in part; when a node is
split, its upper half is younger than its lower half. Nothing is evicted while the pool has room. Prefill requests its
tokens and one page more than it needs, decode exact pages. The prompt is inserted after prefill, prompt and output
again at the end; the last token sampled has no KV. Pages that the tree holds already are freed, unlike in vLLM. The
default UnifiedRadixCache gives the same results.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from analysis.peers.engines.outcome import Replay
from analysis.peers.engines.paths import BlockPaths, Ints, deepest_path, walk
from traces.tree.compiled import njit


def replay(paths: BlockPaths, capacity_tokens: Sequence[int]) -> list[Replay]:
    """What SGLang hits at each capacity (tokens of the KV pool).

    `paths` must be built at the page size (1 by default in SGLang; then hits are exact to the token). Raises
    ValueError for a capacity below one page.
    """
    page = paths.block_tokens
    out = []
    for tokens in capacity_tokens:
        pages = int(tokens) // page
        if pages < 1:
            raise ValueError(f"capacity {tokens} tokens is less than one page of {page} tokens")
        hits, lost, oom = _radix(
            paths.parent, paths.blocks, paths.leaf, paths.prompt_tokens, paths.lookup, paths.prompt, paths.cached,
            paths.prompt_slots, paths.slots, pages * page, page, deepest_path(paths.parent, paths.leaf),
        )  # fmt: skip
        reason = "leaf-granular eviction is not a stack algorithm"
        out.append(Replay(pages, page, np.maximum(hits, 0), hits >= 0, int(lost), int(oom), "replay", reason))
    return out


# Columns of the node table of the simulated radix tree.
_PARENT, _CHILDREN, _TIME, _PAGES, _BOTTOM = 0, 1, 2, 3, 4
# Cells of the state vector.
_CLOCK, _AVAILABLE, _FREE_NODES = 0, 1, 2


@njit(cache=True)
def _new_node(nodes: Ints, free: Ints, state: Ints, parent: int, pages: int, bottom: int) -> int:
    state[_FREE_NODES] -= 1
    node = free[state[_FREE_NODES]]
    state[_CLOCK] += 1
    nodes[node, _PARENT] = parent
    nodes[node, _CHILDREN] = 0
    nodes[node, _TIME] = state[_CLOCK]
    nodes[node, _PAGES] = pages
    nodes[node, _BOTTOM] = bottom
    return node


@njit(cache=True)
def _touch(
    nodes: Ints, free: Ints, state: Ints, parent: Ints, blocks: Ints, holder: Ints, path: Ints, wanted: int
) -> tuple[int, int]:
    """Walk down the cached tree along the first `wanted` atoms of a path. Updates times; splits a node matched in part.

    Returns (atoms matched, node reached; -1 at the root).
    """
    state[_CLOCK] += 1
    now = state[_CLOCK]
    reached = -1
    i = 0
    while i < wanted:
        node = holder[path[i]]
        if node < 0:
            break
        nodes[node, _TIME] = now
        # Count the pages of this node that the path matches.
        pages = 0
        while i < wanted and holder[path[i]] == node:
            pages += blocks[path[i]]
            i += 1
        # A part of the node matches: a new upper node takes the matched pages and their atoms.
        if pages < nodes[node, _PAGES]:
            cut = path[i - 1]
            upper = _new_node(nodes, free, state, nodes[node, _PARENT], pages, cut)
            nodes[upper, _CHILDREN] = 1
            nodes[node, _PARENT] = upper
            nodes[node, _PAGES] -= pages
            atom = cut
            while atom >= 0 and holder[atom] == node:
                holder[atom] = upper
                atom = parent[atom]
            return i, upper
        reached = node
    return i, reached


@njit(cache=True)
def _insert(
    nodes: Ints, free: Ints, state: Ints, parent: Ints, blocks: Ints, holder: Ints, path: Ints, wanted: int
) -> tuple[int, int, int]:
    """Insert the first `wanted` atoms. Returns (last node, pages added, the new leaf or -1)."""
    matched, node = _touch(nodes, free, state, parent, blocks, holder, path, wanted)
    if matched == wanted:
        return node, 0, -1
    # All atoms that did not match become one leaf.
    pages = 0
    for i in range(matched, wanted):
        pages += blocks[path[i]]
    leaf = _new_node(nodes, free, state, node, pages, path[wanted - 1])
    for i in range(matched, wanted):
        holder[path[i]] = leaf
    if node >= 0:
        nodes[node, _CHILDREN] += 1
    return leaf, pages, leaf


@njit(cache=True)
def _radix(
    parent: Ints,
    blocks: Ints,
    leaf: Ints,
    prompt_tokens: Ints,
    lookup: Ints,
    prompt: Ints,
    cached: Ints,
    prompt_slots: Ints,
    slots: Ints,
    capacity: int,
    page: int,
    deepest: int,
) -> tuple[Ints, int, int]:
    n = len(leaf)
    hits = np.zeros(n, np.int64)
    atoms = len(parent)
    holder = np.full(atoms, -1, np.int64)  # the cache node that holds each atom; -1: not cached
    room = atoms + 2  # every node of the cache holds at least one atom
    nodes = np.zeros((room, 5), np.int64)
    nodes[:, _BOTTOM] = -1
    free = np.arange(room - 1, -1, -1)
    state = np.zeros(3, np.int64)
    state[_AVAILABLE] = capacity
    state[_FREE_NODES] = room
    heap = [(np.int64(0), np.int64(0))]
    heap.pop()
    path = np.empty(deepest + 1, np.int64)
    unschedulable_tokens = 0
    oom = 0
    for r in range(n):
        count = walk(parent, leaf[r], path)
        # Count the atoms up to the look-up limit and up to the prompt's last full page; atoms end at both.
        depth = 0
        limit = 0
        whole = 0
        for i in range(count):
            depth += blocks[path[i]]
            if depth <= lookup[r]:
                limit = i + 1
            if depth <= prompt[r]:
                whole = i + 1
        # Look up, and lock the node reached: eviction spares it.
        matched, locked = _touch(nodes, free, state, parent, blocks, holder, path, limit)
        pages = 0
        for i in range(matched):
            pages += blocks[path[i]]
        # Make room for prefill; SGLang asks for one page more than it needs.
        extend = prompt_tokens[r] - pages * page
        demand = extend if page == 1 else extend + page
        if state[_AVAILABLE] < demand:
            _evict(nodes, free, state, parent, holder, heap, demand - state[_AVAILABLE], locked, page)
        taken = (prompt_slots[r] - pages) * page
        # No room even after eviction: the request is not scheduled. Its node is unlocked and may be evicted later.
        if state[_AVAILABLE] < taken:
            hits[r] = -1
            unschedulable_tokens += prompt_tokens[r]
            if locked >= 0 and nodes[locked, _CHILDREN] == 0:
                heapq.heappush(heap, (nodes[locked, _TIME], np.int64(locked)))
            continue
        # Prefill takes its pages and inserts the prompt's full pages.
        hits[r] = pages
        state[_AVAILABLE] -= taken
        last, added, fresh = _insert(nodes, free, state, parent, blocks, holder, path, whole)
        # Pages that the tree already held are freed, added pages stay. The request keeps its partial page.
        state[_AVAILABLE] += (prompt[r] - pages - added) * page
        if fresh >= 0:
            heapq.heappush(heap, (nodes[fresh, _TIME], np.int64(fresh)))
        # Lock the whole prompt and make room for the output.
        _, locked = _touch(nodes, free, state, parent, blocks, holder, path, whole)
        growth = (slots[r] - prompt_slots[r]) * page
        if state[_AVAILABLE] < growth:
            _evict(nodes, free, state, parent, holder, heap, growth - state[_AVAILABLE], locked, page)
        partial = (prompt_slots[r] - prompt[r]) * page
        # The request ends: without room for its output it leaves the prompt, otherwise prompt and output.
        if state[_AVAILABLE] < growth:
            oom += 1
            state[_AVAILABLE] += partial
            last = locked
        else:
            last, added, fresh = _insert(nodes, free, state, parent, blocks, holder, path, count)
            state[_AVAILABLE] += partial - added * page
        # Its last node is unlocked: as a leaf it can be evicted.
        if last >= 0 and nodes[last, _CHILDREN] == 0:
            heapq.heappush(heap, (nodes[last, _TIME], np.int64(last)))
    return hits, unschedulable_tokens, oom


@njit(cache=True)
def _evict(
    nodes: Ints,
    free: Ints,
    state: Ints,
    parent: Ints,
    holder: Ints,
    heap: list[tuple[np.int64, np.int64]],
    short: int,
    locked: int,
    page: int,
) -> None:
    """Free whole leaves, least recently used first, until `short` tokens are gained or no leaf is left.

    Heap entries may be out of date. A node's time only grows, so an outdated entry comes out too early and is pushed
    again with the current time.
    """
    gained = 0
    while gained < short and len(heap) > 0:
        time, node = heapq.heappop(heap)
        if nodes[node, _BOTTOM] < 0 or nodes[node, _CHILDREN] > 0 or node == locked:
            continue
        if nodes[node, _TIME] != time:
            heapq.heappush(heap, (nodes[node, _TIME], node))
            continue
        # The leaf's atoms are no longer cached, its pages are available.
        atom = nodes[node, _BOTTOM]
        while atom >= 0 and holder[atom] == node:
            holder[atom] = -1
            atom = parent[atom]
        gained += nodes[node, _PAGES] * page
        state[_AVAILABLE] += nodes[node, _PAGES] * page
        # The node returns to the free list; its parent may have become a leaf.
        above = nodes[node, _PARENT]
        nodes[node, _BOTTOM] = -1
        free[state[_FREE_NODES]] = node
        state[_FREE_NODES] += 1
        if above >= 0:
            nodes[above, _CHILDREN] -= 1
            if nodes[above, _CHILDREN] == 0 and above != locked:
                heapq.heappush(heap, (nodes[above, _TIME], above))
