"""Codex rollouts."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, lines, shared
from traces.formats.agents.codex.counts import Counters

CODEX = SAMPLES / "codex"


def test_repeated_and_null_counters_are_no_calls(tmp_path: Path) -> None:
    read = Read(tmp_path, CODEX / "rollout.jsonl")
    assert read.column("input_tokens") == [3000, 3100]
    assert read.column("cache_read_tokens") == [2048, 2944]
    assert read.column("output_tokens") == [40, 20]
    assert read.column("reasoning_tokens") == [10, 0]
    assert read.column("trigger") == ["user", "tool"]
    assert read.column("work") == ["execute", "other"]
    assert read.column("prefix_tokens") == [3000, 3100]
    assert read.column("prompt_completeness") == ["no_head", "no_head"]
    assert read.column("model") == ["gpt-5-codex"] * 2
    assert read.receipt["records"] == {"read": 11, "used": 8, "rejected": 0, "duplicate": 1, "ignored": 2}


def test_a_prompt_extends_the_one_before_and_its_answer(tmp_path: Path) -> None:
    read = Read(tmp_path, CODEX / "rollout.jsonl")
    first, second = read.requests.select("prefix_id", "output_prefix_id").rows()
    from traces.dataset.layout import Dataset

    tree = {row["prefix_id"]: row for row in Dataset(tmp_path / "dataset").read("prefixes").iter_rows(named=True)}
    path, node = [], second[0]
    while node:
        path.append(node)
        node = tree[node]["parent_id"]
    assert first[0] in path
    assert first[1] in path
    roles = {tree[n]["role"] for n in path}
    assert roles == {"unobserved", "system", "user", "reasoning", "assistant", "tool_result"}


@pytest.mark.parametrize("order", [("rollout", "fork"), ("fork", "rollout")])
def test_what_a_fork_copies_belongs_to_its_parent(tmp_path: Path, order: tuple[str, str]) -> None:
    read = Read(tmp_path, *(CODEX / f"{name}.jsonl" for name in order))
    assert (read.requests.height, read.total("input_tokens"), read.total("output_tokens")) == (3, 9300, 90)
    by_session = read.requests.group_by("session_id").len().sort("len")["len"].to_list()
    assert by_session == [1, 2]
    assert read.sessions["forked_from"].drop_nulls().len() == 1


def test_a_fork_alone_keeps_what_it_replays(tmp_path: Path) -> None:
    assert Read(tmp_path, CODEX / "fork.jsonl").total("input_tokens") == 9300


def test_usage_records_and_counters_that_fall(tmp_path: Path) -> None:
    read = Read(tmp_path, CODEX / "compacted.jsonl")
    assert read.column("input_tokens") == [5000, 5100, 3050]
    assert read.column("compaction") == [False, False, True]
    assert read.receipt["failed_attempts"] == 1
    assert not [w for w in read.receipt["warnings"] if "differs" in w]


def test_compressed_rollouts(tmp_path: Path) -> None:
    packed = tmp_path / "rollout.jsonl.zst"
    packed.write_bytes(zstandard.compress((CODEX / "rollout.jsonl").read_bytes()))
    assert Read(tmp_path, packed).total("input_tokens") == 6100


def test_a_subagent_that_starts_with_its_parents_history(tmp_path: Path) -> None:
    def count(ordinal: int, total: int, last: int) -> dict[str, object]:
        usage = [{"input_tokens": n, "cached_input_tokens": 0, "output_tokens": 1} for n in (total, last)]
        info = {"total_token_usage": usage[0], "last_token_usage": usage[1]}
        return {
            "timestamp": "2026-03-01T10:00:00Z",
            "ordinal": ordinal,
            "type": "event_msg",
            "payload": {"type": "token_count", "info": info},
        }

    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "a", "depth": 1}}}
    meta = {"id": "b", "source": spawn, "subagent_history_start_ordinal": 5}
    path = lines(
        tmp_path,
        "sub.jsonl",
        {"timestamp": "2026-03-01T10:00:00Z", "type": "session_meta", "payload": meta},
        count(2, 4000, 4000),
        count(6, 9000, 5000),
    )
    read = Read(tmp_path, path)
    assert read.column("input_tokens") == [5000]
    assert read.sessions["role"].to_list() == ["subagent"]


def test_counters() -> None:
    def usage(tokens: int, output: int = 1) -> dict[str, int]:
        return {"input_tokens": tokens, "output_tokens": output}

    counters = Counters()
    usages = [
        counters.take(usage(10), usage(10), None)[0],
        counters.take(usage(10), usage(10), None)[0],
        counters.take(None, None, None)[0],
        counters.take(usage(12), usage(22, 2), None)[0],
        counters.take(usage(0, 0), usage(22, 2), None)[0],
        counters.take(usage(5), usage(5), None)[0],
    ]
    assert [u and u.input_tokens for u in usages] == [10, None, None, 12, None, 5]
    assert counters.difference == 0


TOTALS = {
    "agtrace/rollout_codex_session.jsonl": (7, 26740, 22912, 408, 128),
    "codexbar_forks/archived-fork-33ce-3869/child.jsonl": (155, 15253283, 13549696, 55895, 25017),
    "codexbar_forks/archived-fork-33ce-3869/parent.jsonl": (133, 13359699, 12149120, 38414, 14160),
    "codexbar_forks/live-fork-4d90-52bf/child.jsonl": (194, 26692274, 25383936, 109637, 50455),
    "codexbar_forks/live-fork-4d90-52bf/parent.jsonl": (178, 24889714, 23737856, 102678, 47451),
}


@pytest.mark.parametrize("name", TOTALS)
def test_the_providers_totals_come_out(tmp_path: Path, name: str) -> None:
    read = Read(tmp_path, shared(f"codex/{name}"))
    columns = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")
    assert (read.requests.height, *(read.total(c) for c in columns)) == TOTALS[name]


@pytest.mark.parametrize(("name", "tokens"), [("archived-fork-33ce-3869", 15309178), ("live-fork-4d90-52bf", 26801911)])
def test_each_call_of_a_family_once(tmp_path: Path, name: str, tokens: int) -> None:
    read = Read(tmp_path, shared(f"codex/codexbar_forks/{name}"))
    assert read.total("input_tokens") + read.total("output_tokens") == tokens


def test_calls_without_counts_are_of_unknown_length(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("codex/agent-sessions/large.jsonl"))
    assert read.column("input_tokens") == [12091, None, None, None, None, None, None]
    read = Read(tmp_path / "events", shared("codex/agtrace/codex_subagent_matched.jsonl"))
    assert read.column("input_tokens") == [None]


def _turns(*payloads: tuple[str, dict[str, object]]) -> list[dict[str, object]]:
    meta: tuple[str, dict[str, object]] = ("session_meta", {"id": "s"})
    return [
        {"timestamp": f"2026-03-13T03:00:{at:02}Z", "type": kind, "payload": payload}
        for at, (kind, payload) in enumerate((meta, *payloads))
    ]


def _said(text: str) -> tuple[str, dict[str, object]]:
    content = [{"type": "output_text", "text": text}]
    return "response_item", {"type": "message", "role": "assistant", "content": content}


def _event(kind: str, **fields: object) -> tuple[str, dict[str, object]]:
    return "event_msg", {"type": kind, **fields}


def _shown(kind: str, text: str) -> tuple[str, dict[str, object]]:
    return _event("item_completed", item={"type": kind, "content": [{"type": "Text", "text": text}]})


ASKED = ("response_item", {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "ask"}]})
FILTERED = {
    "turns end calls": [_event("user_message", message="ask"), _said("a"), _event("task_complete")] * 3,
    "the next turn's start ends a call": [_event("task_started"), _event("user_message", message="ask"), _said("a")]
    * 3,
    "items and the events that repeat them": [ASKED, _event("user_message", message="ask"), _said("a")] * 3,
    "events first": [_event("user_message", message="ask"), ASKED, _said("a"), _event("agent_message", message="a")]
    * 3,
    "events alone": [_event("user_message", message="ask"), _event("agent_message", message="a")] * 3,
    "completed items": [_shown("UserMessage", "ask"), _shown("AgentMessage", "a"), _event("turn_complete")] * 3,
}


@pytest.mark.parametrize("kind", FILTERED)
def test_without_counters_turns_and_messages_end_calls(kind: str, tmp_path: Path) -> None:
    read = Read(tmp_path, lines(tmp_path, "rollout.jsonl", *_turns(*FILTERED[kind])))
    assert read.requests.height == 3
    assert read.roles(0) == {"user"}  # no item has the prompt's text where only an event has it
    assert read.column("prefix_tokens") == [3, 7, 11]


def test_a_lane_that_was_under_way_before_the_log_began(tmp_path: Path) -> None:
    def usage(tokens: int) -> dict[str, int]:
        return {"input_tokens": tokens, "output_tokens": 0}

    counters = Counters()
    for total, last in ((1000, 1000), (90000, 1200), (1000, 1000), (2500, 1500), (91800, 1800)):
        counters.take(usage(last), usage(total), None)
    assert counters.difference == 0
    counters.take(usage(1), usage(95000), None)
    assert counters.difference == 95000 - 91800 - 1
