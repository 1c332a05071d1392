"""Sessions at once: the same as the curve of a closed loop; admission loses nothing and only makes turns later."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.headline.curves import curve
from analysis.policies.admission import RULES, fitting, median_live_tokens, schedule
from analysis.policies.at_once import at_once
from analysis.policies.turns import Turns, turns
from analysis.replica.interactivity import Service
from analysis.replica.models.catalog import load_gpu, load_model
from analysis.replica.prefill import prefill_work
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse, open_dataset
from traces.intake.ingest import Options, ingest

BLOCK = 4
ZERO_S = 1_790_000_000
SESSIONS = st.lists(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(1, 6), st.integers(0, 3)), min_size=1,
             max_size=5),
    min_size=1, max_size=5,
)  # fmt: skip
"""For each session its turns: seconds to wait, seconds it takes, blocks it adds, blocks of its end it rewrites."""


def made(folder: Path, sessions: list[list[tuple[int, int, int, int]]]) -> Warehouse:
    folder.mkdir(parents=True, exist_ok=True)
    for place, chain in enumerate(sessions):
        at, ids, rows = 0, [1, 2], []
        for step, (gap, takes, adds, rewrites) in enumerate(chain):
            ids = ids[: max(2, len(ids) - rewrites)] + [1000 * (place + 1) + 10 * step + i for i in range(adds)]
            rows.append({
                "timestamp": ZERO_S + at + gap, "end": ZERO_S + at + gap + takes, "session_id": f"s{place}",
                "block_size": BLOCK,
                "input_length": BLOCK * len(ids), "output_length": 3, "hash_ids": ids,
            })  # fmt: skip
            at += gap + takes
        (folder / f"{place}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / f"{place}.jsonl") for place in range(len(sessions))], folder / "ds", Options(format="table"))
    return open_dataset(folder / "ds")


@settings(max_examples=8, deadline=None)
@given(SESSIONS, st.integers(1, 6), st.integers(1, 30))
def test_without_admission_it_is_the_curve_of_a_closed_loop(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[list[tuple[int, int, int, int]]], users: int, blocks: int
) -> None:
    warehouse = made(tmp_path_factory.mktemp("once"), sessions)
    found = at_once(warehouse, Question(), BLOCK * blocks, [users])
    if users > len(sessions):
        assert (found["rows"], found["left_out"]) == ([], [users])
        return
    closed = curve(warehouse, Question(arrivals=f"closed:{users}"), capacity_blocks=[blocks]).row(0, named=True)
    (row,) = found["rows"]
    assert row["hit_rate"] == pytest.approx(closed["hit_rate"], abs=1e-15)
    assert row["recomputed_tokens"] == closed["prefix_tokens"] - closed["hit_tokens"]
    assert row["wait_s_p99"] == 0


@settings(max_examples=60, deadline=None)
@given(SESSIONS, st.integers(1, 6), st.integers(1, 400), st.sampled_from(list(RULES)))
def test_admission_loses_no_request_and_only_delays(
    sessions: list[list[tuple[int, int, int, int]]], users: int, capacity: int, rule: str
) -> None:
    found = _turns(sessions)
    planned = schedule(found, rule, users, capacity)
    assert len(planned.arrival_s) == len(found.row)
    assert (planned.wait_s >= 0).all()
    ends = []
    for f in range(found.families):
        mine = slice(int(found.first[f]), int(found.first[f + 1]))
        arrival, inside = planned.arrival_s[mine], found.inside_s[mine]
        assert (np.diff(arrival) >= np.diff(inside) - 1e-9).all()  # never closer together than they were recorded
        late = (arrival - inside)[-1]
        ends.append(late + found.took_s[f])
        assert planned.wait_s[f] <= late + 1e-9
    assert planned.end_s == pytest.approx(max(ends))
    if rule == "none" or capacity >= found.live_tokens.sum():
        assert (planned.wait_s == 0).all() or rule == "cap"


@settings(max_examples=60, deadline=None)
@given(SESSIONS, st.integers(1, 6), st.integers(1, 400))
def test_what_starts_fits_beside_what_runs(
    sessions: list[list[tuple[int, int, int, int]]], users: int, capacity: int
) -> None:
    """Where no session is paused, a session starts only if its first prompt fits beside the others' live tokens."""
    found = _turns(sessions)
    planned = schedule(found, "footprint", users, capacity)
    starts = planned.arrival_s[found.first[:-1]]
    late = planned.arrival_s - found.inside_s
    for f in range(found.families):
        live = 0
        for g in range(found.families):
            mine = slice(int(found.first[g]), int(found.first[g + 1]))
            if g == f or np.ptp(late[mine]) > 0:  # a paused one may have made room
                continue
            begun = np.flatnonzero(planned.arrival_s[mine] < starts[f])
            if begun.size and late[mine][0] + found.took_s[g] > starts[f]:
                live += int(found.live_tokens[mine][begun[-1]])
        paused = any(np.ptp(late[int(found.first[g]) : int(found.first[g + 1])]) > 0 for g in range(found.families))
        if live and not paused:
            assert live + int(found.live_tokens[int(found.first[f])]) <= capacity


