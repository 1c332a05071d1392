"""Gemini CLI chats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, lines, shared


def test_upserts_and_rewinds(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "gemini_cli" / "chat.jsonl")
    assert read.column("input_tokens") == [9000, 9100, 9120, 9118]  # the third was rewound: it was made all the same
    assert read.column("output_tokens") == [35, 8, 2, 3]
    assert read.column("trigger") == ["user", "tool", "user", "user"]
    assert read.column("duration_s") == [2.0, 2.0, 1.0, 1.0]
    assert read.shared(1, 3) == 9100
    assert 9100 < read.shared(2, 3) < 9118  # the answer before the rewind was sent again
    assert read.receipt["records"] == {"read": 11, "used": 10, "rejected": 0, "duplicate": 1, "ignored": 0}


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
    assert read.column("input_tokens") == [9, 50]
    assert read.column("compaction") == [False, True]


def test_a_compressed_history_keeps_the_calls_before_it(tmp_path: Path) -> None:
    def answer(name: str, tokens: int | None) -> dict[str, Any]:
        message = {"id": name, "type": "gemini", "content": f"answer {name}"}
        counts = {"input": tokens, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 0}
        return message if tokens is None else {**message, "tokens": counts}

    def person(name: str) -> dict[str, Any]:
        return {"id": name, "type": "user", "content": f"question {name}"}

    kept = {"id": "b", "type": "gemini", "content": "answer b"}  # the history's version has no counts
    path = lines(
        tmp_path,
        "chats/parent-1/child.jsonl",
        {"sessionId": "child", "projectHash": "0", "startTime": "2026-03-01T10:00:00Z", "kind": "subagent"},
        person("q1"),
        answer("a", 5000),
        person("q2"),
        answer("b", 5020),
        {"$set": {"messages": [person("summary"), answer("thanks", None), kept]}},
        person("q3"),
        answer("c", 5011),
        {"$set": {"messages": [person("summary"), answer("thanks", None), kept, person("q3"), answer("c", None)]}},
        {"$rewindTo": "nothing of that name"},
        person("q4"),
        answer("d", 4990),
    )
    read = Read(tmp_path, path)
    assert read.column("input_tokens") == read.column("prefix_tokens") == [5000, 5020, 5011, 4990]
    assert read.column("compaction") == [False, False, True, False]
    assert read.sessions["role"].to_list() == ["subagent"]
    assert read.sessions["parent_session_id"].to_list() == [None]  # parent-1 is in no input


def test_the_providers_totals_come_out(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("gemini_cli/agtrace/gemini_session.json"))
    assert read.requests.height == 7
    assert (read.total("input_tokens"), read.total("cache_read_tokens")) == (67273, 43377)
    assert (read.total("output_tokens"), read.total("reasoning_tokens")) == (677, 377)


def test_old_histories_are_read(tmp_path: Path) -> None:
    assert Read(tmp_path, shared("gemini_cli/agent-sessions/schema_drift.json")).requests.height == 1
