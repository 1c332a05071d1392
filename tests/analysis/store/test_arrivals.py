from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.store.arrivals import Arrivals, Requests, Sessions, apply, arrival_order, needs_model, parse

NAN = float("nan")


def sessions(*rows: tuple[int, int, int, bool]) -> Sessions:
    """Each row: parent, input rank, first record, relative times."""
    parent, rank, ordinal, relative = zip(*rows, strict=True)
    return Sessions(np.array(parent), np.array(rank), np.array(ordinal), np.array(relative))


def requests(*rows: tuple[float, int, float, int, int]) -> Requests:
    """Each row: recorded time, session, duration, record, input rank."""
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return Requests(*columns)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("recorded", Arrivals()),
        ("staggered:600", Arrivals("staggered", 600.0)),
        ("staggered:0.5", Arrivals("staggered", 0.5)),
        ("staggered:1234567.25", Arrivals("staggered", 1234567.25)),
        ("poisson:30", Arrivals("poisson", 30.0, 0)),
        ("poisson:30:7", Arrivals("poisson", 30.0, 7)),
        (" closed:4 ", Arrivals("closed", 4.0)),
    ],
)
def test_forms(text: str, model: Arrivals) -> None:
    assert parse(text) == model
    assert parse(str(model)) == model


@pytest.mark.parametrize(
    "text",
    ["", "stagger:1", "staggered", "staggered:-1", "staggered:nan", "staggered:inf", "poisson:0", "poisson:1:x",
     "poisson:1:-1", "poisson:1:2:3", "closed:0", "closed:1.5", "recorded:1"],
)  # fmt: skip
def test_other_forms_are_refused_with_the_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"recorded \| staggered:SECONDS \| poisson:PER_HOUR\[:SEED\] \| closed:LANES"):
        parse(text)


# Two files with times from their own start; the second's session spawns a sub-agent.
TWO = sessions((-1, 1, 1, True), (-1, 0, 1, True), (0, 1, 2, True))
CALLS = requests(
    (3.0, 0, 1.0, 1, 1),  # its first call comes 3 s after the session's start: that stays
    (9.0, 0, NAN, 4, 1),
    (5.0, 2, 2.0, 3, 1),
    (0.0, 1, 4.0, 1, 0),
    (7.0, 1, 6.0, 2, 0),
)


def test_recorded_keeps_the_times() -> None:
    arrival, order = apply(parse("recorded"), TWO, CALLS)
    assert arrival.tolist() == [3.0, 9.0, 5.0, 0.0, 7.0]
    assert order.tolist() == [3, 0, 2, 4, 1]
    assert needs_model(TWO)


def test_staggered_moves_a_session_with_its_subagents_in_name_order() -> None:
    arrival, order = apply(parse("staggered:100"), TWO, CALLS)
    assert arrival.tolist() == [103.0, 109.0, 105.0, 0.0, 7.0]
    assert order.tolist() == [3, 4, 0, 2, 1]


def test_staggered_on_one_clock_starts_a_session_with_its_first_request() -> None:
    one_clock = TWO._replace(relative=np.zeros(3, bool))
    assert not needs_model(one_clock)
    calls = CALLS._replace(recorded_s=np.array([1003.0, 1009.0, 1001.0, 50.0, 57.0]))
    arrival, _ = apply(parse("staggered:100"), one_clock, calls)
    assert arrival.tolist() == [100.0, 106.0, 98.0, 0.0, 7.0]  # the sub-agent's clock moves with its parent's


def test_poisson_is_seeded_and_moves_only_starts() -> None:
    first, _ = apply(parse("poisson:60:3"), TWO, CALLS)
    again, _ = apply(parse("poisson:60:3"), TWO, CALLS)
    other, _ = apply(parse("poisson:60:4"), TWO, CALLS)
    gap = np.random.default_rng(3).exponential(60.0)
    assert first.tolist() == again.tolist() == [gap + 3, gap + 9, gap + 5, 0.0, 7.0]
    assert first.tolist() != other.tolist()


