from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.kernel.heavy_paths import heavy_paths
from analysis.kernel.reuse import reuse
from analysis.kernel.transitions import KINDS, TYPES, Transitions, trajectory_types, transitions
from analysis.store import arrivals
from tests.references import naive
from tests.references.naive import Call


def classify(
    calls: list[Call],
    session: list[int] | None = None,
    block: int = 1,
    head: int = -1,
    order: Any = None,
    ids: Any = None,
) -> Transitions:
    tree = naive.build_tree([c.prompt for c in calls], ids=ids)
    codes = np.array(session if session is not None else [0] * len(calls), np.int64)
    return transitions(
        tree.parent,
        tree.start,
        tree.end,
        heavy_paths(tree.parent, tree.start),
        tree.leaf,
        np.arange(len(calls)) if order is None else np.asarray(order),
        codes,
        np.full(len(calls), block),
        np.array([c.arrival for c in calls], np.float64),
        np.array([c.duration for c in calls], np.float64),
        np.array([c.compaction for c in calls], np.bool_),
        np.full(int(codes.max(initial=-1)) + 1, head),
    )


def kinds(found: Transitions) -> list[str | None]:
    return [KINDS[code] if code >= 0 else None for code in found.code]


A, B, C, D = (letter * 100 for letter in "abcd")  # a hundred tokens each

CASES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("append", [A, A + B], {}),
    ("append", [A + "x" * 16, A + B], {}),  # the last 16 tokens may differ
    ("edit", [A + "x" * 17, A + B], {}),
    ("retry", [A, A], {}),
    ("retry", [A + B, A, A + B], {}),  # of an earlier one, not of the previous
    ("retry", [A + "x" * 16, A + "y" * 16], {}),
    ("rewind", [A + B + C, A + B], {}),
    ("rewind", [A, A + B, A + C], {}),  # extends the first, not the second
    ("rewind", [A, A + B, A + B + C, A + B + D], {}),
    ("tail", [A * 10 + "x" * 20, A * 10 + "y" * 20], {}),  # 2 % of 1,020 tokens is 20.4
    ("edit", [A * 10 + "x" * 21, A * 10 + "y" * 21], {}),
    ("unrelated", [A, B], {}),
    ("unrelated", [A, B + C], {}),
    ("compaction", [A + B + C, A + D], {}),  # it got shorter
    ("edit", [A + B, A + C + D], {}),
    ("system_change", [A + B, A + C + D], {"head": 101}),
    ("edit", [A + B, A + C + D], {"head": 100}),
    ("unrelated", [A, B + C], {"head": 50}),
    # Blocks of 100: a length is rounded down before a shared prefix is compared with it, and one block may differ.
    ("append", [A + B + "x" * 99, A + B + C + D], {"block": 100}),
    ("append", [A + B + C, A + B + D + D], {"block": 100}),
    ("edit", [A + B + C + C, A + B + D + D + D], {"block": 100}),
]


@pytest.mark.parametrize(("expected", "prompts", "options"), CASES)
def test_each_transition(expected: str, prompts: list[str], options: dict[str, Any]) -> None:
    assert kinds(classify([Call(p) for p in prompts], **options))[-1] == expected


def test_the_source_may_say_that_history_was_compacted() -> None:
    calls = [Call(A + B), Call(A + C + D, compaction=True)]
    assert kinds(classify(calls)) == ["first", "compaction"]


def test_a_fork_branches_off_what_still_runs() -> None:
    def last(duration: float) -> str | None:
        calls = [Call(A, 0, 1), Call(A + B, 5, 1), Call(A + B + C, 10, duration), Call(A + B + D, 20, 1)]
        return kinds(classify(calls))[-1]

    assert last(30) == "fork"  # the third extends the second, which the fourth extends too
    assert last(10) == "rewind"  # ended just now
    assert last(float("nan")) == "rewind"


def test_what_a_request_is_compared_with() -> None:
    found = classify([Call(A + B), Call(A + C), Call(A + B + D), Call(None), Call(D)])
    assert found.previous_row.tolist() == [-1, 0, 1, -1, 2]
    assert found.shared_previous_tokens.tolist() == [-1, 100, 100, -1, 0]
    assert found.deepest_row.tolist() == [-1, 0, 0, -1, 2]
    assert found.deepest_shared_tokens.tolist() == [-1, 100, 200, -1, 0]
    assert kinds(found) == ["first", "edit", "rewind", None, "unrelated"]


