"""LiteLLM, Langfuse, LangSmith, Helicone, Gemini answers, Cline recordings and managed agents."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.places import SAMPLES
from tests.traces.formats.gateways.reading import lines, read, shared
from traces.dataset.layout import Dataset


def _counts(table: Any) -> list[tuple[Any, ...]]:
    return table.select("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens").rows()


# Gemini ----------------------------------------------------------------------------------------------------------


def test_gemini_streams_count_their_last_chunk(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "gemini_api" / "hooks-system.multiple-events.responses")
    assert receipt["formats"] == {"gemini_api": 1}
    assert _counts(table) == [
        (12622, None, None, 119),
        (12836, 12204, None, None),
        (12836, 12204, None, None),
        (12759, 12199, None, 227),
    ]
    assert table["reasoning_tokens"].to_list() == [91, None, None, 223]
    assert table["work"].to_list()[0] == "edit"


def test_every_recorded_gemini_file(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, shared("gemini_api_responses"))
    assert receipt["formats"] == {"gemini_api": 2}
    assert receipt["records"]["rejected"] == 0
    assert table["input_tokens"].sum() == 12622 + 2 * 12836 + 12759 + 2 * 12282 + 2 * 1223
    assert table["cache_read_tokens"].drop_nulls().sum() == 2 * 12204 + 12199 + 11883


# Cline -----------------------------------------------------------------------------------------------------------


def test_calls_in_flight_together_miss_each_other(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "cline_http_fixture" / "subagents.json")
    assert receipt["formats"] == {"cline_http_fixture": 1}
    assert receipt["records"] == {"read": 5, "used": 4, "rejected": 0, "duplicate": 0, "ignored": 1}
    assert _counts(table) == [(5315, 0, 5312, 17)] * 3 + [(5445, 0, 5442, 66)]


def test_every_cline_file(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, shared("cline_http_fixture"))
    assert receipt["records"]["rejected"] == 0
    assert table.height == 10
    assert table["input_tokens"].sum() == 19993 + 53273


# LiteLLM ---------------------------------------------------------------------------------------------------------


def test_litellm_payload(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "litellm" / "standard_logging_payload.json")
    assert receipt["formats"] == {"litellm": 1}
    assert _counts(table) == [(10, None, None, 20)]
    assert str(table["started_at"][0]) == "2025-01-24 09:20:46.847371+00:00"
    assert table["duration_s"].to_list() == [0.004583]


def _payload(identity: str, **more: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "session_id": "s",
        "call_type": "acompletion",
        "status": "success",
        "custom_llm_provider": "anthropic",
        "startTime": 1_767_225_600.5,
        "completionStartTime": 1_767_225_601.5,
        "endTime": 1_767_225_602.5,
        "model": "claude-x",
        "cache_hit": False,
        "prompt_tokens": 110,
        "completion_tokens": 7,
        "total_tokens": 117,
        "messages": [{"role": "user", "content": "hello"}],
        "hidden_params": {},
        **more,
    }


def test_litellm_counts_attempts_and_its_own_cache(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 110,
        "completion_tokens": 7,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 9,
    }
    file = lines(
        tmp_path / "log.jsonl",
        [
            _payload("a", metadata={"usage_object": usage, "user_agent": "claude-cli/2.0.1 (external)"}),
            _payload("a", metadata={"usage_object": usage}),  # the same call, logged twice
            _payload("b", status="failure", prompt_tokens=0, total_tokens=0),
            _payload("c", cache_hit=True),
            _payload("d"),
            _payload("e", call_type="aembedding"),
        ],
    )
    receipt, table = read(tmp_path, file)
    assert receipt["records"] == {"read": 6, "used": 2, "rejected": 0, "duplicate": 1, "ignored": 3}
    assert receipt["failed_attempts"] == 1
    assert _counts(table) == [(110, 90, 9, 7), (110, None, None, 7)]
    assert table["ttft_s"].to_list() == [1.0, 1.0]
    sessions = Dataset(tmp_path / "dataset").read("sessions")
    assert sessions.select("agent", "agent_version", "session_source").rows() == [("claude_code", "2.0.1", "native")]


def test_litellm_spend_logs(tmp_path: Path) -> None:
    row = {
        "request_id": "r1",
        "call_type": "acompletion",
        "spend": 0.1,
        "startTime": "2026-01-01T00:00:00",
        "endTime": "2026-01-01T00:00:02",
        "completionStartTime": "2026-01-01T00:00:01",
        "model": "gpt-x",
        "prompt_tokens": 50,
        "completion_tokens": 5,
        "total_tokens": 55,
        "cache_hit": "False",
        "session_id": "s",
        "metadata": json.dumps({"usage_object": {"prompt_tokens": 50, "prompt_tokens_details": {"cached_tokens": 32}}}),
        "messages": "{}",
    }
    receipt, table = read(
        tmp_path, lines(tmp_path / "spend.jsonl", [row, {**row, "request_id": "r2", "total_tokens": 0}])
    )
    assert receipt["formats"] == {"litellm": 1}
    assert table["cache_read_tokens"].to_list() == [32, 32]
    assert table["prompt_completeness"].to_list() == ["lengths", "lengths"]


# Langfuse --------------------------------------------------------------------------------------------------------

LANGFUSE = {
    "beeai-2025-08-01": (3, 1195 + 1988 + 2359, None),
    "claude-agent-2025-12-22": (4, 19 + 5 + 5 + 5, 232),
    "google-adk-2025-08-28": (2, 28 + 39, 9),
    "langgraph-python-2025-08-22": (2, 60 + 108, 66),
    "openai-agents-2025-09-30": (2, 55 + 85, 44),
    "pydantic-ai-tools-2025-12-04": (4, 265 + 417 + 502 + 131, 209),
    "vercel-aisdk-2025-11-17": (1, 62, 85),  # the outer ai.generateText is a wrapper with other figures
}


@pytest.mark.parametrize("name", LANGFUSE)
def test_langfuse_generations(name: str, tmp_path: Path) -> None:
    receipt, table = read(tmp_path, shared("langfuse", f"{name}.trace.json"))
    assert receipt["formats"] == {"langfuse": 1}
    assert (table.height, receipt["input_tokens"], receipt["output_tokens"]) == LANGFUSE[name]
    assert receipt["records"]["rejected"] == 0


def test_langfuse_sample(tmp_path: Path) -> None:
    _, table = read(tmp_path, SAMPLES / "langfuse" / "vercel-aisdk-2025-11-17.trace.json")
    assert _counts(table) == [(62, None, None, 85)]


def _generation(identity: str, usage: dict[str, int], **more: Any) -> dict[str, Any]:
    return {
        "id": identity,
        "traceId": "t",
        "type": "GENERATION",
        "name": "call",
        "startTime": "2026-01-01T00:00:00Z",
        "endTime": "2026-01-01T00:00:02Z",
        "completionStartTime": "2026-01-01T00:00:00.500Z",
        "parentObservationId": None,
        "model": "m",
        "usageDetails": usage,
        "sessionId": "s",
        **more,
    }


def test_langfuse_buckets_are_disjoint_where_they_add_up(tmp_path: Path) -> None:
    disjoint = {"input": 10, "input_cached_tokens": 90, "output": 5, "output_reasoning_tokens": 2, "total": 107}
    inclusive = {"input": 100, "input_cached_tokens": 90, "output": 7, "output_reasoning_tokens": 2, "total": 107}
    anthropic = {
        "input": 10,
        "cache_read_input_tokens": 80,
        "cache_creation_input_tokens": 10,
        "output": 7,
        "total": 107,
    }
    file = lines(
        tmp_path / "observations.jsonl",
        [_generation("a", disjoint), _generation("b", inclusive), _generation("c", anthropic)],
    )
    receipt, table = read(tmp_path, file)
    assert receipt["formats"] == {"langfuse": 1}
    assert _counts(table) == [(100, 90, None, 7), (100, 90, None, 7), (100, 80, 10, 7)]
    assert table["ttft_s"].to_list() == [0.5] * 3
    assert table["session_id"].n_unique() == 1


# LangSmith -------------------------------------------------------------------------------------------------------


def test_langsmith_batches(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "langsmith" / "langsmith_py_wrap_openai_reasoning.json")
    assert receipt["formats"] == {"langsmith": 1}
    assert _counts(table) == [(43, 0, None, 2497)]
    assert table["reasoning_tokens"].to_list() == [1408]


def test_langsmith_stream_has_a_first_token(tmp_path: Path) -> None:
    _, table = read(tmp_path, shared("langsmith", "langsmith_py_wrap_openai_stream.json"))
    assert _counts(table) == [(9, 0, None, 9)]
    assert table["ttft_s"][0] == pytest.approx(1.238419)


def test_langsmith_runs_and_threads(tmp_path: Path) -> None:
    run = {
        "id": "r1",
        "trace_id": "r0",
        "parent_run_id": "r0",
        "dotted_order": "x",
        "run_type": "llm",
        "session_id": "a project, no conversation",
        "start_time": "2026-01-01T00:00:00",
        "end_time": "2026-01-01T00:00:01",
        "inputs": {"messages": [[{"id": ["langchain", "HumanMessage"], "kwargs": {"content": "hi"}}]]},
        "outputs": {
            "generations": [[{"message": {"kwargs": {"content": "ok", "usage_metadata": {
                "input_tokens": 100, "output_tokens": 4, "input_token_details": {"cache_read": 60, "cache_creation": 30}
            }}}}]]
        },
        "extra": {"metadata": {"thread_id": "thread", "ls_provider": "anthropic", "ls_model_name": "claude-x"}},
    }  # fmt: skip
    chain = {**run, "id": "r0", "parent_run_id": None, "run_type": "chain", "outputs": {}}
    receipt, table = read(tmp_path, lines(tmp_path / "runs.jsonl", [chain, run]))
    assert receipt["formats"] == {"langsmith": 1}
    assert _counts(table) == [(100, 60, 30, 4)]
    assert table["trigger"].to_list() == ["user"]


def test_managed_agents(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "managed_agents" / "anthropic_managed_builtin_tools.jsonl")
    assert receipt["formats"] == {"managed_agents": 1}
    assert _counts(table) == [(7128, 7126, 0, 46), (7201, 7174, 25, 34)]
    assert table["prompt_completeness"].to_list() == ["no_head", "no_head"]
    assert table["trigger"].to_list() == ["user", "tool"]
    assert table["work"].to_list() == ["execute", "unknown"]


def test_managed_agents_with_mcp(tmp_path: Path) -> None:
    _, table = read(tmp_path, shared("langsmith", "anthropic_managed_mcp_tools.jsonl"))
    assert _counts(table) == [(7782, 0, 7780, 151), (10246, 7780, 2464, 284)]


# Helicone --------------------------------------------------------------------------------------------------------


def _helicone(identity: str, path: str, **more: Any) -> dict[str, Any]:
    return {
        "request_id": identity,
        "request_created_at": "2026-01-01T00:00:00Z",
        "response_created_at": "2026-01-01T00:00:03Z",
        "response_status": 200,
        "delay_ms": 3000,
        "time_to_first_token": 250,
        "request_model": "gpt-x",
        "provider": "OPENAI",
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "prompt_cache_read_tokens": 64,
        "prompt_cache_write_tokens": None,
        "request_properties": {"Helicone-Session-Id": "s", "Helicone-Session-Path": path},
        **more,
    }


def test_helicone_sessions_and_providers(tmp_path: Path) -> None:
    claude = {"provider": "ANTHROPIC", "request_model": "claude-x", "prompt_cache_write_tokens": 6}
    file = lines(
        tmp_path / "requests.jsonl",
        [
            _helicone("a", "/task"),
            _helicone("b", "/task/search", **claude),
            _helicone("c", "/task", response_status=429),
        ],
    )
    receipt, table = read(tmp_path, file)
    assert receipt["formats"] == {"helicone": 1}
    assert _counts(table) == [(100, 64, None, 5), (170, 64, 6, 5)]
    assert receipt["failed_attempts"] == 1
    assert table["ttft_s"].to_list() == [0.25, 0.25]
    sessions = {r["session_id"]: r for r in Dataset(tmp_path / "dataset").read("sessions").iter_rows(named=True)}
    main, sub = table["session_id"].to_list()
    assert sessions[sub]["parent_session_id"] == main


def test_helicones_own_cache_is_told_by_the_reference_and_its_newer_columns_are_without_cached_tokens(
    tmp_path: Path,
) -> None:
    file = lines(
        tmp_path / "requests.jsonl",
        [
            # switched on, but answered by the provider
            _helicone("a", "/t", cache_enabled=True, cache_reference_id="00000000-0000-0000-0000-000000000000"),
            _helicone("b", "/t", cache_enabled=True, cache_reference_id="6a1f0b7e-0000-4000-8000-000000000001"),
            _helicone("c", "/t", prompt_tokens=36, reasoning_tokens=7, time_to_first_token=0),
            _helicone("d", "/t", prompt_tokens=36),  # fewer than were cached
        ],
    )
    receipt, table = read(tmp_path, file)
    assert _counts(table) == [(100, 64, None, 5), (100, 64, None, 12), (100, 64, None, 5)]
    assert table["reasoning_tokens"].to_list() == [None, 7, None]
    assert table["ttft_s"].to_list() == [0.25, None, 0.25]
    assert receipt["records"]["ignored"] == 1


# Other files than JSON -------------------------------------------------------------------------------------------


def test_runs_and_generations_as_parquet(tmp_path: Path) -> None:
    run = {
        "id": "r1",
        "trace_id": "r0",
        "parent_run_id": None,
        "run_type": "llm",
        "start_time": datetime(2026, 1, 1),
        "end_time": datetime(2026, 1, 1, 0, 0, 2),
        "inputs": json.dumps({"messages": [{"role": "user", "content": "hello"}]}),
        "outputs": json.dumps({"choices": [{"message": {"role": "assistant", "content": "hi"}}], "id": "chatcmpl-1"}),
        "extra": json.dumps({"metadata": {"thread_id": "t", "ls_model_name": "m"}}),
        "prompt_tokens": 100,
        "completion_tokens": 4,
        "total_tokens": 104,
        "prompt_token_details": json.dumps({"cache_read": 64}),
    }
    pl.DataFrame([run]).write_parquet(tmp_path / "runs.parquet")
    receipt, table = read(tmp_path, tmp_path / "runs.parquet")
    assert receipt["formats"] == {"langsmith": 1}
    assert _counts(table) == [(100, 64, None, 4)]
    assert table["duration_s"].to_list() == [2.0]
    assert str(table["started_at"][0]) == "2026-01-01 00:00:00+00:00"


def test_exports_as_csv(tmp_path: Path) -> None:
    usage = {"input": 10, "input_cached_tokens": 90, "output": 7, "total": 107}
    one = {**_generation("a", usage), "input": [{"role": "user", "content": "hello,\nyou"}]}
    row = {k: json.dumps(v) if isinstance(v, (dict, list)) else v for k, v in one.items()}
    pl.DataFrame([row]).write_csv(tmp_path / "observations.csv")
    receipt, table = read(tmp_path, tmp_path / "observations.csv")
    assert receipt["formats"] == {"langfuse": 1}
    assert _counts(table) == [(100, 90, None, 7)]
    assert table["prompt_completeness"].to_list() == ["full"]


def test_helicone_as_csv(tmp_path: Path) -> None:
    one = _helicone("a", "/task")
    row = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in one.items()}
    pl.DataFrame([row]).write_csv(tmp_path / "requests.csv")
    receipt, table = read(tmp_path, tmp_path / "requests.csv")
    assert receipt["formats"] == {"helicone": 1}
    assert _counts(table) == [(100, 64, None, 5)]
    assert table["duration_s"].to_list() == [3.0]
    assert table["ttft_s"].to_list() == [0.25]
