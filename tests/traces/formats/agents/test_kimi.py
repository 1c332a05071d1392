"""Kimi Code sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, lines, refused, shared


def test_steps_are_calls_and_a_compaction_is_one_too(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "kimi" / "wire.jsonl")
    assert read.column("input_tokens") == [10000, 10060, 10300]
    assert read.column("cache_read_tokens") == [1000, 10000, 10000]
    assert read.column("ttft_s") == [1.5, None, None]
    assert read.column("trigger")[:2] == ["user", "tool"]
    assert read.receipt["failed_attempts"] == 1  # asked, and never answered
    assert read.receipt["records"] == {"read": 21, "used": 11, "rejected": 0, "duplicate": 3, "ignored": 7}


def test_shared(tmp_path: Path) -> None:
    read = Read(tmp_path / "a", shared("other_agents/kimi/assistant_tools.jsonl"))
    assert read.requests.height == 23  # one for each usage.record
    sub = Read(tmp_path / "b", shared("other_agents/kimi/subagent_agent-0.jsonl"))
    assert (sub.total("input_tokens"), sub.sessions["role"].to_list()) == (41321, ["subagent"])
    receipt = refused(tmp_path, shared("other_agents/kimi/small.jsonl"))
    assert receipt["failed_attempts"] == 13


def test_code_wire_prompts_that_the_context_does_not_have(tmp_path: Path) -> None:
    def prompt(text: str) -> dict[str, Any]:
        return {"type": "turn.prompt", "input": [{"type": "text", "text": text}], "time": 1784950600264}

    def step(tokens: int) -> list[dict[str, Any]]:
        said = {"type": "content.part", "part": {"type": "text", "text": "ok"}}
        end = {"type": "step.end", "usage": {"inputOther": tokens, "output": 1}}
        return [{"type": "context.append_loop_event", "event": e, "time": 1784950601264} for e in (said, end)]

    start = {"type": "metadata", "protocol_version": "1.4"}
    message = {"role": "user", "content": [{"type": "text", "text": "one"}]}
    known = {"type": "context.append_message", "message": message, "time": 1784950600264}
    log = [start, prompt("one"), known, *step(100), prompt("two"), *step(200)]
    read = Read(tmp_path, lines(tmp_path, "wire.jsonl", *log))
    assert (read.column("input_tokens"), read.column("trigger")) == ([100, 200], ["user", "user"])
    assert read.receipt["records"]["duplicate"] == 1


def _wire(at_s: float, kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": 1779000000.0 + at_s, "message": {"type": kind, "payload": payload}}


def _step(at_s: float, name: str, fresh: int, cached: int) -> list[dict[str, Any]]:
    usage = {"input_other": fresh, "output": 7, "input_cache_read": cached, "input_cache_creation": 0}
    return [
        _wire(at_s, "StepBegin", n=1),
        _wire(at_s + 1, "ContentPart", type="text", text=name),
        _wire(at_s + 2, "StatusUpdate", token_usage=usage, message_id=name),
        _wire(at_s + 2, "StatusUpdate", context_usage=0.1),
    ]


START = {"type": "metadata", "protocol_version": "1.3"}
CALL = {"type": "function", "id": "c1", "function": {"name": "Task", "arguments": "{}"}}
CONTEXT = [{"role": "_system_prompt", "content": "You are Kimi."}, {"role": "user", "content": "go"}]
CONTEXT += [{"role": "assistant", "content": "a"}, {"role": "_usage", "token_count": 9}]


def test_cli_wire_sub_agents_and_interrupted_steps(tmp_path: Path) -> None:
    inner = [{"type": "TurnBegin", "payload": {"user_input": "look"}}, *(e["message"] for e in _step(5, "s", 50, 40))]
    log = [
        START,
        _wire(0, "TurnBegin", user_input="go"),
        *_step(1, "a", 900, 0)[:2],
        _wire(2, "ToolCall", **CALL),
        _step(1, "a", 900, 0)[2],
        *(_wire(5, "SubagentEvent", parent_tool_call_id="c1", event=event) for event in inner),
        _wire(8, "ToolResult", tool_call_id="c1", return_value={"output": "found"}),
        *_step(9, "b", 100, 900),
        _wire(20, "StepBegin", n=2),
        _wire(21, "ContentPart", type="text", text="cut"),
        _wire(22, "StepInterrupted"),
        _wire(22, "TurnEnd"),
    ]
    folder = tmp_path / "sessions" / "9f"
    lines(folder, "context.jsonl", *CONTEXT)
    lines(folder, "wire.jsonl", *log)
    read = Read(tmp_path, tmp_path / "sessions")
    assert read.column("input_tokens") == [900, 90, 1000, None]
    assert read.column("cache_read_tokens") == [0, 40, 900, None]
    assert read.sessions["role"].to_list() == ["main", "subagent"]
    assert read.sessions["spawn_request_id"].to_list() == [None, 0]
    assert "system" in read.roles(0)


def test_cli_context_alone_has_no_lengths(tmp_path: Path) -> None:
    read = Read(tmp_path, lines(tmp_path, "context.jsonl", *CONTEXT))
    assert (read.requests.height, read.column("input_tokens")) == (1, [None])
