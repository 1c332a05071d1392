"""The routing replay against Dynamo's offline replay: same trace, same policy, same run. Run by hand.

python -m tests.benchmarks.dynamo PYTHON [REQUESTS]: a Python that has ai-dynamo-runtime (1.6.1 was used). Dynamo's
seconds are the ones it reports for the replay itself, without reading the trace; it also simulates decoding step by
step, of 50 tokens an answer here. The best of three of each counts, for other programs only make a run slower.
"""

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from analysis.load_figures import cell_figures
from analysis.routing import Cell, Trace
from tests.benchmarks.routing import sessions_trace

BLOCK, WORKERS, BLOCKS_EACH = 64, 8, 16_384
MODES = {"round_robin": "round_robin", "dynamo_kv": "kv_router"}

THEIRS = """
import json, sys
from dynamo._core import run_mocker_trace_replay
path, workers, blocks, block, mode = sys.argv[1:]
engine = {"engine": {"num_gpu_blocks": int(blocks), "block_size": int(block), "max_num_seqs": 4096}}
outs = [
    run_mocker_trace_replay([path], engine, num_workers=int(workers), router_mode=mode, trace_block_size=int(block))
    for _ in range(3)
]
seconds = min(out.summary["wall_time_ms"] for out in outs) / 1000
print(json.dumps([seconds, outs[0].summary["prefix_cache_reused_ratio"]]))
"""


def rows(trace: Trace) -> list[dict[str, object]]:
    """The trace as Mooncake rows; a node's blocks are numbered from its own ids on."""
    first = np.concatenate([[0], np.cumsum(np.asarray(trace.end) // BLOCK + 1)])
    ids: dict[int, list[int]] = {0: []}

    def path(node: int) -> list[int]:
        if node not in ids:
            above = path(int(trace.parent[node]))
            full = int(trace.end[node]) // BLOCK
            ids[node] = above[: int(trace.start[node]) // BLOCK] + [
                int(first[node]) + k for k in range(full - int(trace.start[node]) // BLOCK)
            ]
        return ids[node]

    out: list[dict[str, object]] = []
    for i in trace.order:
        found = path(int(trace.leaf[i]))
        out.append(
            {"timestamp": round(1000 * float(trace.arrival_s[i])), "input_length": BLOCK * len(found),
             "output_length": 50, "hash_ids": found}
        )  # fmt: skip
    return out


def main() -> None:
    """Print requests per second of both, and their ratio, per policy."""
    python, requests = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    trace = sessions_trace(requests, growth=300)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows(trace)))
        for name, mode in MODES.items():
            command = [python, "-c", THEIRS, str(path), str(WORKERS), str(BLOCKS_EACH), str(BLOCK), mode]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            theirs, their_rate = json.loads(done.stdout.splitlines()[-1])
            cell = Cell(name, WORKERS, BLOCKS_EACH * BLOCK, service="recorded", insert="finish")
            cell_figures(trace, cell)  # compile
            ours = math.inf
            for _ in range(3):
                began = time.perf_counter()
                figures = cell_figures(trace, cell)
                ours = min(ours, time.perf_counter() - began)
            count = len(trace.leaf)
            print(
                f"{name:<12}ours {count / ours:10,.0f} requests/s, hit rate {figures['hit_rate']:.3f}"
                f"   Dynamo {count / theirs:8,.0f}, {their_rate:.3f}   {theirs / ours:.1f} x",
                flush=True,
            )


if __name__ == "__main__":
    main()
