"""Aider's analytics and chat history, and OpenClaw's telemetry: logs without prompts."""

from __future__ import annotations

from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared


def test_analytics(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "aider_analytics" / "events.jsonl")
    assert (read.column("input_tokens"), read.column("output_tokens")) == ([10006, 500], [81, 9])
    assert read.column("session_id") == [0, 1]  # a cleared chat starts again
    assert read.sessions["session_source"].to_list() == ["inferred", "inferred"]
    assert read.column("arrival_s") == [0.0, 2.0]


def test_history(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "aider_history" / "chat.md")
    assert read.column("input_tokens") == [2930, 194 + 9474, 15000, 21539]
    assert read.column("cache_read_tokens") == [2728, 9474, 1600, 320]
    assert read.column("cache_write_tokens") == [None, None, 13000, None]
    assert read.column("output_tokens") == [18, 7, 133, 9]
    assert read.column("model") == ["anthropic/claude-sonnet-4-5"] * 3 + ["deepseek/deepseek-chat"]
    assert read.column("session_id") == [0, 0, 0, 1]
    assert any("1 of 4 lines" in w for w in read.receipt["warnings"])


def test_telemetry(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "openclaw_telemetry" / "events.jsonl")
    assert read.column("input_tokens") == [None, None]
    assert read.column("work") == ["execute", "unknown"]
    assert read.receipt["records"] == {"read": 6, "used": 2, "rejected": 0, "duplicate": 1, "ignored": 3}


def test_shared(tmp_path: Path) -> None:
    analytics = Read(tmp_path / "a", shared("aider_analytics/sample-analytics.head500.jsonl"))
    assert (analytics.requests.height, analytics.total("input_tokens")) == (62, 1405830)
    history = Read(tmp_path / "b", shared("aider_history/chat-history.slice1.md"))
    assert history.requests.height == 185
    telemetry = Read(tmp_path / "c", shared("openclaw_telemetry/sample-telemetry.jsonl"))
    assert telemetry.sessions.height == 5
