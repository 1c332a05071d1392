"""Inputs that are known and not read are refused by name, with what to give instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.traces.formats.agents.reading import lines, refused, whole

CODEX = [
    {"type": "thread.started", "thread_id": "019f"},
    {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "hi"}},
    {"type": "turn.completed", "usage": {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 1}},
]
KIRO_CLI = {"version": "v1", "kind": "AssistantMessage", "data": {"content": [{"kind": "text", "data": "hello"}]}}
KIRO_IDE = {"id": "2", "timestamp": "t", "payload": {"type": "assistant", "operationType": "Say", "content": "hello"}}
KIRO_CHAT = {"executionId": "e", "actionId": "a", "chat": [{"role": "human", "content": "hi"}], "metadata": {}}
KIRO_SAVED = {"conversation_id": "c", "history": [], "valid_history_range": [0, 0], "transcript": []}
CASCADE = {"trajectoryId": "t", "steps": [{"type": "CORTEX_STEP_TYPE_PLANNER_RESPONSE", "plannerResponse": {}}]}

KNOWN: dict[str, tuple[list[Any], str]] = {
    "codex.jsonl": (CODEX, "codex exec"),
    "resumed.jsonl": (CODEX[1:], "codex exec"),
    "kiro-cli.jsonl": ([KIRO_CLI], "Kiro"),
    "kiro-ide.jsonl": ([KIRO_IDE], "Kiro"),
    "kiro.chat": ([KIRO_CHAT], "Kiro"),
    "kiro-saved.json": ([KIRO_SAVED], "Kiro"),
    "cascade.json": ([CASCADE], "Windsurf"),
}


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("name", KNOWN)
def test_agents_whose_files_are_not_read(name: str, pretty: bool, tmp_path: Path) -> None:
    records, said = KNOWN[name]
    one = records if len(records) > 1 else records[0]
    path = whole(tmp_path, name, one) if pretty else lines(tmp_path, name, *records)
    receipt = json.dumps(refused(tmp_path, path))
    assert said in receipt
    assert "give" in receipt.lower()


@pytest.mark.parametrize(
    ("name", "data"),
    [("chat.md", b"# Cascade Chat Conversation\n\n### User Input\n\nhi\n"), ("1.pb", b"\x0a\x00\x12\x00" * 20)],
)
def test_windsurf(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    assert "Windsurf" in json.dumps(refused(tmp_path, tmp_path / name))
