from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.kernel import sorted_runs

INF = float("inf")
NAN = float("nan")


def test_two_runs_by_hand() -> None:
    # Blocks at distances 0 1 2 and 5 6: the curve climbs at 1, 2, 3, 6 and 7.
    table = sorted_runs.capacity_curve(np.array([0, 5]), np.array([3, 2]))
    assert sorted_runs.hit_blocks_at(table, np.arange(9)).tolist() == [[0, 1, 2, 3, 3, 3, 4, 5, 5]]
    assert table.position.tolist() == [0, 3, 5, 7]
    assert sorted_runs.needed_blocks(table) == 7


def test_an_unbounded_capacity_is_only_a_large_one() -> None:
    table = sorted_runs.capacity_curve(np.array([0, 5]), np.array([3, 2]), np.array([1, 1]), 3)
    assert sorted_runs.hit_blocks_at(table, np.array([2**63 - 1])).tolist() == [[0], [5], [0]]


def test_ttl_counts_a_gap_that_just_fits_and_never_an_unknown_one() -> None:
    table = sorted_runs.ttl_curve(np.array([60.0, 3.0, NAN, 60.0]), np.array([1, 2, 4, 8]))
    assert sorted_runs.hit_blocks_within(table, np.array([0.0, 3.0, 59.9, 60.0, INF])).tolist() == [[0, 2, 2, 11, 11]]
    assert table.unknown_blocks.tolist() == [4]
    assert table.gap_s.tolist() == [3.0, 60.0]


def test_no_runs() -> None:
    nothing = np.array([], np.int64)
    table = sorted_runs.capacity_curve(nothing, nothing, nothing, 2)
    assert sorted_runs.hit_blocks_at(table, np.array([0, 10])).tolist() == [[0, 0], [0, 0]]
    assert sorted_runs.needed_blocks(table) == 0
    gaps = sorted_runs.ttl_curve(nothing.astype(np.float64), nothing)
    assert sorted_runs.hit_blocks_within(gaps, np.array([1.0])).tolist() == [[0]]


RUNS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(1, 12),
        st.sampled_from([0.0, 1.0, 2.0, 7.5, NAN]),
        st.integers(0, 2),
    ),
    max_size=20,
)


def columns(runs: list[Any]) -> tuple[Any, Any, Any, Any]:
    rows = np.array(runs, np.float64).reshape(-1, 4).T
    return rows[0].astype(np.int64), rows[1].astype(np.int64), rows[2], rows[3].astype(np.int64)


@settings(deadline=None, max_examples=100)
@given(RUNS)
def test_every_capacity_and_ttl_equals_the_sum_over_runs_and_groups_sum_to_the_whole(runs: list[Any]) -> None:
    distance, blocks, gap, group = columns(runs)
    capacity, ttl = np.arange(45), np.array([7.5, 0.0, INF, 1.0, 5.0])
    by_capacity = sorted_runs.hit_blocks_at(sorted_runs.capacity_curve(distance, blocks, group, 3), capacity)
    by_ttl = sorted_runs.hit_blocks_within(sorted_runs.ttl_curve(gap, blocks, group, 3), ttl)
    cross = sorted_runs.hits_cross(distance, blocks, gap, capacity, ttl, group, 3)
    for g in range(3):
        mine = group == g
        at = [np.clip(c - distance[mine], 0, blocks[mine]) for c in capacity]
        assert by_capacity[g].tolist() == [hits.sum() for hits in at]
        assert by_ttl[g].tolist() == [blocks[mine & (gap <= t)].sum() for t in ttl]
        assert cross[g].tolist() == [[hits[gap[mine] <= t].sum() for t in ttl] for hits in at]
    assert (
        by_capacity.sum(axis=0).tolist()
        == sorted_runs.hit_blocks_at(sorted_runs.capacity_curve(distance, blocks), capacity)[0].tolist()
    )
    assert (
        by_ttl.sum(axis=0).tolist()
        == sorted_runs.hit_blocks_within(sorted_runs.ttl_curve(gap, blocks), ttl)[0].tolist()
    )
    assert np.all(np.diff(by_capacity, axis=1) >= 0)


@given(st.integers(1, 10**9), st.integers(1, 8))
def test_the_grid_climbs_to_where_the_curve_is_flat(needed: int, per_octave: int) -> None:
    grid = sorted_runs.capacity_grid(needed, per_octave)
    assert grid[0] == 1
    assert grid[-1] == needed
    assert np.all(np.diff(grid) > 0)
    assert np.all(grid[1:] <= np.maximum(grid[:-1] + 1, np.ceil(grid[:-1] * 2 ** (1 / per_octave)) + 1))


def test_the_grid_by_hand() -> None:
    assert sorted_runs.capacity_grid(10, per_octave=1).tolist() == [1, 2, 4, 8, 10]
    assert sorted_runs.capacity_grid(0).tolist() == [1]


def test_codes_out_of_range_are_refused() -> None:
    one = np.array([1])
    with pytest.raises(ValueError, match=r"outside 0\.\.1"):
        sorted_runs.capacity_curve(one, one, np.array([2]), 2)
    with pytest.raises(ValueError, match="need a group code"):
        sorted_runs.capacity_curve(one, one, None, 2)
    with pytest.raises(ValueError, match="each run needs one"):
        sorted_runs.ttl_curve(one, one, np.array([0, 0]), 2)
