"""opencode's storage tree, database, export and event stream."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, lines, shared, whole

STORAGE = SAMPLES / "opencode" / "storage"
MOMENT = 1772359200000


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


def _tokens(read: int, new: int) -> dict[str, Any]:
    return {"input": 0, "output": 20, "reasoning": 0, "cache": {"read": read, "write": new}}


def _message(name: str, role: str, at: int, *parts: dict[str, Any], **about: Any) -> dict[str, Any]:
    info = {"id": name, "sessionID": "s", "role": role, "time": {"created": MOMENT + at * 1000}, **about}
    return {"info": info, "parts": [{"id": f"{name}{n}", "messageID": name, **p} for n, p in enumerate(parts)]}


def _export(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"id": "s", "projectID": "p", "directory": "/home/me"}, "messages": list(messages)}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _end(read: int, new: int) -> dict[str, Any]:
    return {"type": "step-finish", "reason": "stop", "tokens": _tokens(read, new)}


def _pruned(cleared: int | None) -> dict[str, Any]:
    """Two steps, the first of which read a file, and a second question; `cleared` is when the file was pruned."""

    time = {"start": MOMENT + 12000, "end": MOMENT + 13000}
    time |= {"compacted": MOMENT + cleared * 1000} if cleared else {}
    state = {"status": "completed", "input": {"filePath": "a"}, "output": "long " * 800, "time": time}
    return _export(
        _message("m1", "user", 10, {"type": "text", "text": "Read it"}),
        _message(
            "m2",
            "assistant",
            11,
            {"type": "tool", "tool": "read", "callID": "c1", "state": state},
            {"type": "step-finish", "reason": "tool-calls", "tokens": _tokens(0, 1000)},
            {"type": "text", "text": "Done", "time": {"start": MOMENT + 14000, "end": MOMENT + 15000}},
            {"type": "step-finish", "reason": "stop", "tokens": _tokens(1000, 4000)},
        ),
        _message("m3", "user", 20, {"type": "text", "text": "More " * 1200}),
        _message(
            "m4",
            "assistant",
            21,
            {"type": "text", "text": "Yes", "time": {"start": MOMENT + 22000, "end": MOMENT + 23000}},
            {"type": "step-finish", "reason": "stop", "tokens": _tokens(0, 6000)},
        ),
    )


@pytest.mark.parametrize(("cleared", "kept"), [(None, 5000), (16, 1020), (25, 5000)])
def test_a_result_that_was_pruned_is_a_notice_in_later_prompts(tmp_path: Path, cleared: int | None, kept: int) -> None:
    read = Read(tmp_path, whole(tmp_path, "export.json", _pruned(cleared)))
    assert read.column("input_tokens") == [1000, 5000, 6000]
    assert read.column("trigger") == ["user", "tool", "user"]
    assert read.shared(0, 1) == 1000
    assert kept - 20 < read.shared(1, 2) <= kept  # the call that came before it is some twenty tokens


@pytest.mark.parametrize(("error", "kept"), [("APIError", False), ("MessageAbortedError", True), (None, True)])
def test_an_answer_that_failed_is_in_no_later_prompt_but_one_that_was_stopped_is(
    tmp_path: Path, error: str | None, kept: bool
) -> None:
    about = {"error": {"name": error, "data": {}}} if error else {}
    export = _export(
        _message("m1", "user", 10, _text("Do it")),
        _message("m2", "assistant", 11, _text("Half an answer " * 90), _end(0, 1000), **about),
        _message("m3", "user", 20, _text("Again"), {"type": "text", "text": "not sent " * 500, "ignored": True}),
        _message("m4", "assistant", 21, _text("Yes"), _end(0, 1500)),
        _message("m5", "user", 30, _text("More")),
        _message("m6", "assistant", 31, _text("Yes"), _end(0, 1600)),
    )
    read = Read(tmp_path, whole(tmp_path, "export.json", export))
    assert read.column("input_tokens") == [1000, 1500, 1600]
    assert read.shared(0, 1) == 1000
    assert read.shared(1, 2) == 1500
    assert ("assistant" in read.roles(1)) == kept


def _second(folder: Path, *rows: tuple[str, dict[str, Any]], earlier: bool = False) -> Path:
    """A database of OpenCode 2; with `earlier` the first row is in the earlier tables too."""
    base = sqlite3.connect(folder / "opencode.db")
    base.execute("CREATE TABLE session_v2 (id TEXT, project_id TEXT, version TEXT, time_created INTEGER)")
    base.execute("INSERT INTO session_v2 VALUES ('ses', 'p', '2.0.1', 1786000000000)")
    base.execute(
        "CREATE TABLE session_message (id TEXT, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, "
        "time_updated INTEGER, data TEXT)"
    )
    for at, (kind, data) in enumerate(rows):
        value = json.dumps({**data, "time": {"created": 1786000000000 + 1000 * at}})
        base.execute("INSERT INTO session_message VALUES (?, 'ses', ?, ?, 0, 0, ?)", (f"m{at}", kind, at, value))
    if earlier:
        for table in ("session", "message", "part"):
            base.execute(f"CREATE TABLE {table} (id TEXT, session_id TEXT, message_id TEXT, data TEXT)")
        value = json.dumps({"role": "user", "time": {"created": 1786000000000}})
        base.execute("INSERT INTO message VALUES ('old', 'ses', NULL, ?)", (value,))
        base.execute("INSERT INTO part VALUES ('p', 'ses', 'old', '{\"type\": \"text\", \"text\": \"go\"}')")
    base.commit()
    base.close()
    return folder / "opencode.db"


def _step(fresh: int, read: int, *content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    tokens = {"input": fresh, "output": 5, "reasoning": 2, "cache": {"read": read, "write": 0}}
    model = {"id": "claude-sonnet-4-6", "providerID": "anthropic"}
    return "assistant", {"model": model, "content": list(content), "tokens": tokens, "finish": "stop"}


LS = {"status": "completed", "input": {"command": "ls"}, "content": [{"type": "text", "text": "a.py"}]}
TOOL = {"type": "tool", "id": "c", "name": "bash", "state": LS, "time": {"created": 1786000001000}}
SECOND = [
    ("user", {"text": "go"}),
    _step(900, 0, {"type": "reasoning", "text": "hm"}, TOOL),
    ("model-switched", {"model": {"id": "x"}}),
    _step(100, 900, {"type": "text", "text": "done"}),
    ("compaction", {"reason": "auto", "summary": "so far", "recent": "done"}),
    _step(50, 0, {"type": "text", "text": "more"}),
]


@pytest.mark.parametrize("earlier", [False, True])
def test_the_tables_of_opencode_2(earlier: bool, tmp_path: Path) -> None:
    read = Read(tmp_path, _second(tmp_path, *SECOND, earlier=earlier))
    assert (read.column("input_tokens"), read.column("output_tokens")) == ([900, 1000, 50], [7, 7, 7])
    assert read.column("compaction") == [False, False, True]
    assert read.column("work") == ["execute", "other", "other"]
    assert read.column("model") == ["claude-sonnet-4-6"] * 3
    assert read.roles(1) >= {"user", "reasoning", "assistant", "tool_result"}
    assert read.receipt["records"]["duplicate"] == earlier
