"""What `claude -p --output-format stream-json` prints."""

from __future__ import annotations

import json
from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared, whole

STREAM = SAMPLES / "claude_code_stream_json" / "stream.jsonl"


def _check(read: Read) -> None:
    assert read.column("input_tokens") == [15004, 3005, 15094]
    assert read.column("output_tokens") == [60, 8, 12]  # the last usage of an answer, not the first
    assert read.column("cache_read_tokens") == [0, 0, 15000]
    assert read.sessions["role"].to_list() == ["main", "subagent"]
    assert read.sessions["spawn_request_id"].to_list() == [None, 0]
    assert read.column("trigger") == ["unknown", "tool", "tool"]
    assert read.column("work") == ["plan", "other", "other"]


def test_lines(tmp_path: Path) -> None:
    _check(Read(tmp_path, STREAM))


def test_an_array(tmp_path: Path) -> None:
    events = [json.loads(line) for line in STREAM.read_text().splitlines()]
    _check(Read(tmp_path, whole(tmp_path, "turns.json", events)))


def test_shared(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("claude_code_stream_json/sample-turns.json"))
    assert (read.requests.height, read.total("input_tokens"), read.total("output_tokens")) == (4, 945, 265)
