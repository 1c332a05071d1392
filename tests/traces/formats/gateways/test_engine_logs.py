"""Request logs of vLLM and SGLang."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from tests.places import SAMPLES
from tests.traces.formats.gateways.reading import read
from traces.dataset.layout import Dataset
from traces.intake.ingest import NothingUsable


def test_vllm_prompts_are_the_logged_token_ids(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "vllm_log" / "server.log")
    assert receipt["formats"] == {"vllm_log": 1}
    assert table["input_tokens"].to_list() == [5, 7, 3, None]
    assert table["output_tokens"].to_list() == [2, None, None, None]
    assert table["arrival_s"].to_list() == [0.0, 2.0, 4.0, 6.0]
    assert receipt["time_basis"] == "trace"
    assert any("without their prompt" in warning for warning in receipt["warnings"])
    ends = dict(Dataset(tmp_path / "dataset").read("prefixes").select("prefix_id", "end_token").rows())
    assert ends[table["prefix_id"][0]] == 5
    assert sorted(end for end in ends.values() if end) == [3, 5, 7, 7]  # one path of prompts, and an answer at 5


def test_vllm_text_is_counted(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    line = (
        "INFO 10-01 18:43:27 logger.py:36] Received request cmpl-1: prompt: 'it\\'s \\n fine <|endoftext|>', "
        "params: SamplingParams(n=1), prompt_token_ids: None, lora_request: None.\n"
    )
    log.write_text(line)
    _, table = read(tmp_path, log, tokenizer="bytes")
    assert table["input_tokens"].to_list() == [len("it's \n fine <|endoftext|>")]
    assert table["prompt_completeness"].to_list() == ["full"]


def test_sglang_events(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "sglang_log" / "requests.log")
    assert receipt["formats"] == {"sglang_log": 1}
    assert receipt["records"] == {"read": 9, "used": 4, "rejected": 0, "duplicate": 0, "ignored": 5}
    assert receipt["failed_attempts"] == 1
    assert table["input_tokens"].to_list() == [300, 350, 9000, None]
    assert table["cache_read_tokens"].to_list() == [0, 300, 0, None]
    assert table["arrival_s"].to_list() == [0.0, 2.0, 2.5, 6.0]
    assert table["duration_s"].to_list() == [1.0, 0.9, 1.5, None]
    assert table["prompt_completeness"].to_list() == ["full", "full", "structure", "full"]
    assert table["prefix_tokens"].to_list() == [300, 350, 9000, 300]
    assert table["session_id"][0] == table["session_id"][1]
    assert table["prefix_id"][3] == table["prefix_id"][0]


def test_sglangs_text_log_is_read_as_its_json(tmp_path: Path) -> None:
    ids = list(range(100, 400))
    quoted = "it's (a) \"test\", text='no', [1]"
    counts = "'prompt_tokens': 300, 'cached_tokens': 0, 'completion_tokens': 5, 'e2e_latency': 1.0"
    meta = f"{{'id': 'a', 'finish_reason': {{'type': 'stop', 'matched': 151645}}, {counts}}}"
    long = "x" * 1024
    cut = f"{long!r} ... {long!r}"
    rows = [
        "[2026-03-01 10:00:00] The server is fired up and ready to roll!",
        f"[2026-03-01 10:00:01 TP0] Receive: obj=GenerateReqInput(rid='a', text=None, input_ids={ids}, stream=True)",
        f"[2026-03-01 10:00:02] Finish: obj=GenerateReqInput(rid='a', text={quoted!r}, input_ids={ids}, "
        f"sampling_params={{'stop': None}}), headers={{'x-session-id': 's'}}, "
        f"out={{'text': 'hi', 'meta_info': {meta}}}",
        f"2026-03-01T10:00:05.500Z Finish: obj=GenerateReqInput(rid='b', text={cut}), out={{'meta_info': "
        "{'prompt_tokens': 9000, 'cached_tokens': 64, 'completion_tokens': 7, 'e2e_latency': 2.5, 'x': <object>}}",
        "[2026-03-01 10:00:06] Receive: obj=GenerateReqInput(rid='HEALTH_CHECK_1', text=None, input_ids=[0])",
        "[2026-03-01 10:00:07] Finish: obj=nothing",
    ]
    log = tmp_path / "server.log"
    log.write_text("".join(row + "\n" for row in rows))
    receipt, table = read(tmp_path, log)
    assert receipt["formats"] == {"sglang_log": 1}
    assert receipt["records"] == {"read": 6, "used": 2, "rejected": 1, "duplicate": 0, "ignored": 3}
    assert table["input_tokens"].to_list() == table["prefix_tokens"].to_list() == [300, 9000]
    assert table["cache_read_tokens"].to_list() == [0, 64]
    assert table["output_tokens"].to_list() == [5, 7]
    assert table["arrival_s"].to_list() == [0.0, 2.0]
    assert table["stop_reason"].to_list() == ["stop", None]
    assert table["prompt_completeness"].to_list() == ["full", "structure"]


def test_a_pickle_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    dump = tmp_path / "requests_dump.pkl"
    dump.write_bytes(pickle.dumps({"requests": [(1, 2)]}))
    with pytest.raises(NothingUsable) as caught:
        read(tmp_path, dump)
    reason = caught.value.receipt["rejects"][0]["reason"]
    assert "pickle" in reason
    assert "JSONL" in reason
