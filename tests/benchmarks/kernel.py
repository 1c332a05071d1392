"""How fast the reuse kernel is: `python tests/benchmarks/kernel.py [REQUESTS ...]` (default 79000 and 1000000).

Prints ratios of one run on one machine: kernel against a per-block replay of one capacity, and per request by size and
by turns, which should stay flat.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from analysis.kernel.heavy_paths import HeavyPaths, heavy_paths
from analysis.kernel.reuse import Reuse, reuse
from analysis.kernel.sorted_runs import capacity_curve, capacity_grid, hit_blocks_at, needed_blocks

BLOCK = 64
HEADS = 5  # agents, each with a head of its own that all their sessions share
HEAD_BLOCKS = 200


class Tower(NamedTuple):
    """Sessions that append to their prompt each turn; every prompt ends in a private partial block."""

    parent: Any
    start: Any
    end: Any
    leaf: Any
    order: Any
    arrival_s: Any
    session: Any


def tower(requests: int, turns: int, seed: int = 1) -> Tower:
    """Node ids: root, heads, then for each session and turn its grown blocks and its tail."""
    random = np.random.default_rng(seed)
    sessions = requests // turns
    grown = random.geometric(1 / 35, (sessions, turns)) * BLOCK
    tip = HEAD_BLOCKS * BLOCK + np.cumsum(grown, axis=1)
    tail = random.integers(1, BLOCK, (sessions, turns))
    first = 1 + HEADS
    node = first + 2 * np.arange(sessions * turns).reshape(sessions, turns)
    above = np.empty_like(node)
    above[:, 0] = 1 + random.integers(0, HEADS, sessions)
    above[:, 1:] = node[:, :-1]
    count = first + 2 * sessions * turns
    parent, start, end = (np.zeros(count, np.int64) for _ in range(3))
    parent[0], end[1:first] = -1, HEAD_BLOCKS * BLOCK
    parent[first::2], start[first::2], end[first::2] = above.ravel(), (tip - grown).ravel(), tip.ravel()
    parent[first + 1 :: 2], start[first + 1 :: 2], end[first + 1 :: 2] = node.ravel(), tip.ravel(), (tip + tail).ravel()
    gaps = random.lognormal(np.log(9), 1.0, (sessions, turns))
    arrival = (random.uniform(0, requests / 5, (sessions, 1)) + np.cumsum(gaps, axis=1)).ravel()
    order = np.argsort(arrival, kind="stable")
    return Tower(parent, start, end, node.ravel() + 1, order, arrival, np.repeat(np.arange(sessions), turns))


def timed(work: Callable[[], Any], repeat: int = 3) -> tuple[float, Any]:
    """Best wall time in seconds, and the result."""
    best, result = float("inf"), None
    for _ in range(repeat):
        begin = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - begin)
    return best, result


def kernel(load: Tower, paths: HeavyPaths | None = None, session: Any = None) -> Reuse:
    return reuse(load.parent, load.start, load.end, load.leaf, load.order, load.arrival_s, BLOCK, session, paths)


def replay(load: Tower, capacity: int) -> int:
    """Hit blocks of one capacity, block by block."""
    chain: dict[int, list[tuple[int, int]]] = {0: []}

    def blocks(node: int) -> list[tuple[int, int]]:
        if node not in chain:
            own = range(load.start[node] // BLOCK, load.end[node] // BLOCK)
            chain[node] = blocks(int(load.parent[node])) + [(node, i) for i in own]
        return chain[node]

    held: OrderedDict[tuple[int, int], None] = OrderedDict()
    hits = 0
    for row in load.order:
        wanted = blocks(int(load.leaf[row]))
        for block in wanted:
            if block not in held:
                break
            hits += 1
        for block in reversed(wanted):
            held[block] = None
            held.move_to_end(block)
        while len(held) > capacity:
            held.popitem(last=False)
    return hits


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or [79_000, 1_000_000]
    kernel(tower(80, 40), session=np.repeat([0, 1], 40))  # compile, or load what was compiled
    small = tower(2_000, 40)
    capacity = 16_384
    slow, expected = timed(lambda: replay(small, capacity), 1)
    fast, found = timed(lambda: kernel(small))
    assert int(np.clip(capacity - found.distance_blocks, 0, found.blocks).sum()) == expected
    print(
        f"{len(small.leaf):,} requests: one capacity block by block {slow / fast:,.0f} x the kernel for all capacities"
    )

    print("turns  steps/request  time/request")
    base = None
    for turns in (25, 100, 400):
        load = tower(80_000, turns)
        seconds, found = timed(lambda load=load: kernel(load))  # type: ignore[misc]
        base = base or seconds
        print(f"{turns:5}  {found.steps / len(load.leaf):13.2f}  {seconds / base:10.2f} x")

    base = None
    print("requests  block references  kernel s  time/request  heavy paths  with sessions  events  all capacities  MB")
    for size in sizes:
        load = tower(size, 40)
        cutting, cut = timed(lambda load=load: heavy_paths(load.parent, load.start), 1)  # type: ignore[misc]
        seconds, found = timed(lambda load=load, cut=cut: kernel(load, cut), 3 if size < 10**6 else 1)  # type: ignore[misc]
        per_request = seconds / len(load.leaf)
        base = base or per_request
        both, _ = timed(lambda load=load, cut=cut: kernel(load, cut, load.session), 1)  # type: ignore[misc]
        sorting, table = timed(lambda found=found: capacity_curve(found.distance_blocks, found.blocks), 1)  # type: ignore[misc]
        curve, _ = timed(lambda table=table: hit_blocks_at(table, capacity_grid(needed_blocks(table))), 1)  # type: ignore[misc]
        print(
            f"{len(load.leaf):8,}  {int(found.full_blocks.sum()):16,}  {seconds:8.3f}  {per_request / base:10.2f} x"
            f"  {cutting / seconds:9.2f} x  {both / seconds:11.2f} x  {sorting / seconds:4.2f} x"
            f"  {curve / seconds:12.4f} x"
            f"  {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,}"
        )


if __name__ == "__main__":
    main()
