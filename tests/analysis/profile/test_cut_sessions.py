"""What a short trace hides of sessions, and whom first prompts share with: kept in a profile and in what it makes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.profile.first_prompts import with_first_prompts
from analysis.profile.profile import profile
from analysis.profile.targets import rows
from analysis.store.warehouse import open_dataset
from tests.analysis.export.exported import mooncake_file, read
from traces.dataset.layout import Dataset, Tree
from traces.synth.workload import synthesize


def windowed(sessions: int, window_s: float = 1000.0) -> list[dict[str, Any]]:
    """Sessions of 2 to 4 turns that end with the trace, so late ones have short gaps."""
    draw = random.Random(1)
    made = []
    for s in range(sessions):
        start = 0.95 * window_s * s / sessions
        turns = draw.choice([2, 3, 4])
        times = [start, *sorted(draw.uniform(start, window_s) for _ in range(turns - 1))]
        for turn, at in enumerate(times):
            ids = [(s << 20) + k for k in range(8 + 4 * turn)]
            made.append({"timestamp": round(1000 * at), "input_length": 64 * len(ids), "output_length": 20,
                         "hash_ids": ids, "session_id": f"s{s}", "block_size": 64})  # fmt: skip
    return sorted(made, key=lambda row: row["timestamp"])


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("cut")
    return json.loads(json.dumps(profile(read(mooncake_file(folder / "t.jsonl", windowed(200)), folder))))


def test_gaps_of_sessions_that_the_end_cuts_are_told_session_by_session(cut: dict[str, Any], tmp_path: Path) -> None:
    strata = cut["generator"]["strata"]
    assert sum(len(s["waits"]) for s in strata) == 200
    for stratum in strata:
        spans = [sum(gap for gap, _ in waits) for waits in stratum["waits"]]
        assert np.mean(spans[: len(spans) // 3]) > 2 * np.mean(spans[-len(spans) // 3 :])
    synthesize(cut, tmp_path / "d", None, 0)
    assert Dataset(tmp_path / "d").read("requests")["arrival_s"].max() < 1030
    bad = [r["figure"] for r in rows(cut, profile(open_dataset(tmp_path / "d"))) if not r["holds"]]
    assert bad == []


def test_a_long_trace_tells_no_single_gaps(tmp_path: Path) -> None:
    rows_ = [row | {"timestamp": row["timestamp"] % 7000 + 400_000 * int(row["session_id"][1:])}
             for row in windowed(40)]  # fmt: skip
    rows_.sort(key=lambda row: row["timestamp"])
    made = profile(read(mooncake_file(tmp_path / "t.jsonl", rows_), tmp_path))
    assert not any("waits" in s for s in made["generator"]["strata"])


def test_profiles_of_version_one_are_still_made_from(cut: dict[str, Any], tmp_path: Path) -> None:
    old = json.loads(json.dumps(cut)) | {"version": 1}
    for stratum in old["generator"]["strata"]:
        stratum.pop("waits", None)
        stratum["first"] = [example[:4] for example in stratum["first"]]
    assert synthesize(old, tmp_path / "d", 50, 0)["requests"] > 50


def test_whom_first_prompts_share_with() -> None:
    # sessions 0, 1, 2 start with node 1 (two blocks of 10); session 1 goes on while 2 starts; 3 shares nothing
    tree = Tree(
        np.array([-1, 0, 1, 1, 1, 0]), np.array([0, 0, 20, 20, 20, 0]), np.array([0, 20, 30, 30, 40, 30]),
        np.zeros(6, np.int8),
    )  # fmt: skip
    frame = pl.DataFrame(
        {
            "s": [0, 1, 2, 1, 3], "t": [0, 0, 0, 1, 0], "at": [0, 1, 2, 3, 4], "depth": [0] * 5,
            "family": [0, 1, 2, 1, 3], "arrival_s": [0.0, 5.0, 7.0, 9.0, 20.0], "prefix_id": [2, 3, 4, 3, 5],
            "rank": [0, 1, 2, 3, 4],
        }
    )  # fmt: skip
    runs = pl.DataFrame({"request": [1, 2], "start_block": [0, 0], "blocks": [2, 2], "last_request": [0, 1]})
    found = with_first_prompts(frame, runs, tree, 10, True).filter(pl.col("t") == 0)
    names = ["whose", "first_kept", "first_lag", "first_age", "first_over", "first_from", "first_met"]
    assert found.select(names).rows() == [
        (0, 0, 1, 0.0, 0.0, 0, 0), (2, 20, 1, 5.0, 1.0, 0, 1), (2, 20, 1, 2.0, 0.0, 0, 2), (0, 0, 1, 0.0, 0.0, 0, 0),
    ]  # fmt: skip
