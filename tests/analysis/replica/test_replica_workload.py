"""A dataset beside a replica: the command line's contract, live contexts, shared prefixes, the engines' curves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from analysis.peers.engine_curve import engine_curve
from analysis.replica.interactivity import Assumptions, Service
from analysis.replica.measured import prefill_from_trace, with_prefill
from analysis.replica.models.catalog import load_gpu, load_model
from analysis.replica.models.kv_layout import Sharding
from analysis.replica.prefill import prefill_work
from analysis.replica.workload import RunLengths, shared_prefix_tokens, workload_of
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse, open_dataset
from app.commands.serving.interactivity import interactivity_command
from app.commands.serving.kv_budget import kv_budget_command
from traces.intake.demo import demo_inputs
from traces.intake.ingest import ingest

PUBLISHED = "--model kimi-k2.6 --gpu b200 --gpu-bytes 180000000000 --utilization 1 --reserve-bytes 0"


def run(command: Any, *words: str, code: int = 0) -> str:
    """Run a command with words separated by spaces; returns what it says."""
    result = CliRunner().invoke(command, " ".join(words).split())
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions over a common head of two blocks of 512: a b c, a b c d and a b x."""
    folder = tmp_path_factory.mktemp("traces")
    rows = [(0, [1, 2, 3], 1536, 10), (1000, [1, 2, 3, 4], 2048, 20), (2000, [1, 2, 9], 1536, 30)]
    keys = ("timestamp", "hash_ids", "input_length", "output_length")
    text = "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
    (folder / "trace.jsonl").write_text(text)
    ingest([str(folder / "trace.jsonl")], folder / "dataset")
    return folder / "dataset"


@pytest.fixture(scope="module")
def warehouse(dataset: Path) -> Warehouse:
    return open_dataset(dataset)


def test_published_case_on_the_command_line() -> None:
    out = json.loads(run(kv_budget_command, PUBLISHED, "--weights-bytes 595000000000 --tp 4 --kv-dtype fp8 --json"))
    assert (out["replica_tokens"], out["fits"], out["short_bytes_per_gpu"]) == (889_401, True, 0)
    short = json.loads(run(kv_budget_command, PUBLISHED, "--weights-bytes 595000000000 --tp 2 --json"))
    assert (short["fits"], short["short_bytes_per_gpu"]) == (False, 117_500_000_000)
    assert "does not fit: 117,500,000,000 bytes per GPU are missing" in run(
        kv_budget_command, PUBLISHED, "--weights-bytes 595000000000 --tp 2"
    )


def test_sizes_keep_decimal_and_binary_apart() -> None:
    def gpu_bytes(text: str) -> int:
        return json.loads(run(kv_budget_command, "--model minimax-m2 --gpu h200 --tp 8 --json --gpu-bytes", text))[
            "gpu_bytes"
        ]

    assert gpu_bytes("180GB") == 180_000_000_000
    assert gpu_bytes("180GiB") == 180 * 2**30
    assert "is not a size" in run(kv_budget_command, "--model minimax-m2 --gpu h200 --gpu-bytes lots", code=2)


def test_list_names_models_and_gpus() -> None:
    out = json.loads(run(kv_budget_command, "--list", "--json"))
    assert {"kimi-k2.6", "glm-4.6", "llama-3.1-405b"} <= {m["name"] for m in out["models"]}
    assert {"b200", "h200", "mi300x"} <= {g["name"] for g in out["gpus"]}
    assert all(row["source"] for row in out["models"] + out["gpus"])


def test_wrong_usage_is_two() -> None:
    assert "impossible TP" in run(kv_budget_command, "--model minimax-m2 --gpu h200 --tp 7", code=2)
    assert "unknown model" in run(kv_budget_command, "--model minimax-m1 --gpu h200", code=2)
    assert "negative memory" in run(kv_budget_command, "--model minimax-m2 --gpu h200 --reserve-bytes=-1", code=2)
    assert "--list names them" in run(kv_budget_command, code=2)
    words = "--model kimi-k2.6 --gpu b200 --context 1000 --hit-rate 95"
    assert "between 0 and 1" in run(interactivity_command, words, code=2)


def test_interactivity_keys() -> None:
    words = "--model kimi-k2.6 --gpu b200 --tp 4 --kv-dtype fp8 --context 100k --output 500 --batch 10 --hit-rate 0.95"
    out = json.loads(run(interactivity_command, words, "--accept-length 5.84 --mfu 0.35 --json"))
    assert 1 / out["prefill_remaining"] == pytest.approx(12.3, abs=0.05)
    assert out["ttft_s"] == pytest.approx([0.244, 0.244], abs=0.001)
    assert round(out["speculative_speedup"], 1) == 2.5
    keys = "prefill_flops decode_step_s tokens_per_s_per_user tokens_per_s_per_gpu reload_s recompute_s assumptions"
    assert set(keys.split()) <= set(out)
    assert "assumptions" in run(interactivity_command, words)


