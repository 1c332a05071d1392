"""pi's and OpenClaw's sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, lines, shared


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


@pytest.mark.parametrize(("version", "kept"), [(None, True), (2, True), (3, False)])
def test_an_aborted_answer_is_sent_back_by_old_versions_only(tmp_path: Path, version: int | None, kept: bool) -> None:
    def message(role: str, text: str, total: int = 0, **more: Any) -> dict[str, Any]:
        usage = {"usage": {"input": total, "output": 20, "cacheRead": 0, "cacheWrite": 0}} if total else {}
        body = {"role": role, "content": [{"type": "text", "text": text}], **usage, **more}
        return {"type": "message", "timestamp": "2026-03-01T00:00:00Z", "message": body}

    head = {"type": "session", "id": "s", "cwd": "/", "timestamp": "2026-03-01T00:00:00Z"}
    entries = [
        head if version is None else {**head, "version": version},
        message("user", "Do it"),
        message("assistant", "Half an answer " * 90, 1000, stopReason="aborted"),
        message("user", "Again"),
        message("assistant", "Yes", 1500, stopReason="stop"),
    ]
    read = Read(tmp_path, lines(tmp_path, "s.jsonl", *entries))
    assert read.column("input_tokens") == [1000, 1500]
    assert read.shared(0, 1) == 1000
    assert ("assistant" in read.roles(1)) == kept


def test_command_code_has_usage_beside_the_message(tmp_path: Path) -> None:
    def entry(name: str, role: str, parent: str | None, **more: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": role}]
        message = {"role": role, "content": content, "meta": {"messageId": f"m-{name}"}}
        at = "2026-10-04T01:02:12.025Z"
        return {"type": "message", "id": name, "parentId": parent, "timestamp": at, "message": message, **more}

    def usage(tokens: int, read: int) -> dict[str, Any]:
        counts = {"inputTokens": tokens, "outputTokens": 5, "cacheReadTokens": read, "cacheWriteTokens": 0}
        return {"usage": {**counts, "costUsd": 0.1}, "model": "moonshotai/Kimi-K3"}

    header = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-10-04T01:01:52.824Z", "cwd": "/w"}
    entries = [entry("1", "user", None), entry("2", "assistant", "1", **usage(27869, 7680))]
    entries += [entry("3", "user", "2"), entry("4", "assistant", "3", **usage(35118, 34048))]
    first = lines(tmp_path, "s1.jsonl", header, *entries)
    read = Read(tmp_path, first)
    assert (read.column("input_tokens"), read.column("cache_read_tokens")) == ([27869, 35118], [7680, 34048])
    assert read.sessions["agent"].to_list() == ["command_code"]
    assert read.column("model") == ["moonshotai/Kimi-K3"] * 2


def test_command_code_without_usage(tmp_path: Path) -> None:
    def message(name: str, role: str, *content: dict[str, Any]) -> dict[str, Any]:
        at = "2026-06-16T05:58:15.580Z"
        return {"id": name, "sessionId": "s", "timestamp": at, "role": role, "content": [*content], "gitBranch": "main"}

    text = {"type": "text", "text": "hello"}
    call = {"type": "tool-call", "toolCallId": "t", "toolName": "shell_command", "input": {"command": "ls"}}
    result = {"type": "tool-result", "toolCallId": "t", "output": {"type": "text", "value": "a.py"}}
    log = [message("1", "user", text), message("2", "assistant", {"type": "reasoning", "text": "hm"}, call)]
    log += [message("3", "tool", result), message("4", "assistant", text)]
    read = Read(tmp_path, lines(tmp_path, "s.jsonl", *log))
    assert (read.column("input_tokens"), read.column("work")) == ([None, None], ["execute", "other"])
    assert read.column("trigger") == ["user", "tool"]
    assert read.roles(1) == {"user", "reasoning", "assistant", "tool_result"}


def test_the_providers_id_names_an_answer(tmp_path: Path) -> None:
    """A copy whose time was written anew is a copy; a server that gives every answer the same id makes no copies."""

    def session(key: str, *answers: tuple[str, int]) -> list[dict[str, Any]]:
        head = {"type": "session", "version": 3, "id": key, "cwd": "/", "timestamp": "2026-03-01T00:00:00Z"}
        tokens = {"output": 9, "cacheRead": 0, "cacheWrite": 0}
        said = [
            {"role": "assistant", "content": [], "responseId": name, "timestamp": at}
            | {"stopReason": "stop", "usage": {"input": 100 + at % 7, **tokens}}
            for name, at in answers
        ]
        return [head, *({"type": "message", "timestamp": "2026-03-01T00:00:00Z", "message": one} for one in said)]

    a = lines(tmp_path, "a.jsonl", *session("a", ("resp_1", 1), ("same", 2), ("same", 3)))
    b = lines(tmp_path, "b.jsonl", *session("b", ("resp_1", 8), ("resp_2", 9)))
    assert Read(tmp_path, a, b).requests.height == 4
