"""Traces of lengths and times: Azure, BurstGPT, Vidur, TraceLab; and AIBrix, whose lines hold many requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.places import SAMPLES, SHARED
from traces.dataset.layout import Dataset
from traces.intake.ingest import Options, ingest


def read(path: Path, tmp_path: Path, **options: Any) -> tuple[dict[str, Any], pl.DataFrame]:
    receipt = ingest([str(path)], tmp_path / "dataset", Options(**{"tokenizer": "bytes", **options}))
    return receipt, Dataset(tmp_path / "dataset").read("requests")


def test_azure_times_have_seven_digits_or_none(tmp_path: Path) -> None:
    receipt, requests = read(SAMPLES / "azure_llm" / "code.csv", tmp_path)
    assert requests["input_tokens"].to_list() == [4808, 3180, 2162]
    assert str(requests["started_at"][0]) == "2023-11-16 18:17:03.979960+00:00"
    assert requests["arrival_s"].to_list()[:2] == [0.0, 0.02004]
    assert receipt["time_basis"] == "wall"


@pytest.mark.parametrize(
    "name", ["azure_llm/code.csv", "burstgpt/v1.csv", "vidur/lengths.csv", "tracelab/rounds.jsonl"]
)
def test_lengths_say_why_there_is_no_hit_rate(tmp_path: Path, name: str) -> None:
    receipt, requests = read(SAMPLES / name, tmp_path)
    assert any(warning.startswith("lengths only") for warning in receipt["warnings"])
    if requests["session_id"].null_count():
        assert requests["prefix_id"].null_count() == requests.height
    else:  # within a session: shared = min(previous, this)
        assert requests["prompt_completeness"].unique().to_list() == ["lengths"]
    assert set(requests["prompt_completeness"]) == {"lengths"}
    assert receipt["block_size"] is None


def test_published_lengths(tmp_path: Path) -> None:
    azure, _ = read(SHARED / "traces" / "azure_llm" / "AzureLLMInferenceTrace_code.csv", tmp_path / "a")
    assert (azure["formats"], azure["requests"]) == ({"azure_llm": 1}, 8819)
    vidur, requests = read(SHARED / "traces" / "vidur_csv" / "arxiv_summarization.head3000.csv", tmp_path / "v")
    assert (vidur["formats"], vidur["requests"]) == ({"vidur": 1}, 3000)
    assert requests["arrival_s"].null_count() == 3000
    aibrix, requests = read(SHARED / "traces" / "aibrix_workload" / "ten_requests.jsonl", tmp_path / "x")
    assert (aibrix["formats"], aibrix["requests"]) == ({"aibrix": 1}, 10)
    assert requests["input_tokens"].to_list()[:3] == [909, 713, 582]


def test_burstgpt_failures_are_no_requests(tmp_path: Path) -> None:
    receipt, requests = read(SAMPLES / "burstgpt" / "v1.csv", tmp_path)
    assert receipt["records"] == {"read": 3, "used": 2, "rejected": 0, "duplicate": 0, "ignored": 1}
    assert receipt["failed_attempts"] == 1
    assert requests["arrival_s"].to_list() == [0.0, 40.0]


def test_burstgpt_rows_without_a_session_have_none(tmp_path: Path) -> None:
    _, requests = read(SAMPLES / "burstgpt" / "v3.csv", tmp_path)
    assert requests["session_id"].to_list() == [0, 0, None]
    assert requests["duration_s"].to_list() == [2.5, 1.0, 3.0]
    assert requests["model"].to_list() == ["GPT-4", "GPT-4", "ChatGPT"]


def test_vidur_with_times(tmp_path: Path) -> None:
    _, requests = read(SAMPLES / "vidur" / "trace.csv", tmp_path)
    assert requests["arrival_s"].to_list() == [0.0, 1.25]
    assert requests["output_tokens"].to_list() == [20, 4]


def test_tracelab_rounds(tmp_path: Path) -> None:
    _, requests = read(SAMPLES / "tracelab" / "rounds.jsonl", tmp_path)
    assert requests["trigger"].to_list() == ["user", "tool", "tool"]
    assert requests["arrival_s"].to_list() == [0.0, 10.0, 20.0]
    assert requests["duration_s"].to_list() == [4.5] * 3
    assert requests["input_tokens"].to_list() == [1000, 1100, 1200]
    assert requests["cache_read_tokens"].to_list() == [0, 900, 900]
    assert requests["turn"].to_list() == [0, 1, 2]
    assert requests["work"].to_list() == ["explore"] * 3


def test_tracelab_rows_of_one_round_are_copies_only_by_their_id_or_their_times(tmp_path: Path) -> None:
    row = json.loads((SAMPLES / "tracelab" / "rounds.jsonl").read_text().splitlines()[0])
    later = {**row, "timing_events": [{"event_type": "text", "timestamp": "2026-08-25T00:00:09.500Z"}]}
    named = [{**row, "trace_key": "k"}, {**later, "trace_key": "k"}]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in [row, later, row, *named]))
    receipt, requests = read(path, tmp_path)
    assert requests.height == 3
    assert receipt["records"]["duplicate"] == 2


def test_aibrix_lines_hold_many_requests(tmp_path: Path) -> None:
    receipt, requests = read(SAMPLES / "aibrix" / "workload.jsonl", tmp_path)
    assert receipt["records"] == {"read": 4, "used": 3, "rejected": 0, "duplicate": 0, "ignored": 1}
    assert requests["arrival_s"].to_list() == pytest.approx([0.0, 0.0, 0.921])
    assert requests["input_tokens"].to_list() == [9, 11, 20]
    assert requests["prefix_tokens"].to_list() == [15, 14, 26]
    assert requests["record_ordinal"].to_list() == [1, 1, 3]


def test_bad_cells_cost_their_row_only(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,1\nsoon,1,1\n2023-11-16 18:17:04,-1,1\n"
        "2023-11-16 18:17:04,1.5,1\n2023-11-16 18:17:04,1\n2023-11-16 18:17:05,,2\n"
    )
    receipt, requests = read(path, tmp_path)
    assert [r["line"] for r in receipt["rejects"]] == [3, 4, 5, 6]
    assert requests["input_tokens"].to_list() == [1, None]
    assert receipt["unknown_usage_requests"] == 1


def test_reasons_quote_no_content(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    good = {"session_id": "s", "prefix_tokens": 1, "newly_append_tokens": 2, "timing_events": []}
    path.write_text(json.dumps(good) + "\n" + json.dumps(good | {"prefix_tokens": "CANARY"}))
    receipt, _ = read(path, tmp_path)
    assert receipt["records"]["rejected"] == 1
    assert "CANARY" not in json.dumps(receipt["rejects"])
