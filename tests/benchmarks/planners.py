"""Ten million synthetic requests into a dataset, and exports of a smaller one: times, memory, ratios. Run by hand.

python tests/benchmarks/planners.py [REQUESTS]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from traces.intake.demo import demo_inputs
from traces.intake.ingest import Options, ingest


def timed(words: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of a command in a process of its own."""
    program = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, capture_output=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True, text=True)
    return time.perf_counter() - start, int(done.stdout) / 1024


def main() -> None:
    """Print one line a measurement."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    tracetower = str(Path(sys.executable).with_name("tracetower"))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ingest(demo_inputs(), folder / "demo", Options())
        seconds, peak = timed([tracetower, "profile", str(folder / "demo"), "-o", str(folder / "p.json")])
        per_session = json.loads((folder / "p.json").read_text())["coverage"]
        rate = per_session["requests"] / per_session["main_sessions"]
        print(f"profile of {per_session['requests']:,} requests: {seconds:.1f} s, {peak:,.0f} MB")
        for share in (100, 10, 1):
            count = wanted // share
            out = folder / f"synth-{share}"
            sessions = max(1, round(count / rate))
            seconds, peak = timed(
                [tracetower, "synth", str(folder / "p.json"), "-o", str(out), "--sessions", str(sessions)]
            )
            size = sum(p.stat().st_size for p in out.rglob("*") if p.is_file()) / 1e6
            print(f"synth {count:,} requests: {seconds:.1f} s, {peak:,.0f} MB peak, {size:,.0f} MB on disk")
        for to in ("weka", "mooncake", "mooncake-delta", "agentic-mooncake"):
            path = str(folder / to)
            seconds, peak = timed([tracetower, "export", str(folder / "synth-100"), "--to", to, "-o", path])
            print(f"export of {wanted // 100:,} requests as {to}: {seconds:.1f} s, {peak:,.0f} MB peak")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


if __name__ == "__main__":
    main()
