"""Where tokens go, block by block: a linked-list LRU and dictionaries, nothing shared with the kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numba import njit

from tests.references import naive


def expected(
    prompts: Sequence[Sequence[Hashable] | None],
    order: Sequence[int],
    block: int,
    capacity: int | None,
    ttl: float | None,
    arrival: Sequence[float],
    computed: Sequence[float] | None,
    rewritten_end: Sequence[int],
) -> list[dict[str, int]]:
    """The causes of each prompt's tokens in one cache. `computed`: a prompt's blocks are touched then, else at once."""
    stack: list[Any] = []  # least recent first
    touched: dict[Any, float] = {}
    found: list[dict[str, int]] = [{} for _ in prompts]
    finished: set[int] = set()
    for place, row in enumerate(order):
        prompt = prompts[row] or ""
        if computed is not None:
            late = [o for o in order[:place] if o not in finished and computed[o] <= arrival[row]]
            for other in sorted(late, key=lambda o: (computed[o], order.index(o))):
                finished.add(other)
                for b in reversed(naive.blocks_of(prompts[other], block)):
                    stack = [s for s in stack if s != b] + [b]
                    touched[b] = computed[other]
        earlier = [prompts[o] or "" for o in order[:place]]
        match = max((naive.lcp(o, prompt) for o in earlier), default=0)
        flying = [] if computed is None else [o for o in order[:place] if computed[o] > arrival[row]]
        running = max((naive.lcp(prompts[o] or "", prompt) // block for o in flying), default=0)
        cached = stack if capacity is None else stack[max(0, len(stack) - capacity) :]
        causes = dict.fromkeys(("hit", "in_flight", "ttl", "capacity"), 0)
        for i, b in enumerate(naive.blocks_of(prompt, block)[: match // block]):
            fresh = b in touched and (ttl is None or arrival[row] - touched[b] <= ttl)
            if fresh and b in cached:
                causes["hit"] += block
            elif i < running:
                causes["in_flight"] += block
            else:
                causes["capacity" if fresh else "ttl"] += block
        causes["block_rounding"] = match % block
        causes["rewritten"] = max(0, rewritten_end[row] - match)
        causes["first_seen"] = len(prompt) - match - causes["rewritten"]
        found[row] = causes
        if computed is None:
            for b in reversed(naive.blocks_of(prompt, block)):
                stack = [s for s in stack if s != b] + [b]
                touched[b] = arrival[row]
    return found


@njit(cache=True)
def replay(
    parent: Any, end: Any, leaf: Any, order: Any, arrival: Any, block: int, capacity: int, ttl: float, out: Any
) -> None:
    """Blocks of each request by what became of them (hit, ttl, capacity) and tokens matched, in `out` int64[r, 4].

    A node of the tree is a unit of the trace; a block is the node at whose end it ends, and nodes do not cross blocks.
    """
    nodes = len(parent)
    seen = np.zeros(nodes, np.bool_)
    last = np.zeros(nodes)
    newer, older = np.full(nodes, -1, np.int64), np.full(nodes, -1, np.int64)
    inside = np.zeros(nodes, np.bool_)
    newest, oldest, size = -1, -1, 0
    for row in order:
        node = leaf[row]
        at = node
        while at > 0:
            if seen[at]:
                out[row, 3] = max(out[row, 3], end[at])
                if end[at] % block == 0:
                    if arrival[row] - last[at] > ttl:
                        out[row, 1] += 1
                    elif not inside[at]:
                        out[row, 2] += 1
                    else:
                        out[row, 0] += 1
            at = parent[at]
        at = node
        while at > 0:  # leaf to root: last block first
            seen[at] = True
            if end[at] % block == 0:
                last[at] = arrival[row]
                if inside[at]:
                    if newest != at:
                        up, down = newer[at], older[at]
                        older[up] = down
                        if down >= 0:
                            newer[down] = up
                        else:
                            oldest = up
                else:
                    inside[at] = True
                    size += 1
                if newest != at:
                    older[at] = newest
                    newer[at] = -1
                    if newest >= 0:
                        newer[newest] = at
                    else:
                        oldest = at
                    newest = at
            at = parent[at]
        while size > capacity:
            gone = oldest
            oldest = newer[gone]
            if oldest >= 0:
                older[oldest] = -1
            else:
                newest = -1
            inside[gone] = False
            size -= 1
