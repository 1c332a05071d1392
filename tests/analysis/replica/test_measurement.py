"""What runs measured, in the forms that servers and benchmarks write, beside what a trace predicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.replica.interactivity import Service
from analysis.replica.measurement.against import against
from analysis.replica.measurement.files import read_measured
from analysis.replica.measurement.measured import Measured, NotMeasured
from analysis.replica.models.catalog import load_gpu, load_model
from analysis.replica.prefill import prefill_work
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from traces.intake.ingest import ingest

VLLM = """\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{{engine="0",model_name="zai-org/GLM-4.5"}} {0}
vllm:prefix_cache_queries_total{{engine="1",model_name="zai-org/GLM-4.5"}} {1}
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{{engine="0",model_name="zai-org/GLM-4.5"}} 1.7537953269352946e+09
vllm:prefix_cache_hits_total{{engine="0",model_name="zai-org/GLM-4.5"}} {2}
vllm:prefix_cache_hits_total{{engine="1",model_name="zai-org/GLM-4.5"}} {3}
vllm:prompt_tokens_total{{engine="0",model_name="zai-org/GLM-4.5"}} 1000.0
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="zai-org/GLM-4.5"}} 4.0
vllm:request_success_total{{engine="0",finished_reason="length",model_name="zai-org/GLM-4.5"}} 1.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.1",model_name="zai-org/GLM-4.5"}} 4.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.5",model_name="zai-org/GLM-4.5"}} 5.0
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="zai-org/GLM-4.5"}} 5.0
vllm:time_to_first_token_seconds_count{{engine="0",model_name="zai-org/GLM-4.5"}} 5.0
vllm:time_to_first_token_seconds_sum{{engine="0",model_name="zai-org/GLM-4.5"}} 0.5
vllm:kv_cache_usage_perc{{engine="0",model_name="zai-org/GLM-4.5"}} 9.75e-06
"""
SGLANG = """\
sglang:prompt_tokens_total{model_name="qwen"} 4096.0
sglang:cached_tokens_total{model_name="qwen",cache_source="device"} 3000.0
sglang:cached_tokens_total{model_name="qwen",cache_source="host"} 168.0
sglang:num_requests_total{model_name="qwen",is_streaming="true"} 7.0
"""


def read(folder: Path, *texts: str, suffix: str = "prom") -> Measured:
    paths = [folder / f"{place}.{suffix}" for place in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return read_measured(paths)


def test_a_scrape_of_vllm(tmp_path: Path) -> None:
    found = read(tmp_path, VLLM.format(600.0, 400.0, 480.0, 200.0))
    assert (found.written_by, found.requests, found.input_tokens) == ("vLLM", 5, 1000)
    assert found.hit_rate == pytest.approx(0.68)
    assert [tuple(replica) for replica in found.replicas] == [("0", 600, 480, 5), ("1", 400, 200, None)]
    assert found.ttft_s == {"mean": (0.1, 0.1), "p50": (0, 0.1), "p90": (0.1, 0.5), "p99": (0.1, 0.5)}
    assert "since" not in found.notes
    assert "from the start of the server" in found.notes[0]


def test_two_scrapes_count_the_run_between_them(tmp_path: Path) -> None:
    found = read(tmp_path, VLLM.format(100.0, 0.0, 50.0, 0.0), VLLM.format(600.0, 400.0, 480.0, 200.0))
    assert found.hit_rate == pytest.approx((430 + 200) / 900)
    assert found.notes == ()
    with pytest.raises(NotMeasured, match="started anew"):
        read(tmp_path, VLLM.format(600.0, 0.0, 0.0, 0.0), VLLM.format(100.0, 0.0, 0.0, 0.0))


def test_a_scrape_of_sglang_and_prometheus_own_json(tmp_path: Path) -> None:
    found = read(tmp_path, SGLANG)
    assert (found.written_by, found.requests, found.hit_rate) == ("SGLang", 7, 3168 / 4096)
    result = [
        {"metric": {"__name__": "sglang:prompt_tokens_total", "instance": "a"}, "value": [1.7e9, "100"]},
        {"metric": {"__name__": "sglang:cached_tokens_total", "instance": "a"}, "value": [1.7e9, "60"]},
        {"metric": {"__name__": "sglang:prompt_tokens_total", "instance": "b"}, "values": [[1, "3"], [2, "50"]]},
    ]
    document = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})
    found = read(tmp_path, document, suffix="json")
    assert found.hit_rate == pytest.approx(60 / 150)
    assert [replica.name for replica in found.replicas] == ["a", "b"]


AIPERF = {
    "request_count": {"unit": "requests", "avg": 10},
    "time_to_first_token": {"unit": "ms", "avg": 20.0, "p50": 15.0, "p90": 30.0, "p99": 90.0},
    "input_sequence_length": {"unit": "tokens", "avg": 550.0},
    "output_sequence_length": {"unit": "tokens", "avg": 20.0},
    "total_usage_prompt_tokens": {"unit": "tokens", "avg": 5600.0},
    "total_usage_prompt_cache_read_tokens": {"unit": "tokens", "avg": 4200.0},
}


def test_aiperf_in_each_of_its_forms(tmp_path: Path) -> None:
    csv = "Metric,avg,p50\nTime to First Token (ms),20.00,15.00\n\nMetric,Value\nRequest Count,10.00\n"
    for text, suffix in ((json.dumps(AIPERF), "json"), (json.dumps({"records": AIPERF}), "json"), (csv, "csv")):
        found = read(tmp_path, text, suffix=suffix)
        assert (found.written_by, found.requests) == ("AIPerf", 10)
        assert found.ttft_s["mean"] == pytest.approx((0.02, 0.02))
        assert found.ttft_s["p50"] == pytest.approx((0.015, 0.015))
    found = read(tmp_path, json.dumps(AIPERF), suffix="json")
    assert (found.input_tokens, found.output_tokens, found.hit_rate) == (5600, 200, 0.75)
    without = {k: v for k, v in AIPERF.items() if "usage" not in k}
    assert read(tmp_path, json.dumps(without), suffix="json").input_tokens == 5500


def test_serving_benchmarks(tmp_path: Path) -> None:
    row = {"backend": "vllm", "completed": 5, "total_input_tokens": 900, "total_output_tokens": 50}
    row |= {"mean_ttft_ms": 70.0, "median_ttft_ms": 60.0, "p99_ttft_ms": 99.5}
    found = read(tmp_path, json.dumps({"completed": 1, "mean_ttft_ms": 1}) + "\n" + json.dumps(row) + "\n")
    assert (found.written_by, found.requests, found.input_tokens) == ("the benchmark of vllm", 5, 900)
    assert found.ttft_s == {"mean": (0.07, 0.07), "p50": (0.06, 0.06), "p99": (0.0995, 0.0995)}
    assert found.hit_rate is None
    assert "no hit rate" in found.notes[0]


NO_MEASUREMENTS = (
    *("", "x", "[1]", "{}", "[" * 100_000, "a,b\n1,2", '{"data": {"result": [1, {"metric": 3}]}}'),
    *("vllm:prefix_cache_queries_total nan", 'other_total{a="b"} 1e400'),
)


@pytest.mark.parametrize("text", NO_MEASUREMENTS, ids=range(len(NO_MEASUREMENTS)))
def test_what_is_no_measurement_says_what_would_be(tmp_path: Path, text: str) -> None:
    with pytest.raises(NotMeasured, match=r"known|counters"):
        read(tmp_path, text)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Three prompts of 4, 6 and 6 blocks of 16 tokens: 10 of 16 blocks hit in an unbounded cache."""
    rows: list[dict[str, Any]] = [
        {"timestamp": at, "session_id": "s", "block_size": 16, "input_length": 16 * len(ids), "output_length": 5,
         "hash_ids": ids}
        for at, ids in ((0, [1, 2, 3, 4]), (10, [1, 2, 3, 4, 5, 6]), (20, [1, 2, 3, 4, 5, 6]))
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds")
    return open_dataset(tmp_path / "ds")


def test_beside_the_trace(warehouse: Warehouse) -> None:
    measured = Measured("vLLM", 3, 256, 15, 0.5, {"mean": (0.3, 0.3)})
    service = Service(load_model("llama-3.1-8b"), load_gpu("h200"))
    found = against(warehouse, Question(), measured, 4 * 16, service)
    rows = {row["metric"]: row for row in found["rows"]}
    assert (
        rows["requests"]["difference"] == rows["input_tokens"]["difference"] == rows["output_tokens"]["difference"] == 0
    )
    assert rows["hit_rate"]["predicted"] == pytest.approx(10 / 16)
    assert rows["hit_rate"]["difference"] == pytest.approx(0.5 - 10 / 16)
    at_capacity = rows["hit_rate_at_capacity"]["predicted"]
    assert at_capacity < 10 / 16
    assert sum(reason["hit_rate"] for reason in found["reasons"]) == pytest.approx(0.5 - 10 / 16)
    assert found["warnings"] == []
    flops = [prefill_work(service.model, n, h / n).flops for n, h in ((64, 0), (96, 64), (96, 96))]
    low, high = service.assumptions.mfu
    mean = sum(flops) / 3 / service.peak_flops
    assert rows["ttft_s_mean"]["predicted"] == pytest.approx([mean / high, mean / low])
    assert rows["ttft_s_mean"]["difference"] == pytest.approx([0.3 - mean / low, 0.3 - mean / high])
    assert rows["ttft_s_p99"]["measured"] is None


def test_another_run_is_said_to_be_one(warehouse: Warehouse) -> None:
    found = against(warehouse, Question(), Measured("vLLM", 30, 256, None, 0.9))
    assert [text.split(":")[0] for text in found["warnings"]] == ["requests"]
    assert found["reasons"] == [{"reason": "above what the trace shares", "hit_rate": pytest.approx(0.9 - 10 / 16)}]
