"""The routing replay against Dynamo's offline replay: same trace, same policy, same run. Run by hand.

python -m tests.benchmarks.dynamo PYTHON [REQUESTS]: a Python that has ai-dynamo-runtime (1.6.1 was used).

Both are warm: each has replayed the whole trace once before, in its process, and what is compiled is compiled. Then
they take turns, so that other programs slow both down alike, and medians count. Wall time is Dynamo's own for the
replay without reading the file, and ours from the tree in memory to the figures. CPU seconds are the process's, over
all its threads; Dynamo's include reading the file, which it does anew each time. Its log, a line for each request, is
off. It also simulates decoding step by step, of 50 tokens an answer here.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from analysis.fleet.load_figures import cell_figures
from analysis.fleet.routing import Cell, Trace
from tests.benchmarks.routing import sessions_trace

BLOCK, WORKERS, BLOCKS_EACH = 64, 8, 16_384
MODES = {"round_robin": "round_robin", "dynamo_kv": "kv_router"}

TURNS = 5

THEIRS = """
import json, sys, time
from dynamo._core import run_mocker_trace_replay
path, workers, blocks, block, mode = sys.argv[1:]
engine = {"engine": {"num_gpu_blocks": int(blocks), "block_size": int(block), "max_num_seqs": 4096}}
for line in sys.stdin:
    began = time.process_time()
    out = run_mocker_trace_replay(
        [path], engine, num_workers=int(workers), router_mode=mode, trace_block_size=int(block)
    ).summary
    cpu = time.process_time() - began
    print(json.dumps([out["wall_time_ms"] / 1000, cpu, out["prefix_cache_reused_ratio"]]), flush=True)
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
    """Print requests per second of wall and of CPU time of both, and their ratios, per policy."""
    python, requests = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    trace = sessions_trace(requests, growth=300)
    count = len(trace.leaf)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows(trace)))
        for name, mode in MODES.items():
            command = [python, "-c", THEIRS, str(path), str(WORKERS), str(BLOCKS_EACH), str(BLOCK), mode]
            cell = Cell(name, WORKERS, BLOCKS_EACH * BLOCK, service="recorded", insert="finish")
            ours, theirs = [], []
            quiet = {**os.environ, "DYN_LOG": "error"}
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=quiet
            ) as dynamo:
                assert dynamo.stdin is not None
                assert dynamo.stdout is not None
                for _ in range(1 + TURNS):
                    dynamo.stdin.write("go\n")
                    dynamo.stdin.flush()
                    line = next(line for line in dynamo.stdout if line.startswith("["))
                    theirs.append(json.loads(line))
                    wall, cpu = time.perf_counter(), time.process_time()
                    figures = cell_figures(trace, cell)
                    ours.append((time.perf_counter() - wall, time.process_time() - cpu))
                dynamo.stdin.close()
            mine, other = (
                [statistics.median(turn[k] for turn in turns[1:]) for k in range(2)] for turns in (ours, theirs)
            )
            print(
                f"{name:<12}{count:,} requests   wall: ours {count / mine[0]:9,.0f} a second, Dynamo"
                f" {count / other[0]:7,.0f}, {other[0] / mine[0]:.0f} x   CPU: ours {count / mine[1]:9,.0f}, Dynamo"
                f" {count / other[1]:7,.0f}, {other[1] / mine[1]:.0f} x   hit rate {figures['hit_rate']:.3f}, Dynamo"
                f" {theirs[0][2]:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
