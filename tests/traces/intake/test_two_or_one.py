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
