"""Request and response pairs: the providers' own counts come out, and prompts extend one another as they were sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.formats.gateways.reading import lines, oracles, read, shared
from traces.dataset.layout import Dataset

ROWS = [(p, json.loads(v)) for p, v in oracles("usage") if ".pairs.jsonl#" in p]

FOLDERS = ("anthropic_messages", "bedrock_converse", "gemini_api", "mistral_chat", "openai_chat", "openai_responses")


def _counts(usage: Mapping[str, Any]) -> tuple[int, int | None, int | None]:
    """Input, cache read and cache write as each provider's documentation reads its usage object."""
    if "promptTokenCount" in usage:
        return usage["promptTokenCount"], usage["cachedContentTokenCount"], None
    if "inputTokens" in usage:
        read, written = usage["cacheReadInputTokens"], usage["cacheWriteInputTokens"]
        return usage["inputTokens"] + read + written, read, written
    if "cache_read_input_tokens" in usage:
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return usage["input_tokens"] + read + written, read, written
    total = usage.get("prompt_tokens", usage.get("input_tokens"))
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    return total, details["cached_tokens"], details.get("cache_write_tokens")


@pytest.mark.parametrize("path", sorted({p.split("#")[0] for p, _ in ROWS}))
def test_provider_counts_come_out(path: str, tmp_path: Path) -> None:
    receipt, table = read(tmp_path, shared(*path.split("/")))
    assert receipt["formats"] == {"llm_pairs": 1}
    assert receipt["records"]["rejected"] == 0
    told = {r["record_ordinal"]: r for r in table.iter_rows(named=True)}
    for row, usage in ROWS:
        if row.split("#")[0] == path:
            at = int(row.split("#")[1]) + 1
            if not usage:
                assert at not in told  # Gemini's cachedContents: stored, no model call
            else:
                got = told[at]["input_tokens"], told[at]["cache_read_tokens"], told[at]["cache_write_tokens"]
                assert got == _counts(usage)
                # Two rounds of a server-side tool, added up: one prompt is half of it.
                assert told[at]["prefix_tokens"] == round(got[0] / (2 if "code_execution" in path else 1))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_cassette_and_its_pairs_are_the_same_calls(folder: str, tmp_path: Path) -> None:
    files = sorted(shared(folder).iterdir())
    pairs = [f for f in files if f.name.endswith(".pairs.jsonl")]
    cassettes = [f.with_name(f.name.replace(".pairs.jsonl", ".yaml")) for f in pairs]
    receipt, table = read(tmp_path, *pairs, *cassettes)
    assert receipt["records"]["duplicate"] == table.height
    assert receipt["records"]["rejected"] == 0


def test_every_file_is_read(tmp_path: Path) -> None:
    receipt, _ = read(tmp_path, *[shared(name) for name in FOLDERS])
    assert receipt["files"]["failed"] == receipt["files"]["skipped"] == 0
    assert receipt["records"]["rejected"] == 0


def test_a_prompt_that_extends_a_prompt_keeps_its_tokens(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "llm_pairs" / "mistral.pairs.jsonl")
    assert table["input_tokens"].to_list() == [253, 268]
    assert table["cache_read_tokens"].to_list() == [0, 224]
    assert table["session_id"].n_unique() == 1
    prefixes = {r["prefix_id"]: r for r in Dataset(tmp_path / "dataset").read("prefixes").iter_rows(named=True)}
    node = prefixes[table["prefix_id"][1]]
    ancestors = set()
    while node["prefix_id"]:
        ancestors.add(node["prefix_id"])
        node = prefixes[node["parent_id"]]
    assert table["prefix_id"][0] in ancestors
    assert receipt["warnings"] == [] or all("content" not in w for w in receipt["warnings"])


def test_cassette_sample(tmp_path: Path) -> None:
    _, table = read(tmp_path, SAMPLES / "llm_pairs" / "mistral.yaml")
    assert table["input_tokens"].to_list() == [253, 268]


