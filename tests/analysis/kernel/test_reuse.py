from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.kernel.heavy_paths import heavy_paths, shared_tokens
from analysis.kernel.reuse import Reuse, reuse
from analysis.kernel.touch_stacks import lru_runs, touch_stacks
from tests.references import naive


def run(
    tree: naive.Tree, order: Any, block: int, arrival: Any = None, session: Any = None
) -> tuple[Reuse, list[tuple[int, ...]]]:
    times = np.arange(len(tree.leaf), dtype=np.float64) if arrival is None else np.asarray(arrival, dtype=np.float64)
    found = reuse(tree.parent, tree.start, tree.end, tree.leaf, np.asarray(order), times, block, session)
    columns = (found.request, found.start_block, found.blocks, found.distance_blocks, found.last_request)
    return found, list(zip(*(c.tolist() for c in columns), strict=True))


def test_a_request_finds_runs_of_what_earlier_ones_touched_last() -> None:
    # 0: aabb, 1: aacc, 2: aabb again. After 1 the cache holds, most recent first: aa(1) cc(1) bb(0).
    _, rows = run(naive.build_tree(["aabb", "aacc", "aabb"]), [0, 1, 2], 2)
    assert rows == [(1, 0, 1, 0, 0), (2, 0, 1, 0, 1), (2, 1, 1, 2, 0)]


def test_runs_merge_across_nodes_and_a_partial_block_never_hits() -> None:
    tree = naive.build_tree(["abcdefg", "abcx", "abcdefg"], cuts=[[1, 2, 5]])
    found, rows = run(tree, [1, 0, 2], 2)
    assert found.full_blocks.tolist() == [3, 2, 3]
    assert rows == [(0, 0, 1, 0, 1), (2, 0, 3, 0, 0)]
    assert found.hit_blocks.tolist() == [1, 0, 3]
    assert found.distinct_blocks == 4


def test_unknown_prompts_take_no_part_and_unknown_times_give_unknown_gaps() -> None:
    tree = naive.build_tree(["ab", None, "ab", "ab"])
    found, rows = run(tree, [0, 1, 2, 3], 1, arrival=[0.0, 1.0, 5.0, np.nan], session=np.zeros(4, np.int64))
    assert rows == [(2, 0, 2, 0, 0), (3, 0, 2, 0, 2)]
    assert found.gap_s[0] == 5.0
    assert np.isnan(found.gap_s[1])
    assert found.full_blocks.tolist() == [2, 0, 2, 2]
    assert found.same_session_hit_blocks is not None
    assert found.same_session_hit_blocks.tolist() == [0, 0, 2, 2]


def test_nothing_at_all() -> None:
    found, rows = run(naive.build_tree([]), [], 16, session=np.array([], np.int64))
    assert rows == []
    assert found.distinct_blocks == 0


PROMPTS = st.integers(1, 5).flatmap(
    lambda letters: st.lists(
        st.one_of(
            st.none(),
            st.lists(st.integers(1, letters), max_size=24).map(tuple),
            # Long towers out of few letters: prompts that are prefixes of each other, repeats, deep branches.
            st.tuples(st.integers(0, 40), st.lists(st.integers(1, letters), max_size=6)).map(
                lambda part: (0,) * part[0] + tuple(part[1])
            ),
        ),
        max_size=12,
    )
)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Any], naive.Tree, list[int], int, list[int], list[float]]:
    prompts = draw(PROMPTS)
    if prompts and draw(st.booleans()):
        prompts += draw(st.lists(st.sampled_from(prompts), max_size=6))
    cuts = draw(st.lists(st.lists(st.integers(1, 30), max_size=4), max_size=len(prompts)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tree = naive.build_tree(prompts, cuts, generator if draw(st.booleans()) else None)
    order = draw(st.permutations(range(len(prompts))))
    block = draw(st.one_of(st.integers(1, 4), st.integers(1, 64)))
    sessions = draw(st.lists(st.integers(-1, 3), min_size=len(prompts), max_size=len(prompts)))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5, 10.0]), min_size=len(prompts), max_size=len(prompts)))
    arrival = [0.0] * len(prompts)
    for row, at in zip(order, np.cumsum(gaps).tolist(), strict=True):
        arrival[row] = at
    return prompts, tree, order, block, sessions, arrival


