"""Intervals of rates: a resample draws whole sessions, and one rate has one interval wherever it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.headline.bootstrap import rates_by_group, ratio_interval, ratio_intervals, sample_intervals
from analysis.profile.profile import profile
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from analysis.why.intervals import group_rates
from analysis.why.misses import misses
from traces.intake.ingest import Options, ingest


def test_intervals_hold_the_rate_and_narrow_with_sessions() -> None:
    rng = np.random.default_rng(1)
    whole = rng.integers(50, 150, 400).astype(np.float64)
    part, unit = whole * rng.uniform(0.6, 1.0, 400), np.arange(400)
    few, many = ratio_interval(part[:20], whole[:20], unit[:20]), ratio_interval(part, whole, unit)
    assert few is not None
    assert many is not None
    assert many.low < part.sum() / whole.sum() < many.high
    assert many.high - many.low < few.high - few.low


def test_a_sample_and_a_rate_are_resampled_by_the_same_draws() -> None:
    rng = np.random.default_rng(2)
    unit = rng.integers(0, 30, 200)
    values = np.sort(rng.lognormal(3, 1, 200))
    draws = rng.__class__(np.random.PCG64(7)).integers(0, 30, (200, 30))
    drawn = [np.concatenate([values[unit == u] for u in units]) for units in draws]
    found = sample_intervals(values, unit, (0.5, 0.9), seed=7)
    means = np.quantile([d.mean() for d in drawn], [0.025, 0.975])
    assert found[0] == pytest.approx(tuple(means))
    for q, interval in zip((0.5, 0.9), found[1:], strict=True):
        ends = np.quantile([np.quantile(d, q, method="inverted_cdf") for d in drawn], [0.025, 0.975])
        assert interval == pytest.approx(tuple(ends))
    rate = ratio_intervals(values[:, None], np.ones((200, 1)), unit, seed=7, draws=200)
    assert rate == [pytest.approx(found[0])]


def test_sessions_of_one_rate_have_no_spread_and_one_session_has_no_interval() -> None:
    part = np.array([[1.0, 2.0], [10.0, 20.0], [4.0, 8.0]])
    assert ratio_intervals(part, 4 * part, np.arange(3)) == [pytest.approx((0.25, 0.25))] * 2
    assert ratio_intervals(part, part, np.zeros(3)) == [None, None]
    assert ratio_intervals(part, 0 * part, np.arange(3)) == [None, None]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 100), st.integers(0, 9)), min_size=2, max_size=30))
def test_intervals_lie_between_the_lowest_and_the_highest_session(rows: list[tuple[int, int, int]]) -> None:
    part, whole = (np.array([f(row[:2]) for row in rows], float) for f in (min, max))
    unit = np.array([row[2] for row in rows])
    rates = [part[unit == u].sum() / whole[unit == u].sum() for u in set(unit.tolist())]
    interval = ratio_interval(part, whole, unit)
    assert (interval is None) == (len(rates) < 2)
    if interval is not None:
        assert min(rates) - 1e-9 <= interval.low <= interval.high <= max(rates) + 1e-9


def test_rates_are_weighted_three_ways() -> None:
    frame = pl.DataFrame({"group": ["g"] * 2, "unit": [0, 1], "hit": [0, 300], "prefix_tokens": [100, 300]})
    (row,) = rates_by_group(frame).to_dicts()
    assert (row["rate"], row["rate_per_request"], row["rate_by_compute"]) == (0.75, 0.5, 0.9)
    assert row["small"]


def test_one_ceiling_has_one_interval(tmp_path: Path) -> None:
    rows = [
        {"ts": 1_790_000_000 + 10 * turn + number, "session_id": f"s{number}" if number % 5 else None,
         "prompt": f"session {number} says: {'word ' * (20 + 7 * number)}{'more ' * turn * (number % 4)}"}
        for number in range(12) for turn in range(3)
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds", Options(tokenizer="bytes"))
    warehouse, question = open_dataset(tmp_path / "ds"), Question()
    (rate,) = group_rates(warehouse, question, misses(warehouse, question)).to_dicts()
    published = profile(warehouse)["overall"]["cached"]["ceiling_interval"]
    assert rate["low"] < rate["rate"] < rate["high"]
    assert published == [rate["low"], rate["high"]]
