"""What changes buy, beside the evaluation that a change of precision needs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from analysis.evaluation import compare_scores, read_inspect_scores
from analysis.interactivity import Service
from analysis.kv_budget import Replica
from analysis.kv_layout import Sharding
from analysis.model_catalog import load_gpu, load_model
from analysis.replica_changes import draft_change, precision_change, tp_change
from analysis.speculation import Speculation

MODEL, GPU = load_model("kimi-k2.6"), load_gpu("b200")
REPLICA = Replica(MODEL, GPU, Sharding(4), gpu_bytes=180e9, weights_bytes=595e9, utilization=1, reserve_bytes=0)
SERVICE = Service(MODEL, GPU, Sharding(4))


def log(value: float, error: float = 0.01, task: str = "swe") -> dict[str, Any]:
    metrics = {"accuracy": {"name": "accuracy", "value": value}, "stderr": {"name": "stderr", "value": error}}
    results = {"completed_samples": 500, "scores": [{"name": "match", "metrics": metrics}]}
    return {"version": 2, "status": "success", "eval": {"task": task, "model": "local/kimi"}, "results": results}


def test_precision_doubles_tokens_and_says_it_was_not_evaluated() -> None:
    tokens, speed = precision_change(REPLICA, SERVICE, "fp8", 6, 100_000)
    assert (tokens.before, tokens.after) == (444_700, 889_401)
    assert tokens.ratio == pytest.approx(2.0, abs=1e-5)
    assert 1 < (speed.ratio or 0) < 2
    assert tokens.evaluation == speed.evaluation == "not evaluated"
    assert precision_change(REPLICA, SERVICE, "fp16", 1, 1000)[0].evaluation is None


def test_precision_with_an_evaluation(tmp_path: Path) -> None:
    before, after = tmp_path / "before.json", tmp_path / "after.eval"
    before.write_text(json.dumps(log(0.70, 0.03)))
    with zipfile.ZipFile(after, "w") as archive:
        archive.writestr("header.json", json.dumps(log(0.69, 0.04)))
    (pair,) = compare_scores(read_inspect_scores(before), read_inspect_scores(after))
    assert precision_change(REPLICA, SERVICE, "fp8", 6, 100_000, pair)[0].evaluation == (
        "swe match accuracy: 0.7 → 0.69 (-0.01 ± 0.05)"
    )


def test_twice_the_gpus() -> None:
    tokens, per_gpu, user, gpu = tp_change(REPLICA, SERVICE, 8, 4, 100_000)
    assert (tokens.before, tokens.after) == (444_700, 1_503_088)
    assert tokens.ratio == pytest.approx(3.38, abs=0.001)
    assert per_gpu.ratio == pytest.approx(1.69, abs=0.001)
    assert (user.ratio or 0) > 1 > (gpu.ratio or 9)


def test_a_better_drafter() -> None:
    change = draft_change(Speculation(5.0), Speculation(5.84))
    assert change.ratio == pytest.approx(1.168)
    assert "1.20x" in change.source


def test_from_nothing_there_is_no_ratio() -> None:
    small = Replica(MODEL, GPU, Sharding(2), gpu_bytes=180e9, weights_bytes=595e9, utilization=1, reserve_bytes=0)
    tokens = tp_change(small, SERVICE, 4, 4, 100_000)[0]
    assert (tokens.before, tokens.after, tokens.ratio) == (0, 444_700, None)


def test_logs_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    for text, message in (
        ("{", "not an Inspect log"),
        ("{}", "has `eval` and `results`"),
        (json.dumps(log(1) | {"results": {"scores": []}}), "the run has no scores"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_inspect_scores(path)
    path.write_text(json.dumps(log(0.5)))
    other = tmp_path / "other.json"
    other.write_text(json.dumps(log(0.5, task="gpqa")))
    with pytest.raises(ValueError, match="share no task and metric"):
        compare_scores(read_inspect_scores(path), read_inspect_scores(other))
