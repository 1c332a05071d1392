"""Cline, Roo Code and Kilo Code tasks."""

from __future__ import annotations

import json
from pathlib import Path

from tests.agents import SAMPLES, Read, whole

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
    told = {"tokensIn": 5000, "tokensOut": 3, "cacheReads": 4000, "apiProtocol": "openai"}
    shown = [{"ts": 1772359200000, "type": "say", "say": "api_req_started", "text": json.dumps(told)}]
    read = Read(tmp_path, whole(tmp_path, "ui_messages.json", shown))
    assert (read.column("input_tokens"), read.column("cache_read_tokens")) == ([5000], [4000])


def test_the_command_lines_session(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "session.messages.json")
    assert (read.column("input_tokens"), read.column("model")) == ([7003], ["claude-sonnet-4-5"])