def test_closed_runs_families_one_after_the_other_in_each_lane() -> None:
    arrival, _ = apply(parse("closed:1"), TWO, CALLS)
    assert arrival.tolist() == [16.0, 22.0, 18.0, 0.0, 7.0]  # the first family ends at 7 + 6
    both, _ = apply(parse("closed:2"), TWO, CALLS)
    assert both.tolist() == [3.0, 9.0, 5.0, 0.0, 7.0]
    three = sessions(*[(-1, k, 1, True) for k in range(3)])
    calls = requests((0.0, 0, 10.0, 1, 0), (0.0, 1, 4.0, 1, 1), (0.0, 2, 1.0, 1, 2))
    assert apply(parse("closed:2"), three, calls)[0].tolist() == [0.0, 0.0, 4.0]


def test_ties_go_by_input_then_record_and_unknown_times_come_last() -> None:
    arrival = np.array([5.0, NAN, 5.0, 5.0, 1.0])
    order = arrival_order(arrival, np.array([1, 0, 0, 0, 2]), np.array([1, 9, 8, 7, 1]))
    assert order.tolist() == [4, 3, 2, 0, 1]
    ascending = arrival_order(arrival, np.array([0, 0, 0, 1, 1]), np.array([1, 2, 3, 1, 2]))
    assert ascending.tolist() == [4, 0, 2, 3, 1]


def test_unknown_times_stay_unknown_and_requests_without_a_session_move_alone() -> None:
    calls = requests((8.0, -1, NAN, 2, 0), (NAN, 0, NAN, 1, 0), (4.0, -1, NAN, 3, 0))
    arrival, order = apply(parse("staggered:10"), sessions((-1, 0, 1, False)), calls)
    assert np.isnan(arrival[1])
    assert arrival[[0, 2]].tolist() == [10.0, 20.0]
    assert order.tolist() == [0, 2, 1]


def test_one_relative_session_needs_no_model() -> None:
    assert not needs_model(sessions((-1, 0, 1, True), (0, 0, 2, True)))
    assert not needs_model(sessions((-1, 0, 1, True), (-1, 1, 1, False)))


def test_parents_in_a_circle_are_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        apply(parse("staggered:1"), sessions((1, 0, 1, True), (0, 0, 2, True)), requests((0.0, 0, NAN, 1, 0)))


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Sessions, Requests]:
    count = draw(st.integers(1, 6))
    parents = [draw(st.integers(-1, s - 1)) for s in range(count)]
    places = draw(st.permutations(range(count)))
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, count - 1), st.sampled_from([NAN, 0.0, 3.0])),
            min_size=1,
            max_size=10,
        )
    )
    relative = draw(st.booleans())
    return (
        sessions(*[(parents[s], places[s], 1, relative) for s in range(count)]),
        requests(*[(float(t), s, d, i, places[s]) for i, (t, s, d) in enumerate(rows)]),
    )


@settings(deadline=None, max_examples=60)
@given(workloads(), st.sampled_from(["staggered:7", "poisson:100:1", "closed:1", "closed:3"]))
def test_models_keep_all_times_inside_a_family(workload: Any, text: str) -> None:
    those, calls = workload
    arrival, order = apply(parse(text), those, calls)
    assert sorted(order.tolist()) == list(range(len(arrival)))
    assert np.all(np.diff(arrival[order]) >= 0)
    root = np.arange(len(those.parent))
    for s in range(len(root)):  # parents come first here
        root[s] = s if those.parent[s] < 0 else root[those.parent[s]]
    shift: dict[int, float] = {}
    for moved, recorded, session in zip(arrival, calls.recorded_s, calls.session, strict=True):
        family = int(root[session])
        assert shift.setdefault(family, moved - recorded) == pytest.approx(moved - recorded)
