"""Qwen Code chats."""

from __future__ import annotations

from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared


def test_records_of_one_answer_are_one_call_and_a_rewind_is_a_branch(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "qwen" / "chat.jsonl")
    assert read.receipt["formats"] == {"qwen": 1}
    assert read.column("input_tokens") == [5000, 5040, 5000]
    assert read.column("cache_read_tokens") == [4000, 4992, None]
    assert read.column("trigger") == ["user", "tool", "user"]
    first, _, third = read.column("prefix_id")
    assert first == third  # the same prompt was sent again


def test_shared(tmp_path: Path) -> None:
    for at, (name, requests) in enumerate(
        [
            ("019f0000-0000-7000-8000-000000000001.jsonl", 2),
            ("019f0000-0000-7000-8000-000000000004.jsonl", 2),
            ("system_telemetry.jsonl", 1),
        ]
    ):
        assert Read(tmp_path / str(at), shared(f"other_agents/qwen/{name}")).requests.height == requests
