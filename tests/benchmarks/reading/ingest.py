"""Ingest of block-hash traces against `orjson.loads` of the same lines, and resident memory over its base.

    python tests/benchmarks/reading/ingest.py [SESSIONS] [--sid | --no-sid]

Makes the trace with ../shared/tools/gen_traces.py (agent SESSIONS; 2000 is 79k requests, 72 M block references and
500 MB).
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson

from traces.intake.ingest import Options, ingest

TOOL = Path(__file__).resolve().parents[3].parent / "shared" / "tools" / "gen_traces.py"
SMALL = b'{"timestamp": 0, "input_length": 130, "output_length": 1, "hash_ids": [1, 2, 3], "session_id": "a"}\n'


def trace(folder: Path, sessions: int, sid: bool) -> Path:
    """The generated trace, made once."""
    path = folder / f"agent{sessions}{'.sid' if sid else ''}.jsonl"
    if not path.exists():
        subprocess.run([sys.executable, TOOL, "agent", path, str(sessions), *(["--sid"] if sid else [])], check=True)
    return path


def resident_mb() -> float:
    """The most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def now() -> tuple[float, float]:
    """Wall and CPU seconds (CPU is the steadier of the two on a shared machine)."""
    return time.perf_counter(), time.process_time()


def parse_seconds(path: Path) -> tuple[float, float]:
    """The baseline: every line through orjson.loads; wall and CPU seconds."""
    start = now()
    with path.open("rb") as lines:
        for line in lines:
            orjson.loads(line)
    end = now()
    return end[0] - start[0], end[1] - start[1]


def main() -> None:
    """Print the ratio of one run each."""
    sessions = next((int(a) for a in sys.argv[1:] if a.isdigit()), 2000)
    sid = "--no-sid" not in sys.argv
    folder = Path(tempfile.gettempdir()) / "tracetower-bench"
    folder.mkdir(exist_ok=True)
    path = trace(folder, sessions, sid)
    warm = folder / "warm.jsonl"
    warm.write_bytes(SMALL * 3)
    for name in ("warm", "out"):
        shutil.rmtree(folder / name, ignore_errors=True)
    ingest([str(warm)], folder / "warm", Options(block_tokens=64))
    with path.open("rb") as file:  # both read from memory
        while file.read(1 << 20):
            pass
    base = resident_mb()
    start = now()
    receipt = ingest([str(path)], folder / "out", Options(block_tokens=64))
    end = now()
    took, cpu = end[0] - start[0], end[1] - start[1]
    over = resident_mb() - base
    baseline, baseline_cpu = parse_seconds(path)
    size = path.stat().st_size / 1e6
    print(
        f"{path.name}: {receipt['requests']:,} requests, {size:,.0f} MB; ingest {took:.2f} s "
        f"({size / took:,.0f} MB/s), "
        f"orjson.loads {baseline:.2f} s: ratio {took / baseline:.2f} "
        f"(CPU {cpu:.2f} / {baseline_cpu:.2f} s: {cpu / baseline_cpu:.2f}); {over:.0f} MB over a base of {base:.0f} MB"
    )


if __name__ == "__main__":
    main()
