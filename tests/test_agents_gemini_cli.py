"""Gemini CLI chats."""

from __future__ import annotations

from pathlib import Path

from tests.agents import SAMPLES, Read, lines, shared


def test_upserts_and_rewinds(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "gemini_cli" / "chat.jsonl")
    assert read.column("input_tokens") == [9000, 9100, 9118]
    assert read.column("output_tokens") == [35, 8, 3]
    assert read.column("trigger") == ["user", "tool", "user"]
    assert read.column("duration_s") == [2.0, 2.0, 1.0]
    assert read.receipt["records"] == {"read": 11, "used": 8, "rejected": 0, "duplicate": 1, "ignored": 2}


def test_a_whole_chat(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "gemini_cli" / "chat.json")
    assert (read.total("input_tokens"), read.total("output_tokens"), read.total("reasoning_tokens")) == (8000, 10, 6)


def test_set_replaces_all_messages(tmp_path: Path) -> None:
    tokens = {"input": 50, "output": 1, "cached": 0, "thoughts": 0, "tool": 0, "total": 51}
    answer = {"id": "b", "type": "gemini", "content": "x", "tokens": tokens}
    path = lines(
        tmp_path,
        "session.jsonl",
        {"sessionId": "s", "projectHash": "0", "startTime": "2026-03-01T10:00:00Z"},
        {"id": "a", "type": "gemini", "content": "old", "tokens": {**tokens, "input": 9}},
        {"$set": {"messages": [{"id": "u", "type": "user", "content": "hi"}, answer]}},
    )
    read = Read(tmp_path, path)
    assert read.column("input_tokens") == [50]
    assert read.receipt["records"]["duplicate"] == 1


def test_the_providers_totals_come_out(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("gemini_cli/agtrace/gemini_session.json"))
    assert read.requests.height == 7
    assert (read.total("input_tokens"), read.total("cache_read_tokens")) == (67273, 43377)
    assert (read.total("output_tokens"), read.total("reasoning_tokens")) == (677, 377)


def test_old_histories_are_read(tmp_path: Path) -> None:
    assert Read(tmp_path, shared("gemini_cli/agent-sessions/schema_drift.json")).requests.height == 1
