"""Which records of several inputs are one and which are two: neither counted twice nor merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.traces.intake.laws import read
from traces.dataset.layout import Dataset

T = 1_770_000_000


def weka(name: str) -> list[Any]:
    call = {"type": "n", "model": "m", "out": 5, "input_types": ["text"], "output_types": ["text"], "api_time": 1.0}
    calls = [{**call, "t": 2.0 * i, "in": 128 + 64 * i, "hash_ids": list(range(1, 3 + i))} for i in range(2)]
    return [{"id": name, "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": calls}]


def lengths(name: str) -> list[Any]:
    return [{"timestamp": T + 9 * i, "session_id": name, "input_tokens": 90 + i, "output_tokens": 7} for i in range(2)]


def clock(name: str) -> list[Any]:
    return [row | {"timestamp": row["timestamp"] - T + ord(name)} for row in lengths(name)]


def pairs(name: str) -> list[Any]:
    found: list[Any] = []
    messages: list[Any] = [{"role": "system", "content": f"You are {name}."}]
    for i in range(2):
        messages = [*messages, {"role": "user", "content": f"question {i}"}]
        answer = {"role": "assistant", "content": f"answer {i}"}
        usage = {"prompt_tokens": 40 + 20 * i, "completion_tokens": 5, "total_tokens": 45 + 20 * i}
        body = {"object": "chat.completion", "model": "m", "choices": [{"message": answer}], "usage": usage}
        found.append({"timestamp": T + i, "request": {"model": "m", "messages": messages}, "response": body})
        messages = [*messages, answer]
    return found


def mooncake(start: int, rows: int = 9, **more: Any) -> list[Any]:
    ids = [list(range(2 + i)) for i in range(rows)]
    return [
        {
            "timestamp": start + 700 * i,
            "input_length": 512 * len(ids[i]) - i,
            "output_length": 7 + i,
            "hash_ids": ids[i],
        }
        | more
        for i in range(rows)
    ]


def bailian(start: int) -> list[Any]:
    return [
        {"chat_id": i, "parent_chat_id": -1, "timestamp": start + i / 2, "input_length": 40 + i, "output_length": 8}
        | {"type": "text", "turn": 1, "hash_ids": [1, 2, 30 + i]}
        for i in range(9)
    ]


def vidur(start: int) -> list[Any]:
    return [{"arrived_at": start + i, "num_prefill_tokens": 90 + i, "num_decode_tokens": 7} for i in range(9)]


def untimed(start: int, rows: int = 40) -> list[Any]:
    return [{"num_prefill_tokens": start + 90 + i, "num_decode_tokens": 7} for i in range(rows)]


KINDS = [weka, lengths, clock, pairs]


def requests(dataset: Path, *inputs: dict[str, list[Any]]) -> int:
    """How many requests there are after one ingest per folder of files of JSON lines."""
    for number, files in enumerate(inputs):
        folder = dataset.with_name(f"in-{number}")
        folder.mkdir()
        for name, rows in files.items():
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        read(folder, dataset)
    return Dataset(dataset).read("requests").height


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_a_session_and_one_file_of_all(kind: Any, tmp_path: Path) -> None:
    a, b = kind("a"), kind("b")
    assert requests(tmp_path / "d", {"a.jsonl": a, "b.jsonl": b}, {"all.jsonl": b + a}) == 4


@pytest.mark.parametrize("kind", [lengths, pairs])
def test_records_with_times_in_another_order_and_in_parts(kind: Any, tmp_path: Path) -> None:
    rows = kind("a") + kind("b")
    assert requests(tmp_path / "d", {"1.jsonl": rows[:3], "2.jsonl": rows[3:]}, {"all.jsonl": rows[::-1]}) == 4


@pytest.mark.parametrize("kind", [weka, lengths, clock])
def test_equal_sessions_of_two_names_are_two(kind: Any, tmp_path: Path) -> None:
    key = "id" if kind is weka else "session_id"
    rows = kind("a")
    assert requests(tmp_path / "d", {"a.jsonl": rows}, {"a.jsonl": [row | {key: "b"} for row in rows]}) == 4


def test_equal_calls_of_one_file_or_at_two_times_are_two(tmp_path: Path) -> None:
    first = pairs("a")[0]
    later = first | {"timestamp": T + 100}
    assert requests(tmp_path / "d", {"a.jsonl": [first, first], "b.jsonl": [first]}, {"c.jsonl": [later]}) == 3


@pytest.mark.parametrize("first", ["part", "whole"])
@pytest.mark.parametrize("kind", [mooncake, bailian, lambda start: mooncake(start, session_id="a"), vidur, untimed])
def test_a_run_of_the_records_of_another_file_is_that_file(kind: Any, first: str, tmp_path: Path) -> None:
    rows = kind(5)
    for name, part in (("end", rows[len(rows) // 2 :]), ("middle", rows[3 : len(rows) - 2])):
        inputs = [{"whole.jsonl": rows}, {"part.jsonl": part}]
        (tmp_path / name).mkdir()
        assert requests(tmp_path / name / "d", *inputs[:: -1 if first == "part" else 1]) == len(rows)


def test_what_is_like_a_part_of_another_file_and_is_none(tmp_path: Path) -> None:
    rows = mooncake(5, session_id="a")
    others = {
        "renamed": [row | {"session_id": "b"} for row in rows[4:]],
        "later": [row | {"timestamp": row["timestamp"] + 1} for row in rows[4:]],
        "gap": [rows[4], *rows[6:]],
    }
    for name, part in others.items():
        (tmp_path / name).mkdir()
        assert requests(tmp_path / name / "d", {"a.jsonl": rows}, {"b.jsonl": part}) == len(rows) + len(part), name
    few = untimed(5, rows=9)
    assert requests(tmp_path / "d", {"a.jsonl": few}, {"b.jsonl": few[4:]}) == len(few) + 5


def test_lengths_without_times_in_another_container(tmp_path: Path) -> None:
    rows = untimed(5, rows=2)
    csv = "".join(",".join(map(str, line)) + "\n" for line in (rows[0], *(row.values() for row in rows)))
    for number, (name, text) in enumerate(
        [("a.csv", csv), ("b.json", json.dumps(rows)), ("c.tsv", csv.replace(",", "\t"))]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_text(text)
        read(folder, tmp_path / "d")
    assert Dataset(tmp_path / "d").read("requests").height == len(rows)
