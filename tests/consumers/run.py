"""Do the consumers accept what we write? Each runs in an environment of its own, made from the package registry.

    python tests/consumers/run.py [--all] [--home FOLDER]

Without --all: kvcache-simulator and AIPerf, a minute or two once their environments are there (AIPerf's takes 800 MB).
With it also AISimulate, inference-perf, GuideLLM, genai-bench, SGLang's loaders and the columns that Vidur documents.
Environments are kept in --home (~/.cache/tracetower-consumers). Prints a row per check and exits 1 where one fails; a
skip says why.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TRACETOWER = Path(sys.executable).with_name("tracetower")
BUDGETS_GIB = (1 / 128, 2 / 128, 0.25, 1, 2, 4, 8, 12, 16, 20, 23, 24, 24.5, 32, 64, 128)
"""From one block (llama-3.1-8b: 8 MiB at 64 tokens) to more than the demo needs; its longest prompt takes 24.03."""
TRACES = (
    "weka",
    "mooncake",
    "mooncake-delta",
    "bailian",
    "dag-jsonl",
    "agentic-mooncake",
    "dynamo",
    "vidur",
    "burstgpt",
    "sglang-agentic",
    "sglang-mooncake",
)
PROFILES = ("aiperf-agentic-code", "aisimulate", "guidellm", "inference-perf", "genai-bench")
MODEL = "Qwen/Qwen3-Coder-480B-A35B-Instruct"  # holds the longest prompt of the demo

# what `predict` imports: its declared dependencies pin far more
AISIMULATE_NEEDS = [
    "pydantic", "pyyaml", "numpy", "pandas", "scipy", "prettytable", "tqdm", "jinja2", "psutil", "packaging", "ijson",
    "pyarrow", "munch", "matplotlib", "plotext", "plotly", "nvidia-ml-py", "bokeh",
]  # fmt: skip

Row = tuple[str, bool | None, str]


def tracetower(*words: Any) -> Any:
    """Run the command line; its JSON where it prints some."""
    done = subprocess.run([TRACETOWER, *map(str, words)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout


def environment(home: Path, name: str, packages: list[list[str]], python: str = sys.executable) -> Path:
    """The python of an environment with the packages, each list installed by one call of pip."""
    folder = home / name
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        for group in packages:
            subprocess.run([folder / "bin/pip", "install", "-q", *group], check=True, capture_output=True, text=True)
        ready.touch()
    return folder / "bin/python"


def kvcache_simulator(home: Path, files: Path) -> Iterator[Row]:
    """Hit rates at every budget that it prints equal ours to six digits."""
    python = environment(home, "kvcache-simulator", [["kvcache-simulator"]])
    out = files / "kvcache-simulator.json"
    budgets = ",".join(map(str, BUDGETS_GIB))
    subprocess.run(
        [python.with_name("kvcache-simulator"), "run", "--trace", files / "mooncake", "--model", "llama-3.1-8b",
         "--kv-precision", "bf16_fp16", "--budgets-gib", budgets, "--policies", "lru", "--format", "json",
         "--no-progress", "--output", out],
        check=True, capture_output=True,
    )  # fmt: skip
    found = json.loads(out.read_text())
    points = found["points"]
    capacities = ",".join(str(point["cacheBlocks"]) for point in points)
    rows = tracetower("curve", files / "again", "--definition", "kvcache-simulator", "--capacity-blocks", capacities,
                      "--json")["rows"]  # fmt: skip
    rates = {row["capacity_blocks"]: row["hit_rate"] for row in rows}
    for point in points:
        theirs, here = point["results"]["lru"]["hitRate"], rates[point["cacheBlocks"]]
        text = f"{theirs:.6f}, ours {here:.6f}"
        name = f"kvcache-simulator, {point['gib']:g} GiB, {point['cacheBlocks']:,} blocks"
        yield name, math.isclose(here, theirs, abs_tol=5e-7), text
    if len(points) < len(BUDGETS_GIB):
        text = f"{len(BUDGETS_GIB) - len(points)} larger budgets are not printed by the simulator (never full)"
        yield "kvcache-simulator, the rest", None, text
    ours = tracetower("report", files / "again", "--definition", "kvcache-simulator", "--json")["hit_rate"]["ceiling"]
    theirs = found["hitRateCeiling"]
    yield "kvcache-simulator, ceiling", math.isclose(ours, theirs, abs_tol=5e-7), f"{theirs:.6f}, ours {ours:.6f}"


def aiperf(home: Path, files: Path) -> Iterator[Row]:
    """Its loaders take every request, its generator our profile, and its analysis finds our figure."""
    python = environment(home, "aiperf", [["aiperf==0.13.0"]])
    done = subprocess.run([python, HERE / "check_aiperf.py", files], capture_output=True, text=True)
    if done.returncode:
        yield "aiperf", False, done.stderr.strip().splitlines()[-1][:200]
        return
    found = json.loads(done.stdout.strip().splitlines()[-1])
    expected = json.loads((files / "requests").read_text())
    for name in ("weka", "mooncake", "mooncake-delta", "bailian", "dag-jsonl"):
        yield f"aiperf loads {name}", found[name] == expected, f"{found[name]:,} of {expected:,} requests"
    theirs = found["analyze-trace"]["hit_rate_stats"]["mean"]
    ours = tracetower("report", files / "again", "--definition", "aiperf", "--json")["hit_rate"]["ceiling"]
    yield "aiperf analyze-trace", math.isclose(ours, theirs, abs_tol=5e-7), f"{theirs:.6f}, ours {ours:.6f}"


def aiperf_generator(home: Path, files: Path, sessions: int = 40) -> Iterator[Row]:
    """What `aiperf synthesize agentic-code` makes of our configuration has the profile's figures.

    Means and medians that it can express, within 3 % or inside the profile's intervals: those that the export's notes
    do not tell to differ. Delays are read from its rows (its requests have no durations), the rest from its data set.
    """
    from analysis.profile.targets import rows

    python = environment(home, "aiperf", [["aiperf==0.13.0"]])
    made = files / f"agentic-code-{sessions}"
    made.mkdir()
    subprocess.run(
        [python.with_name("aiperf"), "synthesize", "agentic-code", "--config", files / "aiperf-agentic-code",
         "--num-sessions", str(sessions), "--output", made],
        check=True, capture_output=True,
    )  # fmt: skip
    file = next(made.rglob("dataset.jsonl"))
    config = json.loads((files / "aiperf-agentic-code").read_text())
    tracetower("ingest", file, "--format", "mooncake-delta", "--block-size", config["block_size"], "-o", made / "d")
    tracetower("profile", made / "d", "-o", made / "profile", "--arrivals", "staggered:600")
    target, observed = (json.loads(path.read_text()) for path in (files / "profile", made / "profile"))
    delays = sorted(row["delay"] / 1000 for row in map(json.loads, file.open()) if "delay" in row)
    observed["overall"]["gap_s"]["all"] = {"mean": statistics.fmean(delays), "p50": statistics.median(delays)}
    notes = " ".join(json.loads((files / "agentic-code-notes").read_text()))
    quantities = (("first_input_tokens",), ("added_tokens_per_turn",), ("output_tokens",), ("turns",), ("gap_s", "all"))
    for row in rows(target, observed, quantities, ("mean", "p50")):
        if not row["figure"].endswith((".mean", ".p50")) or row["figure"].startswith("hit_rate"):
            continue
        text = f"{row['target']:,.1f} asked, {row['observed']:,.1f} made, {100 * row['error']:+.1f} %"
        told = row["figure"].replace(".", " ") + " "
        if told in notes:
            yield f"agentic-code {row['figure']}", None, f"{text}: the export says that it cannot"
        else:
            yield f"agentic-code {row['figure']}", row["holds"], text


def aiperf_generator_at_length(home: Path, files: Path) -> Iterator[Row]:
    """The same of more sessions."""
    yield from aiperf_generator(home, files, 400)


def aisimulate(home: Path, files: Path) -> Iterator[Row]:
    """`predict` completes every request of each trace format, and one lane of sessions reuses what our ceiling says.

    (Several lanes at once share the simulated replica's memory, so they reuse less than an unbounded cache.)
    """
    python = environment(
        home, "aisimulate", [["--no-deps", "aisimulate==0.13.0.dev202610270000000085"], AISIMULATE_NEEDS]
    )
    expected = json.loads((files / "requests").read_text())
    ceiling = tracetower("report", files / "again", "--json")["hit_rate"]["ceiling"]
    agentic = {"type": "trace_timestamps", "agentic_lanes": 1}
    for name, form, load in (
        ("weka", "weka", agentic),
        ("mooncake", "mooncake", {"type": "trace_timestamps"}),
        ("mooncake-delta", "mooncake-delta", {"type": "trace_timestamps"}),
        ("agentic-mooncake", "agentic_mooncake", agentic),
    ):  # fmt: skip
        source: dict[str, Any] = {"type": "trace", "paths": [str(files / name)], "format": form}
        if form.startswith("mooncake"):
            source["block_size"] = 64
        config = files / f"aisimulate-{name}.json"
        parallelism = {"replicas": 1, "tensor": 8, "moe_tensor": 8}
        config.write_text(json.dumps({
            "traffic": {"source": source, "load": load},
            "engine": {"model": MODEL, "hardware": "h200_sxm", "backend": "vllm", "mode": "aggregated",
                       "workers": {"aggregated": {"parallelism": parallelism}}},
        }))  # fmt: skip
        out = files / f"aisimulate-{name}"
        done = subprocess.run(
            [python.with_name("aisimulate"), "predict", "-c", config, "--format", "json", "--output-dir", out],
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            yield f"aisimulate {name}", False, (done.stderr or done.stdout).strip().splitlines()[-1][:200]
            continue
        result = json.loads((out / "prediction.json").read_text())
        text = (
            f"{result['completed_requests']:,} of {expected:,} requests, {result['total_input_tokens']:,} input "
            f"tokens, reuse {result['prefix_cache_reused_ratio']:.6f}, our ceiling {ceiling:.6f}"
        )
        fine = result["completed_requests"] == expected
        if load is agentic:
            fine = fine and math.isclose(result["prefix_cache_reused_ratio"], ceiling, abs_tol=5e-7)
        yield f"aisimulate {name}", fine, text


def guidellm(home: Path, files: Path) -> Iterator[Row]:
    """Its argument models take the scenario."""
    python = environment(home, "guidellm", [["guidellm"]])
    program = (
        "import sys, yaml; from guidellm.schemas.benchmark.entrypoints import BenchmarkArgs; "
        "d = yaml.safe_load(open(sys.argv[1])); a = BenchmarkArgs.model_validate(d); print(a.data[0].kind)"
    )
    yield model_check("guidellm scenario", python, program, files / "guidellm")


def inference_perf(home: Path, files: Path) -> Iterator[Row]:
    """Its configuration models take the file."""
    python = shutil.which("python3.12") or shutil.which("python3.13")
    for version in sorted(Path.home().glob(".pyenv/versions/3.1[23]*/bin/python")):
        python = str(version)
    if python is None:
        yield "inference-perf", None, "needs Python 3.12 or later, which is not here"
        return
    made = environment(home, "inference-perf", [["inference-perf"]], python)
    program = (
        "import sys, yaml; from inference_perf.config import Config; "
        "c = Config.model_validate(yaml.safe_load(open(sys.argv[1]))); print(c.data.type)"
    )
    yield model_check("inference-perf configuration", made, program, files / "inference-perf")


def genai_bench(home: Path, files: Path) -> Iterator[Row]:
    """Its parser takes every traffic scenario."""
    python = environment(home, "genai-bench", [["--no-deps", "genai-bench==0.0.5"], ["numpy", "gevent"]])
    program = (
        "import re, sys, genai_bench.scenarios.text; from genai_bench.scenarios.base import Scenario; "
        'found = re.findall(r\'--traffic-scenario "([^"]+)"\', open(sys.argv[1]).read()); '
        "print(' '.join(type(Scenario.from_string(f)).__name__ for f in found) or sys.exit('no scenario'))"
    )
    yield model_check("genai-bench scenarios", python, program, files / "genai-bench")


SGLANG = """
import importlib.util, sys, types
from pathlib import Path
root = Path(importlib.util.find_spec("sglang").submodule_search_locations[0])
for name in ("sglang", "sglang.benchmark", "sglang.benchmark.datasets"):  # their own __init__ want torch
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
from sglang.benchmark.datasets.agentic_trace import AgenticTraceDataset
from sglang.benchmark.datasets.mooncake import MooncakeDataset
folder = Path(sys.argv[1])
turns = AgenticTraceDataset(str(folder / "sglang-agentic"), 0, None, 0, None).load(None)
rows = MooncakeDataset(str(folder / "sglang-mooncake"), "mooncake", 10**9).load()
assert all(row["timestamp"] >= 0 and row["hash_ids"] and row["output_length"] >= 0 for row in rows)
print(sum(len(row.prompt) for row in turns), len(rows))
"""


def sglang(home: Path, files: Path) -> Iterator[Row]:
    """Its loaders (agentic-trace and mooncake, of the wheel without what needs a GPU) take every request."""
    needs = ["numpy", "transformers", "pybase64", "pillow", "requests", "tqdm", "aiohttp"]
    python = environment(home, "sglang", [["--no-deps", "sglang==0.5.23"], needs])
    name, fine, text = model_check("sglang loads agentic-trace and mooncake", python, SGLANG, files)
    expected = (files / "requests").read_text()
    yield name, fine and text.split() == [expected, expected], f"{text} of {expected} requests"


def vidur(home: Path, files: Path) -> Iterator[Row]:
    """The documented columns, numbers in all of them."""
    with (files / "vidur").open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = {"arrived_at", "num_prefill_tokens", "num_decode_tokens"}
    fine = all(set(row) == expected and all(float(v) >= 0 for v in row.values()) for row in rows)
    yield "vidur columns", fine and bool(rows), f"{len(rows):,} rows"


def model_check(name: str, python: Path, program: str, file: Path) -> Row:
    """Run a program of a consumer's environment on one file."""
    done = subprocess.run([python, "-c", program, file], capture_output=True, text=True)
    words = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return name, done.returncode == 0, words[-1][:200] if words else ""


QUICK: tuple[Callable[[Path, Path], Iterator[Row]], ...] = (kvcache_simulator, aiperf, aiperf_generator)
LONG = (aiperf_generator_at_length, aisimulate, guidellm, inference_perf, genai_bench, sglang, vidur)


def exports(files: Path) -> None:
    """Everything that is checked, made from the demo's sessions started 600 s apart."""
    subprocess.run([TRACETOWER, "demo", "-o", files / "demo", "--json"], check=True, capture_output=True)
    for target in (*TRACES, *PROFILES):
        told = tracetower("export", files / "demo", "--to", target, "-o", files / target, "--arrivals", "staggered:600",
                          "--json")  # fmt: skip
        if target == "aiperf-agentic-code":
            (files / "agentic-code-notes").write_text(json.dumps(told["notes"]))
    tracetower("profile", files / "demo", "-o", files / "profile", "--arrivals", "staggered:600")
    again = tracetower("ingest", files / "mooncake", "-o", files / "again", "--json")
    (files / "requests").write_text(str(again["requests"]))
    (files / "block").write_text("64")


def main() -> int:
    """Run the checks and print a row each."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("--all", action="store_true")
    words.add_argument("--home", type=Path, default=Path.home() / ".cache" / "tracetower-consumers")
    asked = words.parse_args()
    asked.home.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        files = Path(scratch)
        exports(files)
        for check in (*QUICK, *(LONG if asked.all else ())):
            start = time.monotonic()
            try:
                rows = list(check(asked.home, files))
            except subprocess.CalledProcessError as error:
                text = (error.stderr or "") if isinstance(error.stderr, str) else (error.stderr or b"").decode()
                installing = "pip" in str(error.cmd[0])
                reason = text.strip().splitlines()[-1][:160] if text.strip() else str(error.returncode)
                rows = [(check.__name__, None if installing else False, reason)]
            for name, fine, text in rows:
                failed += fine is False
                print(f"{'skip' if fine is None else 'ok  ' if fine else 'FAIL'}  {name}: {text}", flush=True)
            print(f"      {check.__name__} took {time.monotonic() - start:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
