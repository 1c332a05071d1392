"""Traces of block ids: Bailian, Dynamo, agentic Mooncake, Mooncake deltas, Tair, Baseten, and the published figures."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.places import SAMPLES, SHARED
from traces.dataset.layout import Dataset
from traces.intake.ingest import Options, ingest
from traces.intake.registry import READERS, reader


def read(path: Path, tmp_path: Path, **options: Any) -> tuple[dict[str, Any], pl.DataFrame, Dataset]:
    target = tmp_path / "dataset"
    receipt = ingest([str(path)], target, Options(**{"tokenizer": "bytes", **options}))
    dataset = Dataset(target)
    return receipt, dataset.read("requests"), dataset


def rows(tmp_path: Path, content: list[dict[str, Any]], **options: Any) -> Any:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, content)))
    return read(path, tmp_path, **options)


def ceiling(dataset: Dataset, block: int) -> int:
    """Hit tokens of an unbounded cache: whole blocks of all prompts less those on their paths in the tree."""
    requests = dataset.read("requests").filter(pl.col("prefix_id").is_not_null())
    tree = {row["prefix_id"]: row for row in dataset.read("prefixes").to_dicts()}
    path: set[int] = set()
    for node in requests["prefix_id"]:
        while node is not None and node not in path:
            path.add(node)
            node = tree[node]["parent_id"]
    own = sum(tree[node]["end_token"] // block - tree[node]["start_token"] // block for node in path)
    return block * (int((requests["prefix_tokens"] // block).sum()) - own)


def sessions(requests: pl.DataFrame) -> list[int]:
    """Sessions as small numbers, in order of appearance."""
    seen: dict[int, int] = {}
    return [seen.setdefault(s, len(seen)) for s in requests["session_id"]]


# every format ---------------------------------------------------------------------------------------------------

MINE = [
    *("mooncake", "mooncake-delta", "weka", "bailian", "dynamo", "agentic_mooncake", "tair", "tracelab", "baseten"),
    *("azure_llm", "burstgpt", "vidur", "aibrix", "applied_compute", "table", "servegen"),
]


@pytest.mark.parametrize("name", MINE)
def test_a_summary_says_what_can_be_computed(name: str) -> None:
    assert {"carries", "time", "blocks", "computes"} <= reader(name).SUMMARY.keys()
    assert name in READERS


@pytest.mark.parametrize("name", [name for name in MINE if name != "mooncake-delta"])
def test_samples_are_told_apart(name: str) -> None:
    for path in sorted((SAMPLES / name).iterdir()):
        receipt = ingest([str(path)], None, Options(tokenizer="bytes"))
        assert receipt["formats"] == {name: 1}, path.name
        assert receipt["records"]["rejected"] == (name == "servegen"), path.name


# Mooncake -------------------------------------------------------------------------------------------------------


def test_published_figures_of_mooncakes_synthetic_trace(tmp_path: Path) -> None:
    receipt, requests, dataset = read(SHARED / "traces" / "mooncake" / "synthetic_trace.jsonl", tmp_path)
    tree = dataset.read("prefixes")
    assert receipt["requests"] == 3993
    assert receipt["input_tokens"] // 3993 == 15_325
    assert receipt["output_tokens"] // 3993 == 149
    total = requests["prefix_tokens"].sum()
    # The published rate lets equal partial last blocks hit, as sharing to the token does.
    shared = total - (tree["end_token"] - tree["start_token"]).sum()
    assert round(shared / total, 4) == 0.6512
    assert ceiling(dataset, 512) / total == pytest.approx(0.65043, abs=1e-5)


def test_published_hit_rates_of_weka_sessions(tmp_path: Path) -> None:
    with (SHARED / "traces" / "kv_cache_tester_oracle_share.tsv").open() as file:
        published = list(csv.DictReader(file, delimiter="\t"))
    for row in published:
        name = Path(row["trace"]).name
        _, requests, dataset = read(SHARED / "traces" / "kv_cache_tester" / name, tmp_path / name)
        blocks = int((requests["prefix_tokens"] // 64).sum())
        assert requests.height == int(row["requests_incl_subagents"]), name
        assert ceiling(dataset, 64) / 64 / blocks == pytest.approx(float(row["hit_seen_set_incl_sub"]), abs=1e-12), name
        assert requests["input_tokens"][0] == int(row["first_in"]), name


def test_deltas_read_as_whole_prompts_are_warned_of(tmp_path: Path) -> None:
    receipt, _, _ = read(SAMPLES / "mooncake-delta" / "deltas.jsonl", tmp_path)
    assert receipt["formats"] == {"mooncake": 1}
    assert any("--format mooncake-delta" in warning for warning in receipt["warnings"])


def test_whole_prompts_are_not_taken_for_deltas(tmp_path: Path) -> None:
    content = [
        {
            "session_id": s,
            "input_length": 600 * (turn + 1),
            "output_length": 1,
            "delay": 10,
            "hash_ids": list(range(turn + 2)),
        }
        for turn in range(1, 4)
        for s in "ab"
    ]
    receipt, _, _ = rows(tmp_path, content)
    assert receipt["warnings"] == ["the given tokenizer was not used: no text had to be counted"]


def test_deltas_add_up(tmp_path: Path) -> None:
    content = [
        {"session_id": "a", "input_length": 1000, "output_length": 30, "hash_ids": [1, 2], "timestamp": 0},
        {"session_id": "b", "input_length": 1000, "output_length": 30, "hash_ids": [1, 3], "timestamp": 5},
        {"session_id": "a", "input_length": 70, "output_length": 10, "hash_ids": [4], "delay": 900},
        {"session_id": "a", "input_length": 5, "output_length": 10, "delay": 900},
        {"session_id": "a", "input_length": 5, "output_length": 10, "hash_ids": [1, 2], "delay": 900},
    ]
    receipt, requests, dataset = rows(tmp_path, content, format="mooncake-delta")
    assert requests["input_tokens"].to_list() == [1000, 1000, 1100, 1115]
    assert requests["prefix_tokens"].to_list() == [1000, 1000, 1100, 1115]
    assert requests["arrival_s"].to_list() == [0.0, 0.005, None, None]
    assert receipt["records"]["rejected"] == 1
    assert ceiling(dataset, 1) == 512 + 1000 + 1100


# Bailian --------------------------------------------------------------------------------------------------------


def test_bailian_conversations_follow_parents(tmp_path: Path) -> None:
    receipt, requests, dataset = read(SAMPLES / "bailian" / "chats.jsonl", tmp_path)
    assert sessions(requests) == [0, 0, 1, 2, 0]
    assert requests["turn"].to_list() == [0, 1, 0, 0, 2]
    assert requests["arrival_s"].to_list() == [0.0, 1.75, 2.5, 3.5, 4.5]
    assert receipt["block_size"] == 16
    assert ceiling(dataset, 16) == 16 * (2 + 2 + 0 + 4)
    assert any(warning.startswith("1 rows continue a conversation") for warning in receipt["warnings"])


@pytest.mark.parametrize("name", ["mooncake", "bailian"])
def test_the_unit_belongs_to_the_format(tmp_path: Path, name: str) -> None:
    folder = SHARED / "cases" / "02-mooncake-ms-vs-bailian-s"
    expected = json.loads((folder / "expected.json").read_text())[name]
    receipt, requests, _ = read(folder / f"input.{name}.jsonl", tmp_path)
    assert receipt["formats"] == {name: 1}
    assert requests["arrival_s"].max() == expected["duration_s"]


# Dynamo ---------------------------------------------------------------------------------------------------------


def test_dynamo_request_trace(tmp_path: Path) -> None:
    receipt, requests, dataset = read(SAMPLES / "dynamo" / "request_trace.jsonl", tmp_path)
    assert receipt["records"] == {"read": 4, "used": 3, "rejected": 0, "duplicate": 0, "ignored": 1}
    assert requests["arrival_s"].to_list() == pytest.approx([0.0, 0.9, 0.95])
    assert requests["cache_read_tokens"].to_list() == [65, 100, 35]
    assert requests["ttft_s"].to_list() == [0.0805] * 3
    assert requests["trigger"].to_list() == ["user", "tool", "user"]
    assert requests["work"].to_list() == ["execute"] * 3
    assert ceiling(dataset, 64) == 64 * (2 + 1)
    found = dataset.read("sessions")
    assert found["role"].to_list() == ["main", "subagent"]
    assert found["parent_session_id"].to_list() == [None, found["session_id"][0]]


def test_the_older_agent_trace_and_its_predecessor(tmp_path: Path) -> None:
    _, requests, dataset = read(SAMPLES / "dynamo" / "agent_trace.jsonl", tmp_path)
    assert requests["cache_read_tokens"].to_list() == [3584, None]
    assert requests["prompt_completeness"].to_list() == ["lengths", "lengths"]
    assert requests["arrival_s"].to_list() == [0.0, 1.0]
    found = dataset.read("sessions").sort("role")
    assert found["role"].to_list() == ["main", "subagent"]
    assert found["parent_session_id"][1] == found["session_id"][0]


def test_a_call_logged_twice_is_one(tmp_path: Path) -> None:
    line = (SAMPLES / "dynamo" / "request_trace.jsonl").read_text().splitlines()[0]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(line)
    receipt = ingest([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], None, Options())
    # The second file is the first one's bytes, so it is skipped; a copy among other rows is a duplicate.
    assert receipt["requests"] == 1
    (tmp_path / "b.jsonl").write_text(line + "\n\n" + line.replace("r1", "r9"))
    receipt = ingest([str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")], None, Options())
    assert (receipt["requests"], receipt["records"]["duplicate"]) == (2, 1)


# agentic Mooncake -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "ignored"), [("v1.jsonl", 0), ("v2.jsonl", 1)])
def test_agentic_mooncake(tmp_path: Path, name: str, ignored: int) -> None:
    receipt, requests, dataset = read(SAMPLES / "agentic_mooncake" / name, tmp_path, block_tokens=64)
    assert receipt["records"]["ignored"] == ignored
    assert receipt["block_size"] == 64
    assert sessions(requests) == [0, 1, 0]
    assert requests["arrival_s"].to_list() == [0.0, None, None]
    assert ceiling(dataset, 64) == 64 * (1 + 2)
    found = dataset.read("sessions")
    assert found["role"].to_list() == ["main", "subagent"]
    assert found["parent_session_id"].to_list() == [None, found["session_id"][0]]


# Tair, Baseten, Applied Compute ---------------------------------------------------------------------------------


def test_tair_look_ups(tmp_path: Path) -> None:
    folder = SHARED / "traces" / "tair_kvcache_trace"
    _, requests, dataset = read(folder / "optimizer_trace_example_trace.jsonl", tmp_path)
    assert requests["input_tokens"].to_list() == [16, 32, 16, 48, 16]
    assert requests["arrival_s"].to_list() == [0.0, 5.123456, 10.5, 15.75, 20.0]
    assert requests["output_tokens"].null_count() == 5
    assert ceiling(dataset, 16) == 0
    assert ingest([str(folder / "example_trace.jsonl")], None, Options())["requests"] == 5


def test_baseten_rows(tmp_path: Path) -> None:
    receipt, requests, dataset = read(SAMPLES / "baseten" / "trace.parquet", tmp_path)
    assert receipt["failed_attempts"] == 1
    assert requests["input_tokens"].to_list() == [128, 192]
    assert requests["cache_read_tokens"].to_list() == [0, 128]
    assert requests["duration_s"].to_list() == [0.8, 0.7]
    assert sessions(requests) == [0, 0]
    assert ceiling(dataset, 64) == 128


def test_baseten_takes_the_session_that_repeats(tmp_path: Path) -> None:
    table = pa.table(
        {
            "timestamp_start_unix_ms": [100, 200],
            "prompt": ["first", "second"],
            "input_tokens": [3, 4],
            "output_tokens": [6, 8],
            "total_hashes": [[1, 2], [3, 4]],
            "provided_session_id": ["unique-1", "unique-2"],
            "poor_man_session_id": [7, 7],
            "model_name": ["m", "m"],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    _, requests, _ = read(tmp_path / "t.parquet", tmp_path)
    assert sessions(requests) == [0, 0]
    assert requests["prefix_tokens"].to_list() == [3, 4]
    assert requests["model"].to_list() == ["m", "m"]


def test_dynamos_tool_events_may_name_their_session_beside_the_tool(tmp_path: Path) -> None:
    def ended(at: int) -> dict[str, Any]:
        request = {
            "request_id": f"r{at}",
            "input_tokens": 100 + at,
            "output_tokens": 5,
            "request_received_ms": 1000 * at,
        }
        context = {"session_id": "s"}
        return {
            "schema": "dynamo.request.trace.v1",
            "event_type": "request_end",
            "agent_context": context,
            "request": request,
        }

    tool = {
        "schema": "dynamo.request.trace.v1",
        "event_type": "tool_end",
        "session_id": "s",
        "tool": {"tool_class": "x"},
    }
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in [ended(1), tool, ended(2)]))
    _, requests, _ = read(path, tmp_path)
    assert requests["trigger"].to_list() == ["user", "tool"]


def test_lengths_of_turns_add_up(tmp_path: Path) -> None:
    _, requests, dataset = read(SAMPLES / "applied_compute" / "sessions.jsonl", tmp_path)
    assert requests["input_tokens"].to_list() == [1000, 1250, 1610]
    assert requests["output_tokens"].to_list() == [50, 60, 70]
    assert ceiling(dataset, 1) == 1000 + 1250


def test_servegen_is_refused_with_the_next_step() -> None:
    for path in (SHARED / "traces" / "servegen").iterdir():
        receipt = ingest([str(path)], None, Options())
        assert receipt["formats"] == {"servegen": 1}
        assert receipt["requests"] == 0
        assert "draw requests" in receipt["rejects"][0]["reason"]