@settings(deadline=None, max_examples=150)
@given(workloads())
def test_equals_a_per_block_lru_at_every_capacity(workload: Any) -> None:
    prompts, tree, order, block, _, arrival = workload
    found, _ = run(tree, order, block, arrival)
    distinct = len({b for prompt in prompts for b in naive.blocks_of(prompt, block)})
    assert found.distinct_blocks == distinct
    assert found.full_blocks.tolist() == [len(naive.blocks_of(prompt, block)) for prompt in prompts]
    before = np.zeros(len(prompts))
    for capacity in range(distinct + 2):
        hits = np.bincount(
            found.request,
            weights=np.clip(capacity - found.distance_blocks, 0, found.blocks),
            minlength=len(prompts),
        )
        assert hits.tolist() == naive.lru_hits(prompts, order, block, capacity)
        assert np.all(hits >= before)  # more cache never hits less
        before = hits
    # Flat from the distinct blocks on, at the ceiling; and the ceiling's identity.
    assert before.tolist() == found.hit_blocks.tolist()
    assert found.hit_blocks.sum() == found.full_blocks.sum() - distinct


@settings(deadline=None, max_examples=50)
@given(workloads())
def test_room_for_runs_grows_as_needed(workload: Any) -> None:
    _, tree, order, block, _, arrival = workload
    found, _ = run(tree, order, block, arrival)
    stacks = touch_stacks(heavy_paths(tree.parent, tree.start), tree.end, block)
    rows = np.array(order, np.int32)
    runs, hits, distinct, steps = lru_runs(stacks, tree.leaf.astype(np.int32), rows, room=0)
    for grown, expected in zip(runs[:4], found[:4], strict=True):
        assert grown.tolist() == expected.tolist()
    assert rows[runs.last_rank].tolist() == found.last_request.tolist()
    assert (hits.tolist(), distinct, steps) == (found.hit_blocks.tolist(), found.distinct_blocks, found.steps)


@settings(deadline=None, max_examples=100)
@given(workloads(), st.sampled_from([0.0, 1.0, 2.5, 3.5, 11.0, 1e9]))
def test_equals_a_per_block_ttl(workload: Any, ttl: float) -> None:
    prompts, tree, order, block, _, arrival = workload
    found, _ = run(tree, order, block, arrival)
    hits = np.bincount(found.request, weights=found.blocks * (found.gap_s <= ttl), minlength=len(prompts))
    assert hits.tolist() == naive.ttl_hits(prompts, order, block, arrival, ttl)


@settings(deadline=None, max_examples=100)
@given(workloads())
def test_runs_tile_the_hit_prefix_and_name_the_last_toucher(workload: Any) -> None:
    prompts, tree, order, block, _, arrival = workload
    found, rows = run(tree, order, block, arrival)
    rank = {row: i for i, row in enumerate(order)}
    covered = [0] * len(prompts)
    previous = (-1, -1)
    for request, start, blocks, _, last in rows:
        assert start == covered[request]
        assert (request, last) != previous  # runs of one toucher are merged
        previous = (request, last)
        for i in range(start, start + blocks):
            wanted = naive.blocks_of(prompts[request], block)[i]
            touchers = [r for r in order[: rank[request]] if wanted in naive.blocks_of(prompts[r], block)]
            assert last == touchers[-1]
        covered[request] += blocks
    assert covered == found.hit_blocks.tolist()
    assert [rank[request] for request, *_ in rows] == sorted(rank[request] for request, *_ in rows)


@settings(deadline=None, max_examples=100)
@given(workloads())
def test_same_session_hits_are_the_deepest_prefix_of_an_earlier_request_of_the_session(workload: Any) -> None:
    prompts, tree, order, block, sessions, _ = workload
    found, _ = run(tree, order, block, session=np.array(sessions, np.int64))
    expected = [0] * len(prompts)
    for i, row in enumerate(order):
        earlier = [r for r in order[:i] if sessions[r] == sessions[row] >= 0]
        mine = naive.blocks_of(prompts[row], block)
        expected[row] = max((naive.lcp(mine, naive.blocks_of(prompts[r], block)) for r in earlier), default=0)
    assert found.same_session_hit_blocks is not None
    assert found.same_session_hit_blocks.tolist() == expected


