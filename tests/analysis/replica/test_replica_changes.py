"""What changes buy, beside the evaluation that a change of precision needs."""

from __future__ import annotations

import dataclasses
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.replica.changes import draft_change, draft_speedup, precision_change, tier_change, tier_traffic, tp_change
from analysis.replica.evaluation import compare_scores, read_inspect_scores
from analysis.replica.interactivity import Assumptions, Service, step_bytes
from analysis.replica.kv_budget import Replica, kv_budget
from analysis.replica.measured import decode_from_points, prefill_from_points, with_decode, with_prefill
from analysis.replica.models.catalog import load_gpu, load_model
from analysis.replica.models.kv_layout import Sharding
from analysis.replica.prefill import prefill_work
from analysis.replica.speculation import Speculation
from analysis.replica.workload import RunLengths

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


def test_a_host_tier_reaches_further() -> None:
    """The published replica with 3 blocks of runs: distances 0.4 M and 1.2 M tokens; L2 twice the device pool."""
    runs = RunLengths(np.array([400, 1200]), np.array([10, 10]), 100_000, 1000)
    reach, hits, loaded, back = tier_change(kv_budget(REPLICA), SERVICE, 95_000, 2.0, runs)
    assert (reach.before, reach.after) == (444_700, 444_700 + 889_401)
    assert (hits.before, hits.after, hits.unit) == (0.1, 0.2, "rate")
    assert (loaded.before, loaded.after) == (0.0, 0.1)
    assert "233 GiB of host memory" in reach.change  # 2 × 31.25e9 B on each of 4 ranks
    assert back.after == pytest.approx(95_000 * 70_272 / 50e9)
    assert back.before > 10 * back.after
    without = tier_change(kv_budget(REPLICA), SERVICE, 95_000)
    assert [row.unit for row in without] == ["tokens", "s"]


def test_hit_rates_stand_beside_capacity() -> None:
    runs = RunLengths(np.array([500]), np.array([10]), 100_000, 1000)
    rows = precision_change(REPLICA, SERVICE, "fp8", 6, 100_000, None, runs)
    assert [(r.before, r.after) for r in rows if r.unit == "rate"] == [(0.0, 0.1)]
    assert [(r.before, r.after) for r in tp_change(REPLICA, SERVICE, 8, 6, 100_000, runs) if r.unit == "rate"] == [
        (0.0, 0.1)
    ]
    back = precision_change(dataclasses.replace(REPLICA, kv_dtype="fp8"), SERVICE, "bf16", 6, 100_000)
    assert back[0].evaluation == "not evaluated"


def test_verification_costs_more_experts() -> None:
    """5.00 → 5.84 is 1.168 at equal steps; against no draft at batch 10 it is 2.5, not 5.84."""
    service = dataclasses.replace(SERVICE, kv_dtype="fp8")
    change = draft_speedup(service, Speculation(5.0), Speculation(5.84), 10, 100_000)
    assert change.after == pytest.approx(2.5, abs=0.05)
    assert change.ratio == pytest.approx(1.168)


def test_two_measured_points_replace_the_bands() -> None:
    """Times made from MFU 0.4 and 0.1 s, and from 60 % of the bandwidth and 3.05 ms a step, are found again."""
    peak, lengths = SERVICE.peak_flops, (20_000.0, 80_000.0)
    seconds = [0.1 + prefill_work(MODEL, n).flops / (0.4 * peak) for n in lengths]
    found = with_prefill(Assumptions(), SERVICE, prefill_from_points(SERVICE, lengths, (seconds[0], seconds[1])))
    assert found.mfu == pytest.approx((0.4, 0.4))
    assert found.fixed_s == pytest.approx((0.1, 0.1))
    moved = [sum(step_bytes(SERVICE, b, 50_000)[:2]) for b in (1, 16)]
    steps = [0.00305 + n / (0.6 * GPU.hbm_bytes_per_s) for n in moved]
    measured = decode_from_points(SERVICE, (1, 16), 50_000, (steps[0], steps[1]))
    found = with_decode(Assumptions(), SERVICE, measured)
    assert found.bandwidth_efficiency == pytest.approx((0.6, 0.6))
    assert found.layer_overhead_s[0] == pytest.approx(0.00305 / 61)
    with pytest.raises(ValueError, match="× the peak of 4 × b200"):
        with_prefill(Assumptions(), SERVICE, prefill_from_points(SERVICE, lengths, (0.01, 0.02)))


def test_traffic_of_a_host_tier() -> None:
    """Runs of 10 blocks of 1000 tokens at 400 and 1200 blocks: one in the GPUs' 444,700 tokens, one in L2's 889,401."""
    runs = RunLengths(np.array([400, 1200]), np.array([10, 10]), 100_000, 1000)
    first, cost = tier_traffic(kv_budget(REPLICA), SERVICE, runs, 100_000)
    assert (first, cost.hit_tokens) == (10_000, 10_000)
    assert cost.moved_bytes == 10_000 * 70_272 * 4
    assert cost.reload_s == pytest.approx(10_000 * 70_272 / 50e9)
    assert cost.saves
