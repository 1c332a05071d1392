"""One answer that several model calls made: each is a request with its own counts and its own prompt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.traces.formats.gateways.reading import lines, read
from traces.dataset.layout import Dataset
from traces.usage.passes import passes


def _usage(fresh: int, written: int, read: int, output: int, **more: Any) -> dict[str, Any]:
    counts = {"cache_creation_input_tokens": written, "cache_read_input_tokens": read}
    return {"input_tokens": fresh, **counts, "output_tokens": output, **more}


COMPACTION = _usage(100, 55_096, 0, 131, type="compaction")
ANSWER = _usage(229, 0, 0, 5, type="message")


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (_usage(229, 0, 0, 5), []),
        (_usage(229, 0, 0, 5, iterations=[ANSWER]), []),
        (_usage(229, 0, 0, 5, iterations=[COMPACTION, ANSWER]), [("compaction", 55_196), ("message", 229)]),
        # a gateway that adds all passes up, under names of its own
        (
            {"prompt_tokens": 55_425, "completion_tokens": 136, "iterations": [COMPACTION, ANSWER]},
            [("compaction", 55_196), ("message", 229)],
        ),
        (_usage(100, 55_325, 0, 5, iterations=[COMPACTION, ANSWER]), [("compaction", 55_196), ("message", 229)]),
        (_usage(0, 0, 0, 0, iterations=[COMPACTION]), [("compaction", 55_196)]),
        (_usage(777, 0, 0, 5, iterations=[COMPACTION, ANSWER]), []),  # figures that fit nothing
        (_usage(229, 0, 0, 5, iterations=[{}, ANSWER]), []),
        (_usage(229, 0, 0, 5, iterations=[None, ANSWER]), []),
        (_usage(229, 0, 0, 5, iterations="two"), []),
    ],
)
def test_passes_of_a_usage_object(usage: dict[str, Any], counts: list[tuple[str, int]]) -> None:
    assert [(one.kind, one.usage.input_tokens) for one in passes(usage)] == counts


def _pair(at: int, messages: list[dict[str, Any]], content: list[dict[str, Any]], usage: dict[str, Any]) -> Any:
    return {
        "url": "https://api.anthropic.com/v1/messages",
        "timestamp": f"2026-01-01T00:00:0{at}Z",
        "request": {"model": "claude-x", "system": "Be brief.", "messages": messages},
        "response": {
            "id": f"msg_{at}",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": content,
            "usage": usage,
            "stop_reason": "end_turn",
        },
    }


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


COLUMNS = ["input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "stop_reason", "compaction"]


def test_a_compaction_is_a_call_of_its_own_and_what_follows_extends_what_it_left(tmp_path: Path) -> None:
    first = _user("word " * 3000)
    summary = {"type": "compaction", "content": "They said a word many times."}
    answer = {"type": "text", "text": "Hello!"}
    usage = _usage(60, 0, 0, 4, iterations=[_usage(3, 3000, 0, 20, type="compaction"), _usage(60, 0, 0, 4)])
    later = [first, {"role": "assistant", "content": [summary, answer]}, _user("And now?")]
    pairs = [
        _pair(0, [first], [summary, answer], usage),
        _pair(1, later, [answer], _usage(80, 0, 0, 4)),
    ]
    receipt, table = read(tmp_path, lines(tmp_path / "pairs.jsonl", pairs))
    assert receipt["requests"] == 3
    assert receipt["records"] == {"read": 3, "used": 3, "rejected": 0, "duplicate": 0, "ignored": 0}
    assert table.select(COLUMNS).rows() == [
        (3003, 0, 3000, 20, "compaction", False),
        (60, 0, 0, 4, "end_turn", True),
        (80, 0, 0, 4, "end_turn", False),
    ]
    assert table["session_id"].to_list() == [0, 0, 0]
    assert table["prefix_tokens"].to_list() == [3003, 60, 80]
    assert _shared(tmp_path, table, 1, 2) == 60  # the whole prompt after the compaction
    assert 0 < _shared(tmp_path, table, 0, 1) < 10  # the system prompt alone


def _shared(tmp_path: Path, table: pl.DataFrame, one: int, other: int) -> int:
    nodes = {r["prefix_id"]: r for r in Dataset(tmp_path / "dataset").read("prefixes").iter_rows(named=True)}

    def path(row: int) -> dict[int, int]:
        at, found = table["prefix_id"][row], {}
        while at:
            found[at], at = nodes[at]["end_token"], nodes[at]["parent_id"]
        return found

    return max((end for at, end in path(one).items() if at in path(other)), default=0)


def test_a_server_side_tool_is_read_again_from_its_result_on(tmp_path: Path) -> None:
    question = _user("What is new about the harbour bridge?")
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "Let me look."},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "harbour bridge"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"type": "text", "text": "open " * 60}]},
        {"type": "text", "text": "It is open."},
    ]
    usage = _usage(160, 0, 0, 30, iterations=[_usage(40, 0, 0, 20), _usage(120, 0, 0, 10)])
    later = [question, {"role": "assistant", "content": content}, _user("Thanks.")]
    pairs = [_pair(0, [question], content, usage), _pair(1, later, [content[0]], _usage(140, 0, 0, 5))]
    _, table = read(tmp_path, lines(tmp_path / "pairs.jsonl", pairs))
    assert table["input_tokens"].to_list() == table["prefix_tokens"].to_list() == [40, 120, 140]
    assert table["output_tokens"].to_list() == [20, 10, 5]
    assert table["trigger"].to_list() == ["user", "tool", "user"]
    assert [_shared(tmp_path, table, at, at + 1) for at in (0, 1)] == [40, 120]


def test_an_advisor_is_another_model_and_a_declined_attempt_left_nothing(tmp_path: Path) -> None:
    advised = _usage(70, 0, 0, 9, iterations=[
        _usage(30, 0, 0, 4), _usage(900, 0, 0, 50, type="advisor_message", model="claude-y"), _usage(40, 0, 0, 5),
    ])  # fmt: skip
    declined = _usage(50, 0, 0, 6, iterations=[
        _usage(50, 0, 0, 1, model="claude-x"), _usage(50, 0, 0, 6, type="fallback_message", model="claude-y"),
    ])  # fmt: skip
    text = [{"type": "text", "text": "Yes."}]
    pairs = [_pair(0, [_user("Is it?")], text, advised), _pair(1, [_user("Is it not?")], text, declined)]
    _, table = read(tmp_path, lines(tmp_path / "pairs.jsonl", pairs))
    assert table.select("input_tokens", "output_tokens", "model").rows() == [
        (30, 4, "claude-x"),
        (900, 50, "claude-y"),
        (40, 5, "claude-x"),
        (50, 1, "claude-x"),
        (50, 6, "claude-y"),
    ]


def test_passes_of_a_copy_are_copies(tmp_path: Path) -> None:
    usage = _usage(229, 0, 0, 5, iterations=[COMPACTION, ANSWER])
    pair = _pair(0, [_user("x " * 2000)], [{"type": "compaction", "content": "x"}], usage)
    again = {"note": "copied", **pair}
    receipt, table = read(tmp_path, lines(tmp_path / "a.jsonl", [pair]), lines(tmp_path / "b.jsonl", [again]))
    assert table["input_tokens"].to_list() == [55_196, 229]
    assert receipt["records"]["duplicate"] == 2


def test_a_transcript_of_a_stream_counts_each_pass(tmp_path: Path) -> None:
    def event(kind: str, content: Any, at: int, **more: Any) -> dict[str, Any]:
        message = {"role": kind, "content": content, **more}
        return {"type": kind, "session_id": "s", "timestamp": f"2026-01-01T00:00:0{at}Z", "message": message}

    usage = _usage(229, 0, 0, 5, iterations=[COMPACTION, ANSWER])
    text = [{"type": "text", "text": "Hello!"}]
    events = [
        {"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "2.1.0"},
        event("user", "Hi", 1),
        event("assistant", text, 2, id="msg_0", usage=_usage(3, 50_000, 0, 9), stop_reason="end_turn"),
        event("user", "Go on", 3),
        event("assistant", text, 4, id="msg_1", usage=usage, stop_reason="end_turn"),
        event("user", "And on", 5),
        event("assistant", text, 6, id="msg_2", usage=_usage(250, 0, 0, 7), stop_reason="end_turn"),
    ]
    receipt, table = read(tmp_path, lines(tmp_path / "stream.jsonl", events))
    assert receipt["formats"] == {"claude_code_stream_json": 1}
    assert table.select(COLUMNS).rows() == [
        (50_003, 0, 50_000, 9, "end_turn", False),
        (55_196, 0, 55_096, 131, "compaction", False),
        (229, 0, 0, 5, "end_turn", True),
        (250, 0, 0, 7, "end_turn", False),
    ]
    assert table["prefix_tokens"].to_list() == [50_003, 55_196, 229, 250]
    assert _shared(tmp_path, table, 0, 1) == 50_003
    assert _shared(tmp_path, table, 2, 3) == 229


def test_a_claude_code_transcript_counts_each_pass(tmp_path: Path) -> None:
    def line(at: int, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        ids = {"uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None, "sessionId": "s", "isSidechain": False}
        return {"type": kind, **ids, "timestamp": f"2026-01-01T00:00:0{at}Z", "version": "2.1.0", "message": message}

    def answer(at: int, usage: dict[str, Any]) -> dict[str, Any]:
        content = [{"type": "text", "text": "Hello!"}]
        message = {"id": f"msg_{at}", "role": "assistant", "model": "claude-x", "content": content, "usage": usage}
        return line(at, "assistant", {**message, "stop_reason": "end_turn"})

    def person(at: int) -> dict[str, Any]:
        return line(at, "user", {"role": "user", "content": f"Go on {at}"})

    declined = [
        _usage(2, 0, 50_000, 1, type="message", model="claude-y"),
        _usage(2, 20, 50_000, 6, type="fallback_message"),
    ]
    rows = [
        person(0),
        answer(1, _usage(3, 50_000, 0, 9, iterations=[_usage(3, 50_000, 0, 9, type="message")])),
        person(2),
        answer(3, _usage(2, 20, 50_000, 6, iterations=declined)),
        person(4),
        answer(5, _usage(229, 0, 0, 5, iterations=[COMPACTION, ANSWER])),
        person(6),
        answer(7, _usage(250, 0, 0, 7)),
    ]
    receipt, table = read(tmp_path, lines(tmp_path / "s.jsonl", rows))
    assert receipt["formats"] == {"claude_code": 1}
    assert receipt["records"]["used"] == 10
    assert table.select(COLUMNS).rows() == [
        (50_003, 0, 50_000, 9, "end_turn", False),
        (50_002, 50_000, 0, 1, "tool_use", False),
        (50_022, 50_000, 20, 6, "end_turn", False),
        (55_196, 0, 55_096, 131, "compaction", False),
        (229, 0, 0, 5, "end_turn", True),
        (250, 0, 0, 7, "end_turn", False),
    ]
    assert table["model"].to_list() == ["claude-x", "claude-y", "claude-x", "claude-x", "claude-x", "claude-x"]
    assert table["prefix_tokens"].to_list() == table["input_tokens"].to_list()
    assert _shared(tmp_path, table, 2, 3) == 50_022
    assert _shared(tmp_path, table, 4, 5) == 229


def test_litellm_adds_the_passes_up_and_they_are_told_apart_again(tmp_path: Path) -> None:
    row = {
        "id": "chatcmpl-1", "call_type": "acompletion", "status": "success", "custom_llm_provider": "anthropic",
        "model": "claude-x", "startTime": 1_780_000_000.0, "endTime": 1_780_000_009.0, "prompt_tokens": 55_425,
        "completion_tokens": 136, "total_tokens": 55_561, "messages": [{"role": "user", "content": "x"}],
        "response": {"id": "chatcmpl-1"}, "stream": False, "response_time": 9.0, "model_parameters": {},
        "metadata": {"usage_object": {
            "prompt_tokens": 55_425, "completion_tokens": 136, "total_tokens": 55_561,
            "cache_creation_input_tokens": 55_096, "cache_read_input_tokens": 0, "iterations": [COMPACTION, ANSWER],
        }},
    }  # fmt: skip
    file = tmp_path / "row.json"
    file.write_text(json.dumps(row))
    receipt, table = read(tmp_path, file)
    assert receipt["formats"] == {"litellm": 1}
    assert table["input_tokens"].to_list() == [55_196, 229]
