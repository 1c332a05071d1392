"""The figures of uniform placement: known values and exact small cases."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.fleet.placement import binomial, chi_squared, uniform_placement, vmr_band


def test_250_sessions_on_50_replicas() -> None:
    figures = uniform_placement(50, 250)
    assert figures.one_at_most_low == pytest.approx(0.0391, abs=5e-5)
    assert figures.one_at_least_high == pytest.approx(0.00497, abs=5e-6)
    assert figures.poisson_at_most_low == pytest.approx(0.0404, abs=5e-5)
    assert figures.poisson_at_least_high == pytest.approx(0.00545, abs=5e-6)
    assert figures.any_at_most_low == pytest.approx(0.884, abs=5e-4)
    assert figures.any_at_least_high == pytest.approx(0.226, abs=5e-4)
    assert figures.expected_at_most_low == pytest.approx(1.95, abs=6e-3)
    assert figures.expected_at_least_high == pytest.approx(0.25, abs=5e-3)
    assert figures.max_mean == pytest.approx(10.65, abs=1e-2)
    assert figures.max_p50 == 10
    assert figures.vmr == pytest.approx(0.98)


def test_more_replicas_make_some_unlucky_one_certain() -> None:
    figures = uniform_placement(500, 2500)
    assert figures.any_at_most_low == pytest.approx(1.0, abs=5e-4)
    assert figures.any_at_least_high == pytest.approx(0.93, abs=2e-2)


def test_the_band_of_50_replicas() -> None:
    assert vmr_band(50) == pytest.approx((0.644, 1.433), abs=2e-3)
    assert vmr_band(1) is None


def test_quantiles_known_by_hand() -> None:
    assert chi_squared(0.95, 1) == pytest.approx(3.841459, abs=1e-5)
    assert chi_squared(0.5, 2) == pytest.approx(1.386294, abs=1e-5)
    assert binomial(2, 0.5).tolist() == pytest.approx([0.25, 0.5, 0.25])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 2), st.integers(1, 4))
def test_counting_all_placements(replicas: int, sessions: int, low: int, high: int) -> None:
    places = list(product(range(replicas), repeat=sessions))
    loads = [[place.count(r) for r in range(replicas)] for place in places]
    figures = uniform_placement(replicas, sessions, low, high)

    def share(kept: list[bool]) -> float:
        return sum(kept) / len(kept)

    assert figures.any_at_most_low == pytest.approx(share([min(load) <= low for load in loads]), abs=1e-9)
    assert figures.any_at_least_high == pytest.approx(share([max(load) >= high for load in loads]), abs=1e-9)
    assert figures.one_at_most_low == pytest.approx(share([load[0] <= low for load in loads]), abs=1e-9)
    assert figures.one_at_least_high == pytest.approx(share([load[0] >= high for load in loads]), abs=1e-9)
    assert figures.max_mean == pytest.approx(sum(max(load) for load in loads) / len(loads), abs=1e-9)