def _responses(at: int, identity: str, text: str, previous: str | None, tokens: int) -> dict[str, Any]:
    return {
        "uri": "https://api.openai.com/v1/responses",
        "request": {
            "model": "gpt-5",
            "instructions": "Be brief and kind to everyone.",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}],
            "previous_response_id": previous,
        },
        "response": {
            "id": identity,
            "created_at": 1_780_000_000 + at,
            "model": "gpt-5",
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"answer {at}"}]}
            ],
            "usage": {"input_tokens": tokens, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 0}},
        },
    }


def test_previous_response_ids_rebuild_the_whole_prompt(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "chain.jsonl",
        [
            _responses(0, "resp_1", "What is the first thing?", None, 40),
            _responses(1, "resp_2", "And the second?", "resp_1", 60),
            _responses(2, "resp_3", "And the third?", "resp_2", 80),
            _responses(3, "resp_4", "Again from the second?", "resp_1", 62),
        ],
    )
    _, table = read(tmp_path, file)
    assert table["prompt_completeness"].to_list() == ["full"] * 4
    assert table["prefix_tokens"].to_list() == [40, 60, 80, 62]
    assert table["session_id"].to_list() == [0, 0, 0, 1]  # the second continuation of one answer is another session


def test_a_chain_whose_start_is_not_logged_has_no_head(tmp_path: Path) -> None:
    file = lines(tmp_path / "chain.jsonl", [_responses(0, "resp_9", "And then?", "resp_8", 900)])
    receipt, table = read(tmp_path, file)
    assert table["prompt_completeness"].to_list() == ["no_head"]
    assert table["prefix_tokens"].to_list() == [900]
    assert any("not in the input" in warning for warning in receipt["warnings"])


def _anthropic(text: str, mark: bool, session: str, answer: Any) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    if mark:
        block["cache_control"] = {"type": "ephemeral"}
    return {
        "url": "https://api.anthropic.com/v1/messages",
        "timestamp": "2026-01-01T00:00:00Z",
        "request_headers": {"X-Claude-Code-Session-Id": session, "User-Agent": "claude-cli/2.1.3 (external)"},
        "request": {"model": "claude-x", "messages": [{"role": "user", "content": [block]}]},
        "response": answer,
    }


