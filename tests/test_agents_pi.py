"""pi's and OpenClaw's sessions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import SAMPLES, Read, shared


def test_branches_compactions_and_aborted_calls(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "pi" / "session.jsonl")
    assert read.column("input_tokens") == [2003, 2063, None, 2088, 1203]
    assert read.column("cache_read_tokens") == [0, 2000, None, 2060, 0]
    assert read.column("prefix_tokens") == [2003, 2063, None, 2088, 1203]
    assert read.column("status") == ["ok", "ok", "aborted", "ok", "ok"]
    assert read.column("compaction") == [False, False, False, False, True]
    assert read.column("trigger") == ["user", "tool", "user", "user", "user"]
    assert read.column("work")[0] == "explore"


@pytest.mark.parametrize(
    ("name", "requests", "total", "read_", "output"),
    [("agent-sessions_small.jsonl", 2, 24, 0, 14), ("large-session.jsonl", 453, 47526750, 43229469, 83156)],
)
def test_the_providers_totals_come_out(
    tmp_path: Path, name: str, requests: int, total: int, read_: int, output: int
) -> None:
    read = Read(tmp_path, shared(f"pi_session/{name}"))
    assert read.requests.height == requests
    assert (read.total("input_tokens"), read.total("cache_read_tokens")) == (total, read_)
    assert read.total("output_tokens") == output


def test_openclaw(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("other_agents/openclaw/large.jsonl"))
    assert (read.requests.height, read.sessions["agent"].to_list()) == (3, ["openclaw"])
    assert read.column("input_tokens") == [None] * 3
