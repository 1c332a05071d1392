from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.kernel.heavy_paths import heavy_paths
from analysis.kernel.reuse import reuse
from analysis.store import arrivals
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from analysis.why.attribution import causes
from analysis.why.caches.computed_reuse import computed_reuse
from analysis.why.caches.depths import depths
from analysis.why.causes import CAUSES
from analysis.why.divergences import divergences
from analysis.why.first_seen import first_seen_roles
from analysis.why.matches import longest_matches
from analysis.why.misses import misses
from analysis.why.transition_losses import transition_losses
from app.cli import group
from tests.references import block_replay, naive

LETTERS = st.integers(1, 4).flatmap(
    lambda n: st.lists(st.one_of(st.none(), st.text("abcd"[:n], max_size=12)), min_size=1, max_size=12)
)


def split(
    tree: naive.Tree,
    order: Any,
    block: int,
    capacity: int | None,
    ttl: float | None,
    arrival: Any,
    computed: Any,
    rewritten_end: Any,
) -> dict[str, Any]:
    paths = heavy_paths(tree.parent, tree.start)
    rows, times = np.asarray(order), np.asarray(arrival, dtype=np.float64)
    match = longest_matches(tree.parent, tree.start, tree.end, tree.leaf, rows, times, paths)
    prefix = np.where(tree.leaf >= 0, tree.end[np.maximum(tree.leaf, 0)], 0)
    running = None
    runs: Any
    if computed is None:
        runs = reuse(tree.parent, tree.start, tree.end, tree.leaf, rows, times, block, None, paths)
    else:
        runs = computed_reuse(paths, tree.end, tree.leaf, rows, times, computed, block)
        running = runs.running_blocks
    held = depths(runs.request, runs.blocks, runs.distance_blocks, runs.gap_s, len(prefix), capacity, ttl)
    return causes(prefix, match.tokens, block, held, None, running, np.asarray(rewritten_end))