def test_sessions_of_the_dataset(dataset: Path) -> None:
    words = "--model minimax-m2 --gpu h200 --tp 8 --json --dataset"
    out = json.loads(run(kv_budget_command, words, str(dataset)))
    found = out["dataset"]
    assert (found["live_context_p50"], found["live_context_max"]) == (1536, 2048)
    assert found["in_flight_output"] == 20
    assert found["shared_prefix_tokens"] == 1024
    assert found["hit_rate_at_capacity"] == found["ceiling"] == (1536 + 1024) / 5120
    # One shared head, then 2048 + 20 - 1024 tokens of its own for each session.
    free = out["replica_tokens"] - 1024
    assert found["sessions_at_max"] == pytest.approx(free / 1044, rel=1e-4)
    assert "not a dataset" in run(kv_budget_command, words, str(dataset.parent), code=1)
    assert "block size 100" in run(kv_budget_command, words, str(dataset), "--block-size", "100", code=2)


def test_shared_prefix(warehouse: Warehouse) -> None:
    assert shared_prefix_tokens(warehouse) == 1024


def test_capacity_for_a_rate() -> None:
    """Runs at distances 0..1 and 4..5 of blocks of 10 tokens: 20, then 30 and 40 of 100 tokens hit."""
    runs = RunLengths(np.array([0, 4]), np.array([2, 2]), 100, 10)
    assert runs.ceiling() == 0.4
    assert [runs.rate(c) for c in (10, 20, 40, 50, 60)] == [0.1, 0.2, 0.2, 0.3, 0.4]
    assert [runs.capacity_for(r) for r in (0.4, 0.3, 0.2, 0.05)] == [60, 50, 20, 10]
    assert runs.capacity_for(0.41) is None


def test_engine_curve(warehouse: Warehouse) -> None:
    """vLLM's look-up stops one token short of a prompt's end; three blocks are too few for the second prompt."""
    frame, about = engine_curve(warehouse, Question(), "vllm", [3, 100])
    assert frame["hit_tokens"].to_list() == [1024, 1536 + 1024]
    assert frame["unschedulable_requests"].to_list() == [1, 0]
    assert [m["method"] for m in about["methods"]] == ["replay", "one_pass"]
    frame, about = engine_curve(warehouse, Question(), "sglang", [100], "turn")
    assert frame["hit_tokens"].sum() == 1536 + 1024
    assert about["replies_unknown"] == 3
    with pytest.raises(BadQuestion, match="Engines: vllm, sglang"):
        engine_curve(warehouse, Question(), "trt", [100])


def test_a_trace_with_first_token_times_calibrates(tmp_path: Path) -> None:
    """TTFT made from MFU 0.3 and 50 ms, cache reads of half the prompt: found again from the ingested trace."""
    service = Service(load_model("kimi-k2.6"), load_gpu("b200"), Sharding(4))
    lines = []
    for i in range(40):
        tokens = 10_000 + 2_000 * i
        seconds = 0.05 + prefill_work(service.model, tokens, 0.5).flops / (0.3 * service.peak_flops)
        row = {"ts": float(i), "session_id": f"s{i}", "input_tokens": tokens, "cached_tokens": tokens // 2}
        lines.append(json.dumps(row | {"output_tokens": 5, "ttft_s": seconds}) + "\n")
    (tmp_path / "trace.jsonl").write_text("".join(lines))
    ingest([str(tmp_path / "trace.jsonl")], tmp_path / "dataset")
    found = prefill_from_trace(open_dataset(tmp_path / "dataset"), Question(), service)
    assumed = with_prefill(Assumptions(), service, found)
    assert assumed.mfu == pytest.approx((0.3, 0.3), rel=1e-3)
    assert assumed.fixed_s[0] == pytest.approx(0.05, rel=1e-2)
    assert found.error_p90 < 1e-3


def test_a_filtered_question_has_its_own_contexts(warehouse: Warehouse) -> None:
    """Only the first session's second request: a live context of four blocks."""
    whole = workload_of(warehouse, Question())
    assert whole.contexts["p50"] == 1536
    part = workload_of(warehouse, Question(where=(("turn", "1"),)))
    assert (part.requests, part.contexts["max"]) == (1, 2048)
    assert part.runs is not None
    assert part.runs.ceiling() == 0.75


def test_a_capacity_is_not_answered_without_arrivals(tmp_path: Path) -> None:
    """Sessions that share nothing still push each other out: relative times alone say nothing of a finite cache."""
    ingest(demo_inputs()[:3], tmp_path / "ds")
    warehouse = open_dataset(tmp_path / "ds")
    recorded = workload_of(warehouse, Question())
    assert recorded.runs is None
    assert "staggered" in str(recorded.note)
    named = workload_of(warehouse, Question(arrivals="staggered:600"))
    assert named.runs is not None
    assert named.note is None