def _turns(sessions: list[list[tuple[int, int, int, int]]]) -> Turns:
    inside, duration, live, first, took = [], [], [], [0], []
    for chain in sessions:
        at, held = 0, 8
        for gap, takes, adds, rewrites in chain:
            held = max(8, held - BLOCK * rewrites) + BLOCK * adds
            inside.append(at + gap)
            duration.append(takes)
            live.append(held)
            at += gap + takes
        base = inside[first[-1]]
        inside[first[-1] :] = [value - base for value in inside[first[-1] :]]
        took.append(at - base)
        first.append(len(inside))
    return Turns(
        np.arange(len(inside)), np.array(first), np.array(inside, np.float64), np.array(duration, np.float64),
        np.array(live), np.array(took, np.float64),
    )  # fmt: skip


def test_live_tokens_of_a_family_by_hand(tmp_path: Path) -> None:
    """A session of two turns and a sub-agent that lives between them: 10 s of 8 tokens, 10 s of 8 + 12, then 16."""
    rows = [
        {"timestamp": ZERO_S + t, "end": ZERO_S + t + 5, "session_id": s, "parent_session_id": p, "block_size": BLOCK,
         "input_length": BLOCK * len(ids), "output_length": 0, "hash_ids": ids}
        for t, s, p, ids in ((0, "a", None, [1, 2]), (10, "b", "a", [7, 8, 9]), (20, "a", None, [1, 2, 3, 4]))
    ]  # fmt: skip
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "r.jsonl")], tmp_path / "ds", Options(format="table"))
    found = turns(open_dataset(tmp_path / "ds"))
    assert (found.families, found.live_tokens.tolist(), found.took_s.tolist()) == (1, [8, 20, 16], [25])
    assert median_live_tokens(found) == 16
    assert fitting(found, 33) == 2
    assert fitting(found, 1) == 1


def test_figures_by_hand(tmp_path: Path) -> None:
    """Two sessions of 4 and then 5 blocks that share nothing (ids hold inside a file), in a cache of 5 blocks."""
    warehouse = made(tmp_path, [[(0, 1, 2, 0), (9, 1, 1, 0)], [(0, 1, 2, 0), (9, 1, 1, 0)]])
    service = Service(load_model("llama-3.1-8b"), load_gpu("h200"))
    found = at_once(warehouse, Question(), BLOCK * 5, [1, 2], ["none", "cap"], service)
    alone, both, _, capped = found["rows"]
    assert alone["recomputed_tokens"] == BLOCK * (18 - 4 - 4)  # one after the other, the second prompts hit 4 blocks
    assert both["recomputed_tokens"] > alone["recomputed_tokens"]
    assert capped["recomputed_tokens"] == alone["recomputed_tokens"]
    assert (capped["wait_s_p99"], capped["duration_s"]) == (pytest.approx(11 * 0.99), 22)
    flops = [prefill_work(service.model, n * BLOCK, h / n).flops for n, h in ((4, 0), (5, 4), (4, 0), (5, 4))]
    low, high = service.assumptions.mfu
    assert alone["ttft_s"] == pytest.approx([float(np.median(flops)) / service.peak_flops / m for m in (high, low)])
    assert alone["tokens_per_s"] == pytest.approx([12 / 22, 12 / 22])
    assert found["knee"]["at_once"] == 1


@pytest.mark.parametrize(
    ("numbers", "rules", "capacity", "question", "says"),
    [
        ([0], ["none"], 9, Question(), "whole numbers"),
        ([1], ["fifo"], 9, Question(), "unknown admission rule"),
        ([1], ["none"], 0, Question(), "at least 1 token"),
        ([1], ["none"], 9, Question(window="last:0.5"), "mean nothing"),
    ],
)
def test_what_means_nothing_is_refused(
    tmp_path: Path, numbers: list[int], rules: list[str], capacity: int, question: Question, says: str
) -> None:
    with pytest.raises(BadQuestion, match=says):
        at_once(made(tmp_path, [[(0, 1, 2, 0)]]), question, capacity, numbers, rules)
