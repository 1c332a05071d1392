"""AIPerf's agentic-code configuration: bounded lognormals, numbers of turns, and what is told of the rest."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.export.planners import writer
from analysis.export.planners.profiles.agentic_code import play
from analysis.export.planners.profiles.bounded_lognormal import Lognormal, fitted
from analysis.export.planners.profiles.turn_counts import Turns, fitted_turns
from analysis.profile.profile import profile
from tests.analysis.export.exported import mooncake_file, read


@given(st.floats(50, 5000), st.floats(1.0, 3.0), st.floats(4, 40))
@settings(deadline=None, max_examples=30)
def test_a_bounded_lognormal_has_the_mean_and_median_asked_for(median: float, skew: float, room: float) -> None:
    mean = median * skew
    found = fitted(mean, median, 1.0, mean * room)
    got = found.figures()
    assert got[1] == pytest.approx(median, rel=0.002)
    if got[0] != pytest.approx(mean, rel=0.01):  # bounds this near cannot hold so skew a sample
        assert room < 3 * skew


def test_a_median_above_the_mean_needs_an_upper_bound() -> None:
    mean, median = fitted(95, 100, 1, 150).figures()
    assert (mean, median) == (pytest.approx(95, rel=0.1), pytest.approx(100, rel=0.001))


def test_outputs_below_the_floor_count_as_the_floor() -> None:
    mean, median = fitted(60, 40, 1, 2000, 30).figures(30)
    assert (mean, median) == (pytest.approx(60, rel=0.01), pytest.approx(40, rel=0.001))


def test_numbers_of_turns() -> None:
    assert fitted_turns(5, 5, 5, 5, 5) == Turns(5, 5, 5, 5)
    found = fitted_turns(12, 8, 27, 1, 80)
    mean, median, p90 = found.figures()
    assert (mean, median) == (pytest.approx(12, rel=0.02), 8)
    assert p90 == pytest.approx(27, rel=0.2)
    drawn = found.drawn(np.random.default_rng(0), 2000)
    assert drawn.mean() == pytest.approx(mean, rel=0.01)


def test_a_session_ends_where_its_prompt_would_pass_the_longest() -> None:
    same = Lognormal(np.log(100.5), 0.0, 1, 1000)
    made = play(same, same, same, Turns(10, 10, 10, 10), 64, 1.0, 700)
    assert made.first.tolist() == [164.0] * made.first.size  # 64 shared and 100 of its own
    assert set(made.turns.tolist()) == {3.0}  # 164, 364, 564, and 764 would be too long
    assert made.cut == 1
    assert set(made.before.tolist()) == {164.0, 364.0}


def sessions(count: int) -> list[dict[str, Any]]:
    """Appending sessions that share a head of 4 blocks of 64."""
    draw = random.Random(3)
    rows = []
    for s in range(count):
        clock, tokens = 100_000 * s, 256 + int(draw.lognormvariate(6, 0.8))
        for _ in range(draw.choice([2, 4, 6, 12])):
            output = 30 + int(draw.lognormvariate(4.5, 0.9))
            blocks = -(-tokens // 64)
            ids = [k if k < 4 else (s << 20) + k if k < tokens // 64 else (1 << 40) + len(rows) for k in range(blocks)]
            rows.append({"timestamp": clock, "input_length": tokens, "output_length": output, "hash_ids": ids,
                         "session_id": f"s{s}", "block_size": 64})  # fmt: skip
            tokens += output + 1 + int(draw.lognormvariate(6.2, 1.0))
            clock += 500 + int(draw.lognormvariate(9, 1.2))
    return rows


def test_configuration_of_a_workload_that_only_appends(tmp_path: Path) -> None:
    made = profile(read(mooncake_file(tmp_path / "t.jsonl", sessions(120)), tmp_path))
    written = writer("aiperf-agentic-code")(made, tmp_path / "c.json")
    config = json.loads((tmp_path / "c.json").read_text())
    assert config["cache"]["layer1_tokens"] == 256
    for part in (config["new_tokens_per_turn"], config["generation_length"], config["cache"]["layer2"]):
        assert part["mean"] >= part["median"] > 0
        assert part["min"] <= part["max"]
    turns = config["turns"]
    assert turns["min"] <= turns["median"] <= turns["mean"] <= turns["max"]
    assert config["inter_turn_delay"]["agentic_fraction"] == 1.0
    told = " ".join(written.notes)
    for name in ("first_input_tokens", "added_tokens_per_turn", "output_tokens", "turns"):
        assert f"{name} mean" not in told
    assert "no sub-agents, compactions" in told


def test_long_prompts_take_larger_blocks(tmp_path: Path) -> None:
    rows = [row | {"block_size": 4, "hash_ids": [k + 100_000 * n for k in range(-(-row["input_length"] // 4))]}
            for n, row in enumerate(sessions(12))]  # fmt: skip
    rows[3] |= {"input_length": 30_000, "hash_ids": list(range(7500))}
    made = profile(read(mooncake_file(tmp_path / "t.jsonl", rows), tmp_path))
    written = writer("aiperf-agentic-code")(made, tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["block_size"] == 8
    assert any("need blocks of 8 tokens instead of 4" in note for note in written.notes)
