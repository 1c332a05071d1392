"""opencode's storage tree, database, export and event stream."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from tests.agents import SAMPLES, Read, lines, shared, whole

STORAGE = SAMPLES / "opencode" / "storage"


def _check(read: Read) -> None:
    assert read.column("input_tokens") == [12004, 12409, 900]
    assert read.column("cache_read_tokens") == [0, 12100, 0]
    assert read.column("output_tokens") == [50, 30, 10]
    assert read.column("trigger") == ["user", "tool", "tool"]
    assert read.sessions["role"].to_list() == ["main", "subagent"]
    assert read.sessions["parent_session_id"].to_list() == [None, 0]
    assert read.sessions["spawn_request_id"].to_list() == [None, 0]


def test_a_storage_tree_is_one_input_and_a_step_one_call(tmp_path: Path) -> None:
    read = Read(tmp_path, STORAGE)
    _check(read)
    assert read.receipt["formats"] == {"opencode": 1}
    assert read.receipt["files"] == {"read": 17, "skipped": 0, "failed": 0}


def test_the_database(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "opencode.db")
    base.execute("CREATE TABLE `session` (`id` text, `project_id` text, `parent_id` text, `data` text)")
    base.execute("CREATE TABLE `message` (`id` text, `session_id` text, `time_created` integer, `data` text)")
    base.execute("CREATE TABLE `part` (`id` text, `message_id` text, `session_id` text, `data` text)")
    for path in sorted(STORAGE.rglob("*.json")):
        value = json.loads(path.read_text())
        kind = path.relative_to(STORAGE).parts[0]
        own = value.pop("id")
        if kind == "session":
            row = (own, value.pop("projectID"), value.pop("parentID", None), json.dumps(value))
            base.execute("INSERT INTO session VALUES (?, ?, ?, ?)", row)
        elif kind == "message":
            row = (own, value.pop("sessionID"), 0, json.dumps(value))
            base.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
        else:
            row = (own, value.pop("messageID"), value.pop("sessionID"), json.dumps(value))
            base.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
    base.commit()
    base.close()
    _check(Read(tmp_path, tmp_path / "opencode.db"))


def test_an_export_and_an_event_stream(tmp_path: Path) -> None:
    tokens = {"input": 5, "output": 2, "reasoning": 0, "cache": {"read": 100, "write": 0}}
    part = {"id": "p", "type": "step-finish", "reason": "stop", "tokens": tokens, "messageID": "m", "sessionID": "s"}
    text = {"id": "o", "type": "text", "text": "Hi", "messageID": "m", "sessionID": "s"}
    info = {"id": "s", "projectID": "p", "directory": "/home/me", "time": {"created": 1772359200000}}
    message = {"info": {"id": "m", "sessionID": "s", "role": "assistant"}, "parts": [text, part]}
    export = whole(tmp_path, "export.json", {"info": info, "messages": [message]})
    assert Read(tmp_path / "a", export).column("input_tokens") == [105]
    events = [{"type": k, "timestamp": 1772359200000, "sessionID": "s", "part": p} for k, p in
              (("text", text), ("step_finish", part))]  # fmt: skip
    assert Read(tmp_path / "b", lines(tmp_path, "run.jsonl", *events)).column("input_tokens") == [105]


def test_shared_trees(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("opencode"))
    assert read.requests.height == 4
    assert (read.total("input_tokens"), read.total("output_tokens")) == (120, 16)
    assert read.receipt["files"]["failed"] == 0
    assert read.receipt["files"]["skipped"] == 0
