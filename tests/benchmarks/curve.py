"""`curve` from a cold process, the kernel pass alone, one capacity from the events table; against kvcache-simulator.

    python tests/benchmarks/curve.py [--peer]

Needs the dataset and trace that tests/benchmarks/reading/ingest.py made (run it first). --peer installs
kvcache-simulator 0.1.3 in an environment of its own and runs it with seven LRU budgets on the same trace.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(tempfile.gettempdir()) / "tracetower-bench"
TRACE = FOLDER / "agent2000.sid.jsonl"
BIN = Path(sys.executable).parent
BUDGETS = "32,128,512,1024,2048,4096,8192"
PEER = ["run", "--model", "llama-3.1-8b", "--kv-precision", "bf16_fp16", "--block-size", "64", "--policies", "lru"]


def seconds(*command: object) -> float:
    """Wall seconds of a command."""
    start = time.perf_counter()
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def kernel_ms(dataset: Path) -> float:
    """The kernel pass on arrays at hand, best of five."""
    from analysis.kernel.reuse import reuse
    from analysis.store.arrivals import parse
    from analysis.store.facts import arrive, load
    from traces.dataset.layout import Dataset

    loaded = load(Dataset(dataset))
    arrived = arrive(loaded, parse("recorded"))
    tree = loaded.tree
    best = 1e9
    for _ in range(5):
        start = time.perf_counter()
        reuse(tree.parent, tree.start, tree.end, loaded.leaf, arrived.order, arrived.arrival_s, 64, None, loaded.paths)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def look_up_ms(dataset: Path) -> float:
    """Any one capacity from the kept events table, worst of twenty."""
    from analysis.headline.curves import hit_tokens_at
    from analysis.store.question import Question
    from analysis.store.warehouse import open_dataset

    warehouse, question = open_dataset(dataset), Question(block_size=64)
    hit_tokens_at(warehouse, question, 1)
    worst = 0.0
    for capacity in range(1000, 400_000, 20_000):
        start = time.perf_counter()
        hit_tokens_at(warehouse, question, capacity)
        worst = max(worst, time.perf_counter() - start)
    return worst * 1e3


def peer_seconds() -> float:
    """kvcache-simulator on the same trace, LRU, seven budgets."""
    venv = FOLDER / "kvcache-simulator"
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", "kvcache-simulator==0.1.3"], check=True)
    tool = venv / "bin" / "kvcache-simulator"
    out = FOLDER / "peer.json"
    return seconds(
        tool, *PEER, "--trace", TRACE, "--budgets-gib", BUDGETS, "--format", "json", "--output", out, "--no-progress"
    )


def main() -> None:
    """Print times and ratios of one run."""
    tool, dataset = BIN / "tracetower", FOLDER / "curve"
    shutil.rmtree(dataset, ignore_errors=True)
    took = {"ingest": seconds(tool, "ingest", TRACE, "--block-size", "64", "-o", dataset)}
    took["report"] = seconds(tool, "report", dataset, "--json")
    shutil.rmtree(dataset / "cache", ignore_errors=True)
    took["curve, cold process, nothing cached"] = seconds(tool, "curve", dataset, "--json")
    took["curve, cold process, runs cached"] = seconds(tool, "curve", dataset, "--json")
    for name, value in took.items():
        print(f"{name}: {value:.2f} s")
    print(f"kernel pass: {kernel_ms(dataset):.1f} ms; one capacity from the events table: {look_up_ms(dataset):.1f} ms")
    if "--peer" in sys.argv:
        ours = took["ingest"] + took["report"] + took["curve, cold process, nothing cached"]
        theirs = peer_seconds()
        rates = json.loads((FOLDER / "peer.json").read_text("utf-8"))
        print(f"kvcache-simulator 0.1.3, seven LRU budgets: {theirs:.1f} s; ingest + report + curve {ours:.1f} s: "
              f"{theirs / ours:.1f} × ({len(str(rates)):,} characters of its output kept)")  # fmt: skip


if __name__ == "__main__":
    main()