@settings(deadline=None, max_examples=100)
@given(workloads())
def test_shared_tokens_is_the_longest_common_prefix(workload: Any) -> None:
    prompts, tree, order, *_ = workload
    cut = heavy_paths(tree.parent, tree.start)
    a, b = np.array(order, np.int64), np.arange(len(prompts))
    shared = shared_tokens(cut.path, cut.above, cut.level, tree.end, tree.leaf[a], tree.leaf[b])
    for i, j, tokens in zip(a, b, shared, strict=True):
        known = prompts[i] is not None and prompts[j] is not None
        assert tokens == (naive.lcp(prompts[i], prompts[j]) if known else -1)


@settings(deadline=None, max_examples=50)
@given(workloads())
def test_a_walk_to_the_root_crosses_few_paths(workload: Any) -> None:
    tree = workload[1]
    cut = heavy_paths(tree.parent, tree.start)
    assert 2 ** int(cut.level.max()) <= len(tree.parent)
    assert np.bincount(cut.path, minlength=len(cut.above)).tolist() == np.diff(cut.first).tolist()


def tower(sessions: int, turns: int, head: int = 128, grow: int = 5, block: int = 64) -> naive.Tree:
    """Interleaved sessions on one shared head; each turn appends `grow` blocks and has a private partial tail."""
    parent, start, end, leaf = [-1, 0], [0, 0], [0, head * block], []
    tip = [1] * sessions
    for _ in range(turns):
        for s in range(sessions):
            for above, tokens in ((tip[s], grow * block), (len(parent), block // 2)):
                parent.append(above)
                start.append(end[above])
                end.append(start[-1] + tokens)
            tip[s] = len(parent) - 2
            leaf.append(len(parent) - 1)
    return naive.Tree(*(np.array(column, np.int64) for column in (parent, start, end, leaf)))


@pytest.mark.parametrize("turns", [25, 100, 400])
def test_steps_do_not_grow_with_the_turns(turns: int) -> None:
    tree = tower(sessions=40, turns=turns)
    found, _ = run(tree, np.arange(len(tree.leaf)), 64)
    assert found.steps / len(tree.leaf) <= 8
    assert found.hit_blocks.sum() == found.full_blocks.sum() - (128 + 40 * turns * 5)


@pytest.mark.parametrize("block", [64, 256])
def test_published_sessions_staggered_by_600_seconds(block: int) -> None:
    trace = naive.weka_trace()
    golden = json.loads((naive.SHARED / "golden.json").read_text())[
        f"kv_cache_tester_100, staggered:600, block {block}"
    ]
    arrival = trace.arrival_s + 600.0 * trace.input_rank
    order = np.lexsort((trace.ordinal, trace.input_rank, arrival))
    found, _ = run(trace.tree, order, block, arrival, trace.session)
    assert found.same_session_hit_blocks is not None
    assert found.full_blocks.sum() == golden["full_blocks"]
    assert found.distinct_blocks == golden["unique_prefix_blocks"]
    assert found.hit_blocks.sum() * block == golden["ceiling_hit_tokens"]
    assert found.same_session_hit_blocks.sum() * block == golden["same_session_hit_tokens"]
    for capacity, hits in golden["lru_hit_tokens_by_capacity_blocks"].items():
        assert np.clip(int(capacity) - found.distance_blocks, 0, found.blocks).sum() * block == hits
    for ttl, hits in golden["ttl_hit_tokens_by_seconds"].items():
        assert found.blocks[found.gap_s <= float(ttl)].sum() * block == hits


@pytest.mark.parametrize(
    ("parent", "message"),
    [([0], "node 0 must be the root"), ([-1, 2, 1], "cycle"), ([-1, 5], "node 1 has parent 5"), ([], "node 0")],
)
def test_what_is_no_tree_is_refused(parent: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        heavy_paths(np.array(parent, np.int64), np.zeros(len(parent), np.int64))


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    tree = naive.build_tree(["ab"])
    with pytest.raises(ValueError, match="block size"):
        run(tree, [0], 0)
    with pytest.raises(ValueError, match="differ in length"):
        run(tree, [], 1)
    with pytest.raises(ValueError, match=r"order\[0\] is 7"):
        run(tree, [7], 1)
