"""AgentSight captures: calls and answers find each other, and the provider's cache chain is the one that is rebuilt."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.places import SAMPLES
from tests.traces.formats.gateways.reading import oracles, read, shared
from traces.dataset.layout import Dataset

FILE = ("agentsight_ssl", "claude_code_gen_readme.messages_only.json")


def test_read_and_creation_of_every_answer(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, shared(*FILE))
    assert receipt["formats"] == {"agentsight": 1}
    assert receipt["records"]["rejected"] == 0
    (expected,) = [value for path, value in oracles("read+creation per captured sonnet response, in order")]
    calls = [r for r in table.iter_rows(named=True) if "sonnet" in r["model"] and r["cache_read_tokens"] is not None]
    assert [f"{r['cache_read_tokens']}+{r['cache_write_tokens']}" for r in calls] == expected.split()
    for before, after in pairwise(calls):
        assert before["cache_read_tokens"] + before["cache_write_tokens"] == after["cache_read_tokens"]
    assert len({r["session_id"] for r in calls}) == 1
    assert all(r["prefix_tokens"] == r["input_tokens"] and r["prompt_completeness"] == "full" for r in calls)


def test_what_prompts_share_is_what_the_provider_read(tmp_path: Path) -> None:
    """The text of each prompt begins with the whole prompt before it, its uncached last tokens included."""
    _, table = read(tmp_path, shared(*FILE))
    prefixes = {r["prefix_id"]: r for r in Dataset(tmp_path / "dataset").read("prefixes").iter_rows(named=True)}

    def path(leaf: int) -> set[int]:
        found = set()
        while leaf:
            found.add(leaf)
            leaf = prefixes[leaf]["parent_id"]
        return found

    calls = [r for r in table.iter_rows(named=True) if "sonnet" in r["model"] and r["cache_read_tokens"] is not None]
    for before, after in pairwise(calls):
        shared_nodes = path(before["prefix_id"]) & path(after["prefix_id"])
        common = max(prefixes[node]["end_token"] for node in shared_nodes)
        uncached = before["input_tokens"] - before["cache_read_tokens"] - before["cache_write_tokens"]
        assert common - after["cache_read_tokens"] == uncached


def test_sample_pairs_calls_and_answers(tmp_path: Path) -> None:
    receipt, table = read(tmp_path, SAMPLES / "agentsight" / "calls.json")
    assert receipt["time_basis"] == "trace"
    assert receipt["records"] == {"read": 6, "used": 3, "rejected": 0, "duplicate": 0, "ignored": 3}
    assert table["input_tokens"].to_list() == [None, 235, None]
    assert table["output_tokens"].to_list() == [5, 5, None]
    assert receipt["unknown_usage_requests"] == 2


def _event(at: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": at * 10**9, "tid": 1, **more}


def _call(at: int, model: str, *messages: tuple[str, str]) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": role, "content": text} for role, text in messages]}
    return _event(at, "request", path="/v1/messages?beta=true", body=json.dumps(body))


def _answer(at: int, identity: str, model: str, read_tokens: int, written: int) -> dict[str, Any]:
    usage = {"input_tokens": 1, "cache_read_input_tokens": read_tokens, "cache_creation_input_tokens": written}
    start = {"type": "message_start", "message": {"id": identity, "model": model, "usage": usage}}
    return _event(at, "response", status_code=200, body="", sse_raw_chunks=[
        {"timestamp": at * 10**9, "raw_data": f"12c\r\ndata: {json.dumps(start)}\n\n\r\n"}
    ])  # fmt: skip


def test_answers_go_to_the_model_asked_and_missing_calls_are_rebuilt(tmp_path: Path) -> None:
    first, second, third = ("user", "fix " * 40), ("assistant", "yes"), ("user", "go on " * 40)
    timeline = [
        _call(1, "small", ("user", "a title")),
        _call(2, "large", first),
        _answer(3, "msg_1", "large", 0, 100),
        _event(4, "response", status_code=429, body="{}", json_body={"detail": "another service"}),
        _event(5, "request", path="/v1/messages/count_tokens", body="{}"),
        _event(6, "response", status_code=200, json_body={"input_tokens": 9}),
        _answer(7, "msg_2", "large", 100, 60),
        _call(8, "large", first, second, third, ("assistant", "done"), ("user", "thanks")),
        _answer(9, "msg_3", "large", 160, 20),
    ]
    file = tmp_path / "capture.json"
    file.write_text(json.dumps({"analysis_metadata": {}, "data_timeline": timeline}))
    receipt, table = read(tmp_path, file)
    large = table.filter(table["model"] == "large")
    assert large["input_tokens"].to_list() == [101, 161, 181]
    assert large["prefix_tokens"].to_list() == [101, 161, 181]
    assert large["session_id"].n_unique() == 1
    assert receipt["records"] == {"read": 9, "used": 4, "rejected": 0, "duplicate": 0, "ignored": 5}
    assert any("not captured" in w for w in receipt["warnings"])
