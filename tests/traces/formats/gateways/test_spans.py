"""Spans as OTLP JSON, as plain JSON and as Phoenix exports: leaf model calls only, whatever type a count has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.formats.gateways.reading import SHARED, lines, read, shared
from traces.dataset.layout import Dataset
from traces.intake.ingest import NothingUsable


def test_counts_as_texts_and_agent_totals(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "otlp" / "agent.jsonl")
    assert receipt["formats"] == {"otlp": 1}
    assert receipt["records"] == {"read": 4, "used": 2, "rejected": 0, "duplicate": 0, "ignored": 2}
    assert table["input_tokens"].to_list() == [1000, 1200]
    assert table["cache_read_tokens"].to_list() == [0, 960]
    assert table["output_tokens"].sum() == 90
    assert table["arrival_s"].to_list() == [0.0, 2.5]
    assert receipt["warnings"] == []  # the agent's own total is the sum of its calls
    assert str(table["started_at"][0]) == "2026-01-01 00:00:01+00:00"


def test_shared_case_17(tmp_path: Path) -> None:
    folder = SHARED / "cases" / "17-otlp-intvalue-and-agent-span"
    expected = json.loads((folder / "expected.json").read_text())
    _, table = read(tmp_path, folder / "input.jsonl")
    assert table.height == expected["requests"]
    assert table["input_tokens"].sum() == expected["input_tokens"]
    assert table["cache_read_tokens"].sum() == expected["cached_input_tokens"]
    assert table["cache_read_tokens"].sum() / table["input_tokens"].sum() == expected["hit_rate"]


def test_a_trace_without_model_calls_says_so(tmp_path: Path) -> None:
    with pytest.raises(NothingUsable) as caught:
        read(tmp_path, shared("otlp_genai", "sample-1_VSGitHubCopilot_traces.jsonl"))
    receipt = caught.value.receipt
    assert receipt["records"]["ignored"] == receipt["records"]["read"] == 4
    assert any("no span of a model call" in warning for warning in receipt["warnings"])


def test_every_flat_file(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, shared("otel_genai_flat"))
    assert receipt["formats"] == {"otel_flat": 4}
    assert receipt["records"]["used"] == receipt["records"]["read"] == 15 + 12 + 7 + 3
    assert set(table["prompt_completeness"]) == {"full"}


def test_a_previous_call_as_parent_is_no_wrapper(tmp_path: Path) -> None:
    _, table = read(tmp_path, SAMPLES / "otel_flat" / "prefix_sharing_example.json")
    assert table["input_tokens"].to_list() == [50, 45, 100, 180, 270, 380, 40]
    turns = table[2:6]
    assert turns["session_id"].n_unique() == 1
    assert turns["turn"].to_list() == [0, 1, 2, 3]


def test_text_without_usage_is_counted_and_shared(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "otel_flat" / "simple_chain.json")
    assert receipt["tokenizer"] == "o200k_base"
    assert table["input_tokens"].to_list() == table["prefix_tokens"].to_list()
    assert table["input_tokens"].is_sorted()
    prefixes = Dataset(tmp_path / "dataset").read("prefixes")
    parents = dict(prefixes.select("prefix_id", "parent_id").rows())
    at, above = table["prefix_id"][2], []
    while at:
        above.append(at)
        at = parents[at]
    assert table["prefix_id"][0] in above
    assert table["prefix_id"][1] in above


def _attribute(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value}}
    return {"key": key, "value": {"intValue": str(value)}}


def _span(identity: str, parent: str, start: int, end: int, **attributes: Any) -> dict[str, Any]:
    return {
        "traceId": "a" * 32,
        "spanId": identity,
        "parentSpanId": parent,
        "name": identity,
        "startTimeUnixNano": str(1_767_225_600_000_000_000 + start * 10**9),
        "endTimeUnixNano": str(1_767_225_600_000_000_000 + end * 10**9),
        "attributes": [_attribute(k.replace("__", "."), v) for k, v in attributes.items()],
    }


def _otlp(tmp_path: Path, *spans: dict[str, Any]) -> Path:
    return lines(tmp_path / "spans.jsonl", [{"resourceSpans": [{"scopeSpans": [{"spans": [s]}]}]} for s in spans])


def test_wrappers_sub_agents_and_copies(tmp_path: Path) -> None:
    chat = {"gen_ai__operation__name": "chat", "gen_ai__conversation__id": "c"}
    agent = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "coder"}
    usage = {"gen_ai__usage__input_tokens": 10, "gen_ai__usage__output_tokens": 1}
    file = _otlp(
        tmp_path,
        _span("inner", "wrapper", 3, 4, **chat, **usage),
        _span("wrapper", "sub", 2, 5, **chat, **usage),
        _span("sub", "main", 2, 6, **agent),
        _span("first", "main", 1, 2, **chat, **usage),
        _span("main", "", 0, 9, **agent, **usage),
        _span("first", "main", 1, 2, **chat, **usage),
    )
    receipt, table = read(tmp_path, file)
    assert receipt["records"] == {"read": 6, "used": 2, "rejected": 0, "duplicate": 1, "ignored": 3}
    assert any("1 of 1 agent runs report totals that differ" in warning for warning in receipt["warnings"])
    assert table["input_tokens"].to_list() == [10, 10]
    sessions = {r["session_id"]: r for r in Dataset(tmp_path / "dataset").read("sessions").iter_rows(named=True)}
    main, sub = table["session_id"].to_list()
    assert sessions[sub]["parent_session_id"] == main
    assert (sessions[main]["role"], sessions[sub]["role"]) == ("main", "subagent")


def test_bad_counts_and_ids_are_rejects(tmp_path: Path) -> None:
    chat = {"gen_ai__operation__name": "chat"}
    nameless = _span("x", "", 0, 1, **chat)
    del nameless["spanId"]
    file = _otlp(
        tmp_path,
        _span("bad", "", 0, 1, **chat, gen_ai__usage__input_tokens="many"),
        nameless,
        _span("good", "", 0, 1, **chat, gen_ai__usage__input_tokens=5),
    )
    receipt, table = read(tmp_path, file)
    assert receipt["records"] == {"read": 3, "used": 1, "rejected": 2, "duplicate": 0, "ignored": 0}
    assert table["output_tokens"].to_list() == [None]


def test_messages_of_the_convention_are_the_prompt(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "parts": [{"type": "text", "content": "list the files please"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "ls", "arguments": {"path": "."}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "a.py"}]},
    ]
    output = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "edit_file", "arguments": {}}]}]
    file = _otlp(
        tmp_path,
        _span(
            "one", "", 0, 1,
            gen_ai__operation__name="chat",
            gen_ai__input__messages=json.dumps(messages),
            gen_ai__output__messages=json.dumps(output),
            gen_ai__system_instructions=json.dumps([{"type": "text", "content": "be careful"}]),
        ),
    )  # fmt: skip
    _, table = read(tmp_path, file)
    row = table.row(0, named=True)
    assert (row["trigger"], row["work"], row["prompt_completeness"]) == ("tool", "edit", "full")
    roles = set(Dataset(tmp_path / "dataset").read("prefixes")["role"])
    assert {"system", "user", "assistant", "tool_result"} <= roles


def _phoenix(identity: str, kind: str, attributes: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    return {
        "id": f"row {identity}",
        "name": "ChatCompletion",
        "context": {"trace_id": "t1", "span_id": identity},
        "span_kind": kind,
        "parent_id": parent,
        "start_time": "2026-01-01T00:00:00+00:00",
        "end_time": "2026-01-01T00:00:02+00:00",
        "status_code": "OK",
        "attributes": attributes,
        "events": [],
    }


NESTED = {
    "session": {"id": "s1"},
    "llm": {
        "model_name": "gpt-x",
        "token_count": {"prompt": 100, "completion": 7, "prompt_details": {"cache_read": 64}},
        "input_messages": [{"message": {"role": "user", "content": "hello there, please help"}}],
        "output_messages": [
            {
                "message": {
                    "role": "assistant",
                    "tool_calls": [{"tool_call": {"function": {"name": "bash", "arguments": "{}"}}}],
                }
            }
        ],
    },
}
DOTTED = {
    "session.id": "s1",
    "llm.model_name": "gpt-x",
    "llm.token_count.prompt": 100,
    "llm.token_count.completion": 7,
    "llm.token_count.prompt_details.cache_read": 64,
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "hello there, please help",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "bash",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
}


@pytest.mark.parametrize("attributes", [NESTED, DOTTED])
def test_phoenix_spans(tmp_path: Path, attributes: dict[str, Any]) -> None:
    spans = [_phoenix("a", "AGENT", {}), _phoenix("b", "LLM", attributes, "a"), _phoenix("c", "TOOL", {}, "a")]
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"data": spans}))
    receipt, table = read(tmp_path, file)
    assert receipt["formats"] == {"openinference": 1}
    row = table.row(0, named=True)
    assert (row["input_tokens"], row["cache_read_tokens"], row["output_tokens"]) == (100, 64, 7)
    assert (row["work"], row["prefix_tokens"], row["prompt_completeness"]) == ("execute", 100, "full")
    assert receipt["records"]["ignored"] == 2


def test_phoenix_dataframe_lines(tmp_path: Path) -> None:
    row = {"context.span_id": "b", "context.trace_id": "t", "span_kind": "LLM", "start_time": 1_767_225_600_000}
    row |= {f"attributes.{name}": value for name, value in DOTTED.items()}
    receipt, table = read(tmp_path, lines(tmp_path / "frame.jsonl", [row]))
    assert receipt["formats"] == {"openinference": 1}
    assert table["input_tokens"].to_list() == [100]


def test_loose_spans_as_phoenix_hands_them_out(tmp_path: Path) -> None:
    span = _span(
        "a", "", 0, 1, openinference__span__kind="LLM", llm__token_count__prompt=9, llm__token_count__completion=2
    )
    snake = {
        "trace_id": "t",
        "span_id": "b",
        "start_time_unix_nano": 1_767_225_600_000_000_000,
        "end_time_unix_nano": 1_767_225_601_000_000_000,
        "attributes": [
            {"key": "openinference.span.kind", "value": {"string_value": "LLM"}},
            {"key": "llm.token_count.prompt", "value": {"int_value": 8}},
        ],
    }
    file = tmp_path / "spans.json"
    file.write_text(json.dumps({"data": [span, snake], "next_cursor": None}))
    receipt, table = read(tmp_path, file)
    assert receipt["formats"] == {"otlp": 1}
    assert sorted(table["input_tokens"].to_list()) == [8, 9]


def test_spans_of_the_ai_sdk_by_its_own_names(tmp_path: Path) -> None:
    def span(name: str, above: str | None, operation: str, **usage: int) -> dict[str, Any]:
        names = {f"ai.usage.{field}": count for field, count in usage.items()}
        message = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
        asked = {"ai.prompt.messages": json.dumps(message), "ai.response.text": "hello", "ai.model.id": "gpt-5"}
        times = {"startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:00:05Z"}
        attributes = {"ai.operationId": operation, "ai.model.provider": "openai.chat", **asked, **names}
        return {
            "traceId": "t",
            "spanId": name,
            "parentSpanId": above,
            "name": operation,
            **times,
            "attributes": attributes,
        }

    outer = span("a", None, "ai.generateText", inputTokens=100, outputTokens=10)
    call = span("b", "a", "ai.generateText.doGenerate", inputTokens=100, cachedInputTokens=60, outputTokens=10)
    receipt, table = read(tmp_path, lines(tmp_path / "spans.jsonl", [outer, call]))
    assert receipt["formats"] == {"otel_flat": 1}
    figures = table.select("input_tokens", "cache_read_tokens", "output_tokens").rows()
    assert figures == [(100, 60, 10)]
