"""OpenHands' events and logs of calls."""

from __future__ import annotations

import json
from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, refused, shared, whole

HERE = SAMPLES / "openhands"


def test_a_response_is_counted_once_though_each_event_has_it(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "trajectory.json")
    assert read.column("input_tokens") == [3000, 3100]
    assert (read.total("cache_read_tokens"), read.total("cache_write_tokens")) == (3000, 3100)
    assert read.column("work") == ["execute", "other"]
    assert read.column("trigger") == ["user", "tool"]
    # The events' clock is an hour ahead of the responses', which is UTC.
    assert str(read.requests["started_at"][0]) == "2026-03-01 09:00:00+00:00"


def test_rows_of_an_evaluation_join_usage_by_response(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "output.jsonl")
    assert read.column("input_tokens") == [2000, 2100]
    assert read.column("cache_read_tokens") == [0, 1920]


def test_sdk_events_take_the_advance_of_the_totals(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "sdk.jsonl")
    assert read.column("input_tokens") == [1000, 1100]
    assert read.column("output_tokens") == [30, 20]
    assert read.column("cache_read_tokens") == [0, 960]
    assert read.column("prompt_completeness") == ["structure", "structure"]


def test_logs_of_calls_are_exact_prompts_of_one_conversation(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "calls")
    assert read.receipt["formats"] == {"openhands": 1}
    assert read.column("input_tokens") == [1000, 1020]
    assert read.column("prompt_completeness") == ["full", "full"]
    first, second = read.column("prefix_tokens")
    assert second - first == len("I look.") + len("Go on")  # the tokenizer counts bytes here
    assert read.column("session_id") == [0, 0]
    assert read.column("arrival_s") == [0.0, 5.0]


def test_the_providers_totals_come_out(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("openhands_llm_logs"))
    assert read.column("input_tokens") == [4812, 5002, 6123, 6277, 6485, 6729]
    assert read.column("output_tokens") == [146, 95, 120, 131, 113, 199]
    assert read.total("cache_read_tokens") == 0
    assert read.sessions.height == 1


def test_shared_events(tmp_path: Path) -> None:
    basic = Read(tmp_path / "a", shared("openhands/runtime_traj_basic.json"))
    assert (basic.requests.height, basic.total("input_tokens"), basic.total("cache_read_tokens")) == (2, 8132, 3482)
    sdk = Read(tmp_path / "b", shared("openhands/sdk_events.jsonl"))
    assert (sdk.total("input_tokens"), sdk.total("cache_read_tokens")) == (107458, 68193)
    assert Read(tmp_path / "c", shared("openhands/resolver_output.jsonl")).requests.height == 26
    receipt = refused(tmp_path, shared("openhands/sdk_base_state.json"))
    assert receipt["records"] == {"read": 1, "used": 0, "rejected": 0, "duplicate": 0, "ignored": 1}


def test_events_in_files_of_their_own_are_one_conversation(tmp_path: Path) -> None:
    events = json.loads((HERE / "trajectory.json").read_text())
    for folder in ("sessions/x/events", "events"):
        for at, event in enumerate(events * 3):
            whole(tmp_path, f"{folder}/{at}.json", event)
    tree = Read(tmp_path / "a", tmp_path / "sessions")
    assert tree.receipt["formats"] == {"openhands": 1}
    assert tree.column("input_tokens") == [3000, 3100]  # each response once, though its events come three times
    assert Read(tmp_path / "b", tmp_path / "events").column("input_tokens") == [3000, 3100]
