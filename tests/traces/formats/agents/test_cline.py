"""Cline, Roo Code and Kilo Code tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, whole

HERE = SAMPLES / "cline"


def test_a_tasks_two_files_are_one_session(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "task")
    assert read.receipt["formats"] == {"cline": 1}
    assert read.column("input_tokens") == [9010, 9112]
    assert read.column("cache_read_tokens") == [0, 9000]
    assert read.column("cache_write_tokens") == [9000, 100]
    assert read.column("work") == ["explore", "other"]
    assert read.receipt["failed_attempts"] == 1


def test_calls_whose_messages_are_gone(tmp_path: Path) -> None:
    shown = json.loads((HERE / "task" / "ui_messages.json").read_text())
    read = Read(tmp_path, whole(tmp_path, "ui_messages.json", shown))
    assert read.column("input_tokens") == [9010, 9112]


def test_input_includes_cached_tokens_under_the_openai_protocol(tmp_path: Path) -> None:
    usage = {"tokensIn": 5000, "tokensOut": 3, "cacheReads": 4000, "apiProtocol": "openai"}
    shown = [{"ts": 1772359200000, "type": "say", "say": "api_req_started", "text": json.dumps(usage)}]
    read = Read(tmp_path, whole(tmp_path, "ui_messages.json", shown))
    assert (read.column("input_tokens"), read.column("cache_read_tokens")) == ([5000], [4000])


def _shown(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    usage = []
    for at, call in enumerate(calls):
        more = {"conversationHistoryDeletedRange": call.pop("left_out")} if "left_out" in call else {}
        usage.append(
            {"ts": 1772359200000 + 2000 * at, "type": "say", "say": "api_req_started", "text": json.dumps(call), **more}
        )
    return usage


@pytest.mark.parametrize(
    ("calls", "totals"),
    [
        # before Roo 3.29.5: the first call's cached tokens do not exceed its input, the second's do
        ([(5000, 4000, 0), (12, 100, 9000)], [9000, 9112]),
        # since then
        ([(9000, 4000, 0), (9112, 100, 9000)], [9000, 9112]),
    ],
)
def test_what_the_anthropic_protocols_input_means_is_told_by_the_task(
    calls: list[tuple[int, int, int]], totals: list[int], tmp_path: Path
) -> None:
    shown = _shown(
        *(
            {"tokensIn": n, "tokensOut": 1, "cacheWrites": w, "cacheReads": r, "apiProtocol": "anthropic"}
            for n, w, r in calls
        )
    )
    read = Read(tmp_path, whole(tmp_path, "ui_messages.json", shown))
    assert read.column("input_tokens") == totals


def _task(tmp_path: Path, history: Any, *calls: dict[str, Any]) -> Read:
    folder = tmp_path / "tasks" / "t"
    folder.mkdir(parents=True)
    whole(folder, "api_conversation_history.json", history)
    whole(folder, "ui_messages.json", _shown(*calls))
    return Read(tmp_path, folder)


def _said(role: str, text: str, at: int, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], "ts": 1772359200000 + 2000 * at, **more}


def test_roos_second_version_holds_the_ai_sdks_messages(tmp_path: Path) -> None:
    call = {"type": "tool-call", "toolCallId": "t1", "toolName": "read_file", "input": {"path": "a.py"}}
    result = {
        "type": "tool-result",
        "toolCallId": "t1",
        "toolName": "read_file",
        "output": {"type": "text", "value": "1"},
    }
    thought = {"type": "reasoning", "encrypted_content": "xyz", "summary": [], "ts": 1772359200500}
    messages = [
        _said("user", "Fix it", 0),
        thought,
        {"role": "assistant", "content": [call], "ts": 1772359201000},
        {"role": "tool", "content": [result], "ts": 1772359201500},
        _said("assistant", "Done.", 1),
    ]
    counts = {"tokensOut": 5, "apiProtocol": "openai"}
    read = _task(
        tmp_path, {"version": 2, "messages": messages}, {"tokensIn": 9000, **counts}, {"tokensIn": 9100, **counts}
    )
    assert read.receipt["formats"] == {"cline": 1}
    assert read.column("input_tokens") == read.column("prefix_tokens") == [9000, 9100]
    assert read.column("work") == ["explore", "other"]
    assert read.column("trigger") == ["user", "tool"]
    assert "tool_result" in set(read.nodes["role"])


def test_after_a_summary_only_messages_without_a_mark_are_sent(tmp_path: Path) -> None:
    gone = {"condenseParent": "c"}
    history = [
        _said("user", "first " * 200, 0),
        _said("assistant", "long " * 300, 1, **gone),
        _said("user", "more", 2, **gone),
        _said("assistant", "A summary.", 3, isSummary=True, condenseId="c"),
        _said("user", "go on", 4),
        _said("assistant", "Yes.", 5),
    ]
    counts = {"tokensOut": 300, "apiProtocol": "openai"}
    read = _task(tmp_path, history, {"tokensIn": 5250, **counts}, {"tokensIn": 5300, **counts})
    assert read.column("input_tokens") == [5250, 5300]
    assert read.column("compaction") == [False, True]
    assert read.shared(0, 1) >= 5250 - 10  # the head and the first message were kept


def test_a_range_that_was_left_out_is_in_no_later_prompt(tmp_path: Path) -> None:
    history = [_said(role, f"{role} {at} " * 50, at) for at, role in enumerate(["user", "assistant"] * 3)]
    calls = [{"tokensIn": 9000 + n, "tokensOut": 700} for n in (0, 1200, 1300)]
    calls[2]["left_out"] = [2, 3]
    read = _task(tmp_path, history, *calls)
    assert read.column("compaction") == [False, False, True]
    assert read.shared(0, 1) == 9000
    assert 9000 <= read.shared(0, 2) < 10_000  # the first two messages are still sent


def test_the_command_lines_session(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "session.messages.json")
    assert (read.column("input_tokens"), read.column("model")) == ([7003], ["claude-sonnet-4-5"])


@pytest.mark.parametrize("manifest", ["1_demo.json", None])
def test_a_command_lines_input_includes_cached_tokens(manifest: str | None, tmp_path: Path) -> None:
    def answer(tokens: int, cached: int) -> dict[str, Any]:
        metrics = {"inputTokens": tokens, "outputTokens": 9, "cacheReadTokens": cached, "cacheWriteTokens": 0}
        return {
            "role": "assistant",
            "content": [{"type": "text", "text": "ok"}],
            "ts": 1780000004000,
            "metrics": metrics,
        }

    asked = {"role": "user", "content": [{"type": "text", "text": "go"}], "ts": 1780000000000}
    log = {"sessionId": "1_demo", "messages": [asked, answer(20000, 0), asked, answer(24000, 18000)]}
    folder = tmp_path / "sessions" / "1_demo"
    whole(folder, "1_demo.messages.json", log)
    if manifest:
        totals = {"inputTokens": 44000, "cacheReadTokens": 18000}
        about = {"session_id": "1_demo", "provider": "cline", "model": "m", "started_at": "2026-05-28T20:26:40Z"}
        whole(folder, manifest, {**about, "metadata": {"usage": totals}})
    read = Read(tmp_path, folder)
    assert (read.column("input_tokens"), read.total("cache_read_tokens")) == ([20000, 24000], 18000)
    assert (read.receipt["warnings"], read.receipt.get("rejects", [])) == ([], [])
