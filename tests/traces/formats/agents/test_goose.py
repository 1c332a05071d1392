"""Goose sessions."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, whole

HERE = SAMPLES / "goose"
LENGTHS = [len("List"), len('ListI look.shell{"command":"ls"}a.py')]


def test_lines(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "session.jsonl")
    assert (read.column("prefix_tokens"), read.column("input_tokens")) == (LENGTHS, [None, None])
    assert read.column("trigger") == ["user", "tool"]
    assert read.column("work") == ["execute", "other"]
    assert read.column("duration_s") == [2.0, 2.0]
    assert any("total of input tokens is 800" in w for w in read.receipt["warnings"])


def test_chunks_of_one_message_are_one_call(tmp_path: Path) -> None:
    assert Read(tmp_path, HERE / "stream.jsonl").requests.height == 1


@pytest.mark.parametrize("wal", [False, True])
def test_the_database(wal: bool, tmp_path: Path) -> None:
    """As it is, or with everything still in the write-ahead log of an open connection."""
    base = sqlite3.connect(tmp_path / "sessions.db")
    base.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
    base.execute("PRAGMA wal_autocheckpoint = 0")
    base.execute(
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, created_at TIMESTAMP, session_type TEXT, "
        "accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER, model_config_json TEXT)"
    )
    base.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT, "
        "content_json TEXT, created_timestamp INTEGER, metadata_json TEXT)"
    )
    base.execute("INSERT INTO sessions VALUES ('s', '2026-03-01', 'user', 900, 800, '{\"model_name\": \"gpt-5\"}')")
    for line in (HERE / "session.jsonl").read_text().splitlines()[1:]:
        m = json.loads(line)
        base.execute(
            "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp) "
            "VALUES (?, 's', ?, ?, ?)",
            (m["id"], m["role"], json.dumps(m["content"]), m["created"]),
        )
    base.commit()
    if not wal:
        base.close()
    before = {path.name: path.read_bytes() for path in tmp_path.glob("sessions.db*")}
    read = Read(tmp_path, tmp_path / "sessions.db")
    assert {path.name: path.read_bytes() for path in tmp_path.glob("sessions.db*")} == before
    assert (read.receipt["formats"], len(before)) == ({"goose": 1}, 3 if wal else 1)
    assert (read.column("prefix_tokens"), read.column("model")) == (LENGTHS, ["gpt-5", "gpt-5"])
    assert read.column("input_tokens") == [None, None]  # the session's own total is not what is visible here


def test_a_compaction_starts_again_and_what_it_hid_was_in_the_prompts_before(tmp_path: Path) -> None:
    def message(role: str, text: str, agent: bool = True, user: bool = True, kind: str = "text") -> dict[str, Any]:
        about = {"userVisible": user, "agentVisible": agent}
        key = "msg" if kind == "systemNotification" else "text"
        return {"role": role, "created": 1772359200, "content": [{"type": kind, key: text}], "metadata": about}

    conversation = [
        message("user", "one", agent=False),
        message("assistant", "two", agent=False),
        message("user", "three", agent=False, user=False),  # sent again behind the summary
        message("user", "SUMMARY", user=False),
        message("assistant", "continue", user=False),
        message("assistant", "Compaction complete", agent=False, kind="systemNotification"),
        message("user", "three"),
        message("assistant", "four"),
    ]
    session = {"id": "s", "working_dir": "/home/me", "session_type": "sub_agent", "conversation": conversation}
    read = Read(tmp_path, whole(tmp_path, "export.json", session))
    assert read.receipt["formats"] == {"goose": 1}
    assert read.column("input_tokens") == [len("one"), len("SUMMARYcontinuethree")]
    assert read.column("compaction") == [False, True]
    assert read.sessions["role"].to_list() == ["subagent"]
    assert read.receipt["records"]["ignored"] == 2


def test_a_block_whose_type_is_no_text_is_no_notice(tmp_path: Path) -> None:
    lines = (
        (HERE / "session.jsonl").read_text().replace('"type":"text","text":"List"', '"type":[null],"text":"List"', 1)
    )
    assert '"type":[null]' in lines
    (tmp_path / "session.jsonl").write_text(lines)
    assert Read(tmp_path, tmp_path / "session.jsonl").requests.height == 2