def test_headers_name_sessions_and_marks_are_no_content(tmp_path: Path) -> None:
    answer = {"id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "model": "claude-x"}
    file = lines(
        tmp_path / "proxy.jsonl",
        [
            _anthropic("the same text", True, "s1", answer),
            _anthropic("the same text", False, "s2", answer | {"id": "m2"}),
        ],
    )
    _, table = read(tmp_path, file)
    assert table["prefix_id"].n_unique() == 1
    assert table["session_id"].n_unique() == 2
    sessions = Dataset(tmp_path / "dataset").read("sessions")
    assert set(sessions["agent"]) == {"claude_code"}
    assert set(sessions["agent_version"]) == {"2.1.3"}
    assert set(sessions["session_source"]) == {"native"}


def test_streams_failures_and_other_calls(tmp_path: Path) -> None:
    stream = (
        'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_7","model":"claude-x","usage":'
        '{"input_tokens":3,"cache_read_input_tokens":7,"cache_creation_input_tokens":0,"output_tokens":1}}}\n\n'
        'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"Bash"}}\n\n'
        'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'
        'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}\n\n'
    )
    failed = {**_anthropic("x", False, "s", {"error": {"type": "overloaded_error"}}), "status_code": 529}
    counting = {**_anthropic("x", False, "s", {"input_tokens": 9}), "url": "https://x/v1/messages/count_tokens"}
    file = lines(tmp_path / "proxy.jsonl", [_anthropic("x", False, "s", stream), failed, counting, {"request": 1}])
    receipt, table = read(tmp_path, file, format="llm_pairs")
    assert table.select("input_tokens", "cache_read_tokens", "output_tokens").rows() == [(10, 7, 9)]
    assert table["work"].to_list() == ["execute"]
    assert receipt["failed_attempts"] == 1
    assert receipt["records"] == {"read": 4, "used": 1, "rejected": 1, "duplicate": 0, "ignored": 2}


def test_a_cassette_that_unfolds_without_end_is_refused(tmp_path: Path) -> None:
    bomb = "interactions:\n- &a [x]\n- &b [*a, *a]\n- [*b, *b]\n"
    file = tmp_path / "bomb.yaml"
    file.write_text(bomb)
    from traces.intake.ingest import NothingUsable

    with pytest.raises(NothingUsable) as caught:
        read(tmp_path, file)
    assert "aliases" in str(caught.value)


def test_a_call_in_a_transcript_and_in_a_proxy_log_is_one(tmp_path: Path) -> None:
    answer = {"id": "msg_both", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "model": "claude-x"}
    answer["usage"] = {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 2}
    proxy = lines(tmp_path / "proxy.jsonl", [_anthropic("hello", False, "s1", answer)])
    common = {"sessionId": "s1", "version": "2.1.3", "isSidechain": False}
    transcript = lines(
        tmp_path / "s1.jsonl",
        [
            {**common, "type": "user", "uuid": "a", "parentUuid": None, "timestamp": "2026-01-01T00:00:00Z",
             "message": {"role": "user", "content": "hello"}},
            {**common, "type": "assistant", "uuid": "b", "parentUuid": "a", "timestamp": "2026-01-01T00:00:01Z",
             "message": {**answer, "stop_reason": "end_turn"}},
        ],
    )  # fmt: skip
    receipt, table = read(tmp_path, transcript, proxy)
    assert set(receipt["formats"]) == {"claude_code", "llm_pairs"}
    assert receipt["records"]["duplicate"] == 1
    assert table.select("input_tokens", "prompt_completeness").rows() == [(10, "full")]


def _invocation(at: int, operation: str, sent: Any, answered: Any, **counts: Any) -> dict[str, Any]:
    return {
        "schemaType": "ModelInvocationLog",
        "timestamp": f"2026-01-01T00:00:0{at}Z",
        "requestId": f"r{at}",
        "operation": operation,
        "modelId": "anthropic.claude-x",
        "input": {"inputContentType": "application/json", "inputBodyJson": sent, **counts},
        "output": {"outputContentType": "application/json", "outputBodyJson": answered, "outputTokenCount": 6},
    }


def test_bedrocks_model_invocation_log(tmp_path: Path) -> None:
    question = {"role": "user", "content": [{"text": "What is in a.py?"}]}
    usage = {"inputTokens": 20, "outputTokens": 6, "cacheReadInputTokens": 80, "cacheWriteInputTokens": 0}
    stream = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"delta": {"text": "Let me "}, "contentBlockIndex": 0}},
        {"contentBlockDelta": {"delta": {"text": "look."}, "contentBlockIndex": 0}},
        {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "t", "name": "read_file"}}, "contentBlockIndex": 1}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"path": "a.py"}'}}, "contentBlockIndex": 1}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": usage}},
    ]
    raw = {"anthropic_version": "bedrock-2023-05-31", "messages": [{"role": "user", "content": "hi"}]}
    counts = {"input_tokens": 3, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 0, "output_tokens": 6}
    answer = {"id": "msg_bdrk_1", "type": "message", "role": "assistant", "content": [], "usage": counts}
    rows = [
        _invocation(0, "ConverseStream", {"messages": [question]}, stream, inputTokenCount=20),
        _invocation(1, "InvokeModel", raw, answer, inputTokenCount=3),
        _invocation(2, "InvokeModel", None, None, inputTokenCount=11, cacheReadInputTokenCount=9),  # bodies kept apart
        {**_invocation(3, "InvokeModel", raw, None), "errorCode": "ThrottlingException"},
    ]
    receipt, table = read(tmp_path, lines(tmp_path / "log.json", rows))
    assert receipt["formats"] == {"llm_pairs": 1}
    assert table["input_tokens"].to_list() == [100, 10, 20]
    assert table["cache_read_tokens"].to_list() == [80, 7, 9]
    assert table["work"].to_list() == ["explore", "unknown", "unknown"]
    assert table["model"].to_list() == ["anthropic.claude-x"] * 3
    assert receipt["failed_attempts"] == 1