@settings(max_examples=150, deadline=None)
@given(
    LETTERS, st.integers(1, 4), st.none() | st.integers(0, 12), st.none() | st.integers(0, 6), st.booleans(),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_causes_equal_a_replay_block_by_block_and_sum_to_the_prompt(
    prompts: list[str | None], block: int, capacity: int | None, ttl: float | None, finish: bool, random: Any
) -> None:
    count = len(prompts)
    times = sorted(random.randint(0, 9) for _ in prompts)
    order = list(range(count))
    random.shuffle(order)
    arrival = [0.0] * count
    for place, row in enumerate(order):
        arrival[row] = float(times[place])
    computed = np.array([t + random.randint(0, 4) for t in arrival]) if finish else None
    ends = [random.randint(0, len(p or "")) for p in prompts]
    tree = naive.build_tree(prompts, cuts=[[random.randint(1, 12)] for _ in prompts])
    got = split(tree, order, block, capacity, ttl, arrival, computed, ends)
    want = block_replay.expected(
        prompts, order, block, capacity, ttl, arrival, None if computed is None else computed.tolist(), ends
    )
    for cause in CAUSES:
        assert got[cause].tolist() == [row.get(cause, 0) for row in want], cause
    assert sum(got.values()).tolist() == [len(p or "") for p in prompts]


def test_each_cause_by_hand() -> None:
    # B = 2. 1 rewrites 0 behind "aab"; 2 repeats 0 after 10 s; 3 repeats 2 in a cache that held 2 blocks.
    tree = naive.build_tree(["aabbcc", "aabxyy", "aabbcc", "aabbcc"])
    got = split(tree, [0, 1, 2, 3], 2, 2, 5.0, [0.0, 1.0, 11.0, 12.0], None, [0, 6, 0, 0])
    assert {cause: tokens.tolist() for cause, tokens in got.items()} == {
        "hit": [0, 2, 0, 4],
        "in_flight": [0, 0, 0, 0],
        "routing": [0, 0, 0, 0],
        "ttl": [0, 0, 6, 0],
        "capacity": [0, 0, 0, 2],
        "block_rounding": [0, 1, 0, 0],
        "rewritten": [0, 3, 0, 0],
        "first_seen": [6, 0, 0, 0],
    }


def test_a_prompt_that_is_being_computed_is_missed_in_flight() -> None:
    tree = naive.build_tree(["aabb", "aabb", "aabb"])
    got = split(tree, [0, 1, 2], 2, None, None, [0.0, 1.0, 3.0], np.array([2.0, 4.0, 5.0]), [0, 0, 0])
    assert got["in_flight"].tolist() == [0, 4, 0]
    assert got["hit"].tolist() == [0, 0, 4]


def test_routing_is_what_one_shared_cache_would_have_held() -> None:
    tree = naive.build_tree(["aabb", "aabb"])
    times = np.array([0.0, 1.0])
    paths = heavy_paths(tree.parent, tree.start)
    runs = reuse(tree.parent, tree.start, tree.end, tree.leaf, np.arange(2), times, 2, None, paths)
    shared = depths(runs.request, runs.blocks, runs.distance_blocks, runs.gap_s, 2, None, None)
    match = np.array([0, 4])
    got = causes(np.array([4, 4]), match, 2, shared, np.array([0, 1]), None, np.zeros(2, np.int64))
    assert (got["hit"].tolist(), got["routing"].tolist()) == ([0, 2], [0, 2])


@settings(max_examples=60, deadline=None)
@given(LETTERS, st.randoms(use_true_random=False))
def test_roles_of_first_seen_tokens_are_those_of_their_nodes(prompts: list[str | None], random: Any) -> None:
    tree = naive.build_tree(prompts, cuts=[[random.randint(1, 12), random.randint(1, 12)] for _ in prompts])
    role = np.array([random.randint(0, 3) for _ in tree.parent], np.int8)
    first = np.array([random.randint(0, len(p or "")) for p in prompts])
    row, code, tokens = first_seen_roles(tree.parent, tree.start, tree.end, role, tree.leaf, first)
    want = np.zeros((len(prompts), 4), np.int64)
    for i, leaf in enumerate(tree.leaf):
        node = leaf
        while node > 0:
            for token in range(tree.start[node], tree.end[node]):
                want[i, role[node]] += token >= tree.end[leaf] - first[i]
            node = tree.parent[node]
    got = np.zeros_like(want)
    np.add.at(got, (row, code), tokens)
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize("block", [64, 256])
def test_published_sessions_equal_the_replay_block_by_block(block: int) -> None:
    trace = naive.weka_trace()
    tree = trace.tree
    when, order = arrivals.apply(arrivals.parse("staggered:600"), *naive.weka_arrivals(trace))
    paths = heavy_paths(tree.parent, tree.start)
    runs = reuse(tree.parent, tree.start, tree.end, tree.leaf, order, when, block, None, paths)
    match = longest_matches(tree.parent, tree.start, tree.end, tree.leaf, order, when, paths).tokens
    prefix = tree.end[tree.leaf]
    for capacity in (1024, 4096, 16384, 65536, 262144, None):
        for ttl in (60.0, 300.0, 3600.0, None):
            held = depths(runs.request, runs.blocks, runs.distance_blocks, runs.gap_s, len(prefix), capacity, ttl)
            got = causes(prefix, match, block, held, None, None, np.zeros_like(prefix))
            want = np.zeros((len(prefix), 4), np.int64)
            block_replay.replay(
                tree.parent, tree.end, tree.leaf, order, when, block, capacity or 1 << 60,
                np.inf if ttl is None else ttl, want,
            )  # fmt: skip
            for column, cause in enumerate(("hit", "ttl", "capacity")):
                assert (got[cause] == want[:, column] * block).all(), (capacity, ttl, cause)
            assert (match == want[:, 3]).all()
            assert (sum(got.values()) == prefix).all()


def run(*arguments: Any) -> dict[str, Any]:
    result = CliRunner().invoke(group, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    told: dict[str, Any] = json.loads(result.stdout)
    return told


def tower(folder: Any, turns: int, added: int) -> tuple[Any, list[int]]:
    rows = [
        {"ts": t, "session_id": "s", "prompt": "x" * added + "".join(chr(97 + k) * added for k in range(t))}
        for t in range(turns)
    ]
    (folder / "tower.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    run("ingest", folder / "tower.jsonl", "-o", folder / "ds", "--tokenizer", "bytes", "--json")
    return folder / "ds", [len(row["prompt"]) for row in rows]


def test_a_tower_of_equal_turns_misses_only_its_last_context(tmp_path: Any) -> None:
    dataset, lengths = tower(tmp_path, 7, 30)
    row = run("misses", dataset, "--block-size", 1, "--json")["rows"][0]
    assert row["prefix_tokens"] == sum(lengths)
    assert row["hit"] / row["prefix_tokens"] == pytest.approx(1 - lengths[-1] / sum(lengths))
    assert row["first_seen"] == lengths[-1]


@pytest.mark.parametrize("axis", ["trajectory_type", "role", "trigger", "work", "transition", "session", "turn"])
@pytest.mark.parametrize("extra", [(), ("--capacity-tokens", 64, "--ttl", 2), ("--replicas", 2, "--policy", "random")])
def test_groups_of_every_axis_sum_to_the_prefix_tokens(tmp_path: Any, axis: str, extra: tuple[Any, ...]) -> None:
    dataset, lengths = tower(tmp_path, 5, 20)
    rows = run("misses", dataset, "--block-size", 16, "--by", axis, *extra, "--json")["rows"]
    assert sum(row[cause] for row in rows for cause in CAUSES) == sum(lengths)
    for row in rows:
        assert sum(row[cause] for cause in CAUSES) == row["prefix_tokens"]
        assert sum(row["first_seen_by_role"].values()) == row["first_seen"]


@pytest.mark.parametrize("definition", ["kvcache-simulator", "aiperf", "vllm", "sglang"])
@pytest.mark.parametrize("capacity", [None, 2048])
def test_other_definitions_sum_to_the_prefix_tokens_too(tmp_path: Any, definition: str, capacity: int | None) -> None:
    ids = [[1, 2, 3], [1, 2, 3, 4], [1, 2, 9, 8, 7], [1, 2, 3, 4, 5], [6, 6, 6], [1, 2, 3, 4]]
    rows = [
        {"timestamp": 1000 * t, "input_length": 512 * len(row) - 7, "output_length": 9, "hash_ids": row}
        for t, row in enumerate(ids)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    run("ingest", tmp_path / "rows.jsonl", "-o", tmp_path / "ds", "--json")
    size = [] if capacity is None else ["--capacity-tokens", capacity]
    arguments = ["misses", tmp_path / "ds", "--definition", definition, *size, "--json"]
    if definition == "aiperf" and capacity is not None:
        assert CliRunner().invoke(group, [str(a) for a in arguments]).exit_code == 2
        return
    (row,) = run(*arguments)["rows"]
    assert sum(row[cause] for cause in CAUSES) == row["prefix_tokens"] == sum(r["input_length"] for r in rows)
    assert all(row[cause] >= 0 for cause in CAUSES)


def test_partial_tails_of_hash_traces_lose_nothing(tmp_path: Any) -> None:
    """Each prompt's partial last block has an id of its own; only what is lost in full blocks counts."""
    prompts = [([1, 2, 3, 91], 210), ([1, 2, 3, 4, 92], 290), ([1, 2, 3, 4, 5, 93], 380), ([1, 7, 8, 9, 6, 94], 330)]
    rows = [
        {"timestamp": 1000 * t, "input_length": n, "output_length": 1, "hash_ids": ids, "session_id": "s",
         "block_size": 64}
        for t, (ids, n) in enumerate(prompts)
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    run("ingest", tmp_path / "rows.jsonl", "-o", tmp_path / "ds", "--json")
    warehouse = open_dataset(tmp_path / "ds")
    found = misses(warehouse, Question())
    assert warehouse.kinds()["transition"].to_list() == ["first", "append", "append", "compaction"]
    assert found.rows["lost_tokens"].to_list() == [0, 0, 0, 320 - 64]
    by_transition = transition_losses(warehouse, Question(), found)
    assert by_transition["lost_tokens"].sum() == by_transition["parted_tokens"].sum() == 256
    assert sum(row["lost_tokens"] for row in divergences(warehouse, Question())) == 256
    assert warehouse.query("missing_sessions", Question(), causes=found.causes)["lost_tokens"].to_list() == [256]
