"""Copilot CLI sessions."""

from __future__ import annotations

from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared


def test_output_is_counted_and_prompts_are_estimates(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "copilot" / "events.jsonl")
    assert read.column("output_tokens") == [12, 3, 3]
    assert read.column("input_tokens") == [len("List"), None, len("ListI delegate.task{}a.py")]
    assert read.sessions["role"].to_list() == ["main", "subagent"]
    assert read.sessions["spawn_request_id"].to_list() == [None, 0]
    assert read.receipt["failed_attempts"] == 1
    assert any("input 9,000" in w for w in read.receipt["warnings"])


def test_shared(tmp_path: Path) -> None:
    assert Read(tmp_path / "a", shared("other_agents/copilot/large.jsonl")).requests.height == 4
    assert Read(tmp_path / "b", shared("other_agents/copilot/small.jsonl")).requests.height == 5
