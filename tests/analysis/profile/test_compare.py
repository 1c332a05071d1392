"""Comparing two workloads: literal differences, intervals and warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.profile.compare import _difference, compare
from analysis.profile.profile import profile
from tests.analysis.export.exported import mooncake_file, read, weka_folder

ROWS = [
    {"timestamp": 1000 * k, "input_length": 8 + 4 * k, "output_length": 2, "hash_ids": list(range(2 + k)),
     "block_size": 4, "session_id": f"s{k % 3}"}
    for k in range(9)
]  # fmt: skip


def test_a_workload_is_itself(tmp_path: Path) -> None:
    one = profile(read(mooncake_file(tmp_path / "t.jsonl", ROWS), tmp_path))
    found = compare(one, one)
    assert all(row["difference"] in (0, None) for row in found["rows"])
    for row in found["rows"]:
        if row["interval"] is not None:
            assert row["interval"][0] <= 0 <= row["interval"][1]
    said = [w for w in found["warnings"] if "top-level sessions only" not in w]
    assert [w[:41] for w in said] == ["both have as many requests, sessions and "]
    assert "independent samples" in found["definition"]["interval"]


def test_differences_are_b_minus_a(tmp_path: Path) -> None:
    longer = [row | {"output_length": 5} for row in ROWS]
    a = profile(read(mooncake_file(tmp_path / "a.jsonl", ROWS), tmp_path))
    b = profile(read(mooncake_file(tmp_path / "b.jsonl", longer), tmp_path))
    by = {row["metric"]: row for row in compare(a, b)["rows"]}
    assert by["output_tokens_mean"] == {
        "metric": "output_tokens_mean", "a": 2.0, "b": 5.0, "difference": 3.0, "interval": [3.0, 3.0],
    }  # fmt: skip
    assert by["input_tokens_mean"]["difference"] == 0
    assert by["input_output_ratio"]["a"] == pytest.approx(24 / 2)
    assert by["reported"]["a"] is None


def test_interval_of_a_difference() -> None:
    low, high = _difference(10, 20, [7, 14], [17, 24])
    assert (low, high) == (10 - 5, 10 + 5)  # 3 and 4 add up as squares, on either side


def test_what_is_not_alike_is_warned_about(tmp_path: Path) -> None:
    a = profile(read(mooncake_file(tmp_path / "a.jsonl", ROWS), tmp_path))
    b = profile(read(weka_folder(tmp_path / "weka"), tmp_path))
    found = " | ".join(compare(a, b)["warnings"])
    for part in (
        "block size: 4 against 64",
        "sources: mooncake against weka",
        "known durations",
        "only one side has times",
    ):
        assert part in found
    slow = [row | {"timestamp": 10 * row["timestamp"]} for row in ROWS]
    c = profile(read(mooncake_file(tmp_path / "c.jsonl", slow), tmp_path), None, "staggered:60")
    assert "duration" in " | ".join(compare(a, c)["warnings"])
    assert "arrivals: recorded against staggered:60" in " | ".join(compare(a, c)["warnings"])
