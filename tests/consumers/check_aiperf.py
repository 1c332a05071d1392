"""Runs inside AIPerf's environment: its own models and loaders on our exports. Usage: check_aiperf.py FOLDER."""

import json
import subprocess
import sys
from pathlib import Path

from aiperf.dataset.loader.dag_jsonl import DagJsonlLoader
from aiperf.dataset.loader.models import BailianTrace, MooncakeTrace
from aiperf.dataset.loader.weka_trace_models import WekaTrace

folder = Path(sys.argv[1])
found = {}
traces = [WekaTrace.model_validate_json(p.read_text()) for p in sorted((folder / "weka").iterdir())]
found["weka"] = sum(len(getattr(r, "requests", [r])) for t in traces for r in t.requests)
for name, model in (("mooncake", MooncakeTrace), ("mooncake-delta", MooncakeTrace), ("bailian", BailianTrace)):
    with (folder / name).open() as lines:
        found[name] = sum(model.model_validate_json(line) is not None for line in lines)
loader = DagJsonlLoader(folder / "dag-jsonl")
found["dag-jsonl"] = sum(
    len(c[0].turns) if isinstance(c, list) else len(c.turns) for c in loader.load_dataset().values()
)
aiperf = Path(sys.executable).with_name("aiperf")
report = folder / "aiperf-analyze.json"
block = json.loads((folder / "block").read_text())
subprocess.run(
    [aiperf, "analyze-trace", folder / "mooncake", "--block-size", str(block), "--output-file", report],
    check=True, capture_output=True,
)  # fmt: skip
found["analyze-trace"] = json.loads(report.read_text())
print(json.dumps(found))
