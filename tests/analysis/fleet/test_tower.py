"""`tower` against its targets on seeded closed loops of unequal sessions, 3 % of them thicc, about 5 in flight each."""

from functools import cache
from typing import Any

import pytest

from analysis.fleet.grid import frontier
from analysis.fleet.load_figures import cell_figures
from analysis.fleet.routers import POLICIES
from analysis.fleet.routing import Cell
from tests.references.closed_loop import ClosedLoop, closed_loop_trace

CAPACITY_TOKENS = 1_000_000
MOST_LOST = 0.02  # of the hit rate, against one shared cache of the same total size


@cache
def closed_loop(seed: int, replicas: int, duty: float) -> ClosedLoop:
    # enough sessions for time averages to settle, few enough to be quick
    return closed_loop_trace(
        seed=seed, replicas=replicas, duty=duty, rounds=3.0 if replicas < 50 and duty > 0.6 else 2.0
    )


@cache
def run(policy: str, seed: int, replicas: int, duty: float, capacity: int = CAPACITY_TOKENS) -> dict[str, Any]:
    loop = closed_loop(seed, replicas, duty)
    cell = Cell(
        policy, replicas, capacity, service="recorded", loop="closed", population=loop.population,
        window_s=loop.window_s,
    )  # fmt: skip
    return cell_figures(loop.trace, cell)


def lost(row: dict[str, Any]) -> float:
    return float(row["one_cache_hit_rate"] - row["hit_rate"])


@pytest.mark.parametrize(
    ("replicas", "duty", "seed"),
    [(20, 0.7, 1), (20, 0.7, 2), (20, 0.8, 3), (20, 0.9, 4), (50, 0.7, 5), (50, 0.9, 6), (20, 0.7, 8), (20, 0.9, 9)],
)
def test_running_requests_vary_below_half_their_mean_for_two_points_of_hits(
    replicas: int, duty: float, seed: int
) -> None:
    hashed, tower = (run(name, seed, replicas, duty) for name in ("session_hash", "tower"))
    for row in (hashed, tower):
        assert row["duty_cycle"] >= duty - 0.02
        assert row["mean_running_requests"] == pytest.approx(5, abs=0.5)
    assert hashed["vmr_running_requests"] > 1
    assert tower["vmr_running_requests"] < 0.3
    assert lost(tower) <= MOST_LOST


@pytest.mark.parametrize(
    ("replicas", "duty", "seed", "capacity"),
    [(20, 0.2, 10, 2_000_000), (20, 0.3, 11, CAPACITY_TOKENS),
     (50, 0.4, 13, CAPACITY_TOKENS)],
)  # fmt: skip
def test_the_same_where_most_sessions_think_and_placing_them_cannot_do_it(
    replicas: int, duty: float, seed: int, capacity: int
) -> None:
    hashed, placed, tower = (
        run(name, seed, replicas, duty, capacity) for name in ("session_hash", "sticky_least_loaded", "tower")
    )
    assert hashed["vmr_running_requests"] > 1
    assert placed["vmr_running_requests"] > 1 - placed["duty_cycle"]
    assert tower["vmr_running_requests"] < 0.45
    assert lost(tower) <= MOST_LOST


def test_caches_too_small_for_copies_get_fewer() -> None:
    loop = closed_loop_trace(seed=14, replicas=20, duty=0.1, rounds=1.0)
    rows = [
        cell_figures(
            loop.trace,
            Cell(name, 20, CAPACITY_TOKENS, service="recorded", loop="closed", population=loop.population),
        )
        for name in ("sticky_least_loaded", "tower")
    ]
    placed, tower = rows
    assert lost(placed) > MOST_LOST  # forty-five sessions on a million tokens
    assert lost(tower) < lost(placed)
    assert tower["vmr_running_requests"] < placed["vmr_running_requests"] / 1.5


@pytest.mark.parametrize(("duty", "seed"), [(0.3, 11), (0.4, 7), (0.7, 1)])
def test_no_policy_has_more_hits_and_a_more_even_load(duty: float, seed: int) -> None:
    rows = [run(name, seed, 20, duty) for name in POLICIES]
    edge = {row["policy"]: row for row in frontier(rows)}
    assert edge["tower"]["dominated"] is False
    cheap = [row for row in rows if lost(row) <= MOST_LOST]
    evenest = min(cheap, key=lambda row: float(row["vmr_running_requests"]))
    assert evenest["policy"] == "tower"
    assert evenest["vmr_running_requests"] < 1 - evenest["duty_cycle"] or duty >= 0.7  # below what placing can do
    for row in rows:  # more even only for many times the hits
        assert row["vmr_running_requests"] >= evenest["vmr_running_requests"] or lost(row) > 10 * MOST_LOST