def test_sessions_are_told_apart_and_rows_may_be_in_any_order() -> None:
    calls = [Call(A + B), Call(A), Call(A + B), Call(A + B + C), Call(A)]
    assert kinds(classify(calls, session=[0, 0, 1, 1, -1], order=[3, 1, 4, 0, 2])) == [
        "append",
        "first",
        "rewind",
        "first",
        None,
    ]


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Call], list[int], int, int, Any]:
    block = draw(st.sampled_from([1, 1, 2, 5]))
    piece = st.tuples(st.sampled_from("ab"), st.sampled_from([1, 3, 15, 16, 17, 40] if block == 1 else [1, 2, 5]))
    prompt = st.lists(piece, max_size=5).map(lambda parts: "".join(letter * times for letter, times in parts))
    prompts: list[str | None] = draw(st.lists(st.one_of(prompt, prompt, prompt, st.none()), min_size=1, max_size=8))
    for i in range(1, len(prompts)):
        earlier = prompts[draw(st.integers(0, i - 1))]
        if earlier is not None and draw(st.booleans()):
            prompts[i] = earlier[: draw(st.integers(0, len(earlier)))] + draw(prompt)
    arrival = np.cumsum(draw(st.lists(st.sampled_from([0.0, 1.0, 3.0]), min_size=len(prompts), max_size=len(prompts))))
    durations = draw(
        st.lists(st.sampled_from([0.0, 2.0, 5.0, float("nan")]), min_size=len(prompts), max_size=len(prompts))
    )
    flags = draw(st.lists(st.booleans(), min_size=len(prompts), max_size=len(prompts)))
    calls = [Call(*c) for c in zip(prompts, arrival.tolist(), durations, flags, strict=True)]
    codes = draw(st.lists(st.integers(0, 1), min_size=len(prompts), max_size=len(prompts)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return calls, codes, block, draw(st.sampled_from([-1, 3, 20])), generator


@settings(deadline=None, max_examples=400)
@given(sessions())
def test_equals_the_definition(workload: Any) -> None:
    calls, codes, block, head, ids = workload
    found = kinds(classify(calls, codes, block, head, ids=ids))
    for i, call in enumerate(calls):
        earlier = [calls[j] for j in range(i) if codes[j] == codes[i]]
        assert found[i] == naive.transition(earlier, call, block, head), (i, calls)


def test_trajectory_type_is_the_most_hostile_transition() -> None:
    sequences = {
        "single": ["first"],
        "append": ["first", "append", "tail", "retry"],
        "branched": ["first", "append", "rewind"],
        "compacted": ["first", "unrelated", "compaction", "append"],
        "edited": ["first", "system_change", "compaction", "fork"],
    }
    session = [s for s, steps in enumerate(sequences.values()) for _ in steps] + [5, 5, 7, -1]
    code = [KINDS.index(k) for steps in sequences.values() for k in steps] + [0, -1, 0, -1]
    types = trajectory_types(np.array(session), np.array(code, np.int8), 8)
    named = [TYPES[t] if t >= 0 else None for t in types]
    assert named == [*sequences, None, None, "single"]  # 5: one step, unknown; 6: no requests


def test_published_sessions() -> None:
    trace = naive.weka_trace()
    golden = json.loads((naive.SHARED / "golden.json").read_text())["kv_cache_tester_100, staggered:600, block 64"]
    model = arrivals.parse("staggered:600")
    count = len(trace.session)
    arrival, order = arrivals.apply(model, *naive.weka_arrivals(trace))
    tree = trace.tree
    cut = heavy_paths(tree.parent, tree.start)
    found = transitions(
        *tree[:3],
        cut,
        tree.leaf,
        order,
        trace.session,
        np.full(count, 64),
        arrival,
        trace.duration_s,
        np.zeros(count, np.bool_),
        trace.session_head_tokens,
    )
    counts = {kind: int(np.count_nonzero(found.code == i)) for i, kind in enumerate(KINDS)}
    counts["rewind_or_fork"] = counts.pop("rewind") + counts.pop("fork")
    assert {kind: n for kind, n in counts.items() if n} == golden["transitions"]

    hits = reuse(*tree[:3], tree.leaf, order, arrival, 64, paths=cut).hit_blocks
    types = trajectory_types(trace.session, found.code, len(trace.session_parent))
    assert {TYPES[t] for t in types} == set(golden["by_trajectory_type"])
    for name, expected in golden["by_trajectory_type"].items():
        mine = types[trace.session] == TYPES.index(name)
        assert expected == {
            "sessions": np.count_nonzero(types == TYPES.index(name)),
            "requests": np.count_nonzero(mine),
            "input_tokens": trace.input_tokens[mine].sum(),
            "output_tokens": trace.output_tokens[mine].sum(),
            "ceiling_hit_tokens": 64 * hits[mine].sum(),
        }
