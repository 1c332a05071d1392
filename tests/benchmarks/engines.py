"""Speed of the engine definitions against the engines' own block managers on the same trace. Run by hand.

    python tests/benchmarks/engines.py

The managers' rates (requests a second for one capacity, one job at a time) were measured on the same kind of machine:
vLLM's KVCacheManager 583 (block 16) and 1,757 (block 64), SGLang's RadixCache 1,450 / 662 / 621 (page 1 / 16 / 64).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from analysis.peers.engines import sglang, vllm, vllm_distances  # noqa: E402 (run as a script, from any folder)
from analysis.peers.engines.paths import BlockPaths, block_paths  # noqa: E402

CAPACITY_TOKENS = 262_144
VLLM_RATES = {16: 583, 64: 1757}
SGLANG_RATES = {1: 1450, 16: 662, 64: 621}


def best(run: Callable[[], object], times: int = 5) -> float:
    """Least seconds of several runs, after one that compiles."""
    run()
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found)


def report(name: str, requests: int, seconds: float, theirs: float) -> None:
    rate = requests / seconds
    print(f"{name:<34} {seconds * 1e3:>8.1f} ms {rate:>12,.0f} requests/s {rate / theirs:>8.0f} x the engine's manager")


def main() -> None:
    with np.load(ROOT / "tests" / "samples" / "engines" / "agents.npz") as data:
        a = {k: v.astype(np.int64) for k, v in data.items()}
    order = np.arange(len(a["leaf"]))

    def paths(block: int) -> BlockPaths:
        return block_paths(
            a["parent"], a["start"], a["end"], a["leaf"], order, a["output_tokens"], block, a["reply_leaf"]
        )

    for block, theirs in VLLM_RATES.items():
        p = paths(block)
        sizes = [CAPACITY_TOKENS // block + 1]
        report(f"block {block}: paths", p.requests, best(lambda b=block: paths(b)), theirs)
        report(
            f"vllm block {block}, exact replay",
            p.requests,
            best(lambda p=p, s=sizes: vllm.replay(p, s, method="replay")),
            theirs,
        )
        seconds = best(lambda p=p: vllm_distances.stack_distances(p))
        report(f"vllm block {block}, all capacities", p.requests, seconds, theirs)
    for page, theirs in SGLANG_RATES.items():
        p = paths(page)
        report(f"sglang page {page}", p.requests, best(lambda p=p: sglang.replay(p, [CAPACITY_TOKENS])), theirs)


if __name__ == "__main__":
    main()
