"""Kimi Code sessions."""

from __future__ import annotations

from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, refused, shared


def test_steps_are_calls_and_a_compaction_is_one_too(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "kimi" / "wire.jsonl")
    assert read.column("input_tokens") == [10000, 10060, 10300]
    assert read.column("cache_read_tokens") == [1000, 10000, 10000]
    assert read.column("ttft_s") == [1.5, None, None]
    assert read.column("trigger")[:2] == ["user", "tool"]
    assert read.receipt["failed_attempts"] == 1  # asked, and never answered
    assert read.receipt["records"] == {"read": 21, "used": 11, "rejected": 0, "duplicate": 3, "ignored": 7}


def test_shared(tmp_path: Path) -> None:
    read = Read(tmp_path / "a", shared("other_agents/kimi/assistant_tools.jsonl"))
    assert read.requests.height == 23  # one for each usage.record
    sub = Read(tmp_path / "b", shared("other_agents/kimi/subagent_agent-0.jsonl"))
    assert (sub.total("input_tokens"), sub.sessions["role"].to_list()) == (41321, ["subagent"])
    receipt = refused(tmp_path, shared("other_agents/kimi/small.jsonl"))
    assert receipt["failed_attempts"] == 13
