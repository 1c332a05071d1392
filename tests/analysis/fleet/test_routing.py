"""The replay against per-block LRU caches, the golden routing figures and the laws of routing."""

import json
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.fleet.routing import Cell, Event, Replay, Trace, replay
from tests.references.naive import SHARED, blocks_of, build_tree, lru_hits

QUICK = settings(max_examples=60, deadline=None)
PREFIX_AWARE = ("longest_prefix", "dynamo_kv", "llm_d", "production_stack_prefix", "preble", "tower")
PLAIN = ("random", "round_robin", "session_affinity", "least_requests", "power_of_two", "session_hash", "ring_hash")
ALL = (*PREFIX_AWARE, *PLAIN, "bounded_load", "sticky_least_loaded", "ray_prefix_affinity")


def trace_of(prompts: Any, sessions: Any = None, arrival: Any = None, **more: Any) -> Trace:
    tree = build_tree(prompts)
    rows = len(prompts)
    when = np.arange(rows, dtype=float) if arrival is None else np.asarray(arrival, float)
    session = np.zeros(rows, np.int64) if sessions is None else np.asarray(sessions, np.int64)
    order = np.argsort(when, kind="stable")
    return Trace(tree.parent, tree.start, tree.end, tree.leaf, order, when, session, **more)


def hash_trace(rows: list[dict[str, Any]], block: int) -> Trace:
    """A Mooncake-like trace as a tree of blocks."""
    below: dict[tuple[int, int], int] = {}
    parent, start, end, leaf = [-1], [0], [0], []
    for row in rows:
        node = 0
        for k, label in enumerate(row["hash_ids"]):
            key = (node, label)
            if key not in below:
                below[key] = len(parent)
                parent.append(node)
                start.append(k * block)
                end.append(min((k + 1) * block, row["input_length"]))
            node = below[key]
        leaf.append(node)
    codes: dict[str, int] = {}
    session = [codes.setdefault(row["session_id"], len(codes)) for row in rows]
    when = np.array([row["timestamp"] / 1000 for row in rows])
    output = np.array([row["output_length"] for row in rows])
    arrays = (np.array(column) for column in (parent, start, end, leaf))
    return Trace(*arrays, np.arange(len(rows)), when, np.array(session), output_tokens=output)


def loads(result: Replay) -> tuple[list[int], list[int]]:
    replicas = result.cell.replicas
    requests = np.bincount(result.outcome.replica, minlength=replicas)
    tokens = np.bincount(result.outcome.replica, result.prefix_tokens, minlength=replicas)
    return requests.tolist(), tokens.astype(int).tolist()


def hit_tokens(result: Replay, column: str = "hit") -> int:
    return int(result.outcome.blocks[column].sum()) * result.cell.block_tokens


prompts_strategy = st.lists(
    st.tuples(st.lists(st.integers(0, 1), min_size=0, max_size=9), st.integers(0, 3)), min_size=1, max_size=25
)


@QUICK
@given(
    prompts_strategy,
    st.integers(1, 3),
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(0, 6)),
    st.sampled_from(ALL),
)
def test_every_cache_equals_a_per_block_lru(
    rows: Any, block: int, replicas: int, capacity: int | None, policy: str
) -> None:
    prompts = [row[0] for row in rows]
    cell = Cell(policy, replicas, None if capacity is None else capacity * block, block_tokens=block)
    result = replay(trace_of(prompts, [row[1] for row in rows]), cell)
    chosen = result.outcome.replica
    blocks = result.outcome.blocks
    bound = 10**9 if capacity is None else capacity
    for r in range(replicas):
        mine = [k for k in range(len(rows)) if chosen[k] == r]
        assert [blocks["hit"][k] for k in mine] == [lru_hits(prompts, mine, block, bound)[k] for k in mine]
        assert [blocks["unbounded_hit"][k] for k in mine] == [lru_hits(prompts, mine, block, 10**9)[k] for k in mine]
    shared = lru_hits(prompts, range(len(rows)), block, bound * replicas)
    assert blocks["shared_hit"].tolist() == shared
    held: list[OrderedDict[Any, None]] = [OrderedDict() for _ in range(replicas)]
    for k in range(len(rows)):
        wanted = blocks_of(prompts[k], block)
        assert blocks["best"][k] == max(sum(b in cache for b in wanted) for cache in held)
        for b in reversed(wanted):
            held[chosen[k]].pop(b, None)
            held[chosen[k]][b] = None
        while len(held[chosen[k]]) > bound:
            held[chosen[k]].popitem(last=False)


@QUICK
@given(prompts_strategy, st.integers(1, 3), st.integers(0, 6), st.sampled_from(ALL))
def test_one_replica_is_the_lru_curve_whatever_the_policy(rows: Any, block: int, capacity: int, policy: str) -> None:
    prompts = [row[0] for row in rows]
    result = replay(trace_of(prompts, [row[1] for row in rows]), Cell(policy, 1, capacity * block, block_tokens=block))
    assert result.outcome.blocks["hit"].tolist() == lru_hits(prompts, range(len(rows)), block, capacity)


@QUICK
@given(prompts_strategy, st.integers(2, 4), st.sampled_from(PREFIX_AWARE))
def test_prefix_aware_policies_equal_the_shared_cache_without_bounds_and_load(
    rows: Any, replicas: int, policy: str
) -> None:
    prompts = [row[0] for row in rows]
    result = replay(trace_of(prompts, [row[1] for row in rows]), Cell(policy, replicas, block_tokens=1))
    assert result.outcome.blocks["hit"].tolist() == lru_hits(prompts, range(len(rows)), 1, 10**9)


def test_case_19_hit_tokens_and_loads() -> None:
    case = SHARED / "cases" / "19-routing-rr-vs-affinity"
    rows = [json.loads(line) for line in (case / "input.jsonl").read_text().splitlines()]
    expected = json.loads((case / "expected.json").read_text())["policies"]
    trace = hash_trace(rows, 512)
    for policy, name in (
        ("round_robin", "round_robin"),
        ("session_affinity", "session_affinity (new session -> next replica)"),
        ("longest_prefix", "longest prefix, ties to lowest index"),
    ):
        result = replay(trace, Cell(policy, 2, block_tokens=512))
        assert hit_tokens(result) == expected[name]["hit_tokens"]
        assert loads(result)[1] == expected[name]["input_tokens_per_replica"]
        assert hit_tokens(result, "shared_hit") == expected["one shared cache"]["hit_tokens"]


def test_golden_routing_figures(tmp_path: Any) -> None:
    generator = SHARED / "tools" / "gen_traces.py"
    out = tmp_path / "agent.jsonl"
    subprocess.run([sys.executable, generator, "agent", out, "200", "--sid"], check=True, capture_output=True)
    trace = hash_trace([json.loads(line) for line in out.read_text().splitlines()], 64)
    golden = json.loads((SHARED / "golden.json").read_text())
    for name, figures in golden["routing: gen_traces agent 200 --sid, recorded, block 64"].items():
        policy, replicas, capacity = (part.strip().split()[0] for part in name.split(","))
        tokens = None if capacity == "unbounded" else int(capacity) * 64
        result = replay(trace, Cell(policy, int(replicas), tokens))
        assert hit_tokens(result) == figures["hit_tokens"], name
        assert loads(result) == (figures["requests_per_replica"], figures["input_tokens_per_replica"]), name


timed_rows = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), max_size=6),
        st.integers(0, 2),
        st.integers(0, 6),
        st.integers(1, 9),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=20,
)  # prompt, session, arrival, duration, output


def timed_trace(rows: Any) -> Trace:
    columns = list(zip(*rows, strict=True))
    return trace_of(
        columns[0],
        columns[1],
        columns[2],
        duration_s=np.array(columns[3], float),
        output_tokens=np.array(columns[4], np.int64),
    )


@QUICK
@given(
    timed_rows,
    st.integers(1, 3),
    st.one_of(st.none(), st.integers(0, 8)),
    st.sampled_from((*ALL, "sglang_cache_aware")),
    st.sampled_from(("open", "closed")),
    st.one_of(st.none(), st.integers(1, 2)),
    st.lists(st.tuples(st.sampled_from(("scale", "lose", "hot")), st.integers(0, 9)), max_size=3),
)
def test_requests_and_tokens_are_conserved_under_load_and_events(
    rows: Any, replicas: int, capacity: int | None, policy: str, loop: str, most: int | None, events: Any
) -> None:
    happenings = tuple(
        Event(kind, at, 3 if kind == "scale" else 0) for kind, at in events if kind != "lose" or replicas > 1
    )
    happenings = tuple(e for k, e in enumerate(happenings) if e.kind != "lose" or k == 0)
    cell = Cell(
        policy, replicas, capacity, seed=1, block_tokens=1, service="recorded", insert="finish", loop=loop,
        max_running=most, events=happenings, population=2 if loop == "closed" else None,
    )  # fmt: skip
    trace = timed_trace(rows)
    result = replay(trace, cell)
    out = result.outcome
    assert (out.replica >= 0).all()
    times = out.times.view(np.float64).reshape(-1, 4)
    assert not np.isnan(times).any()
    assert (np.diff(times, axis=1) >= 0).all()
    assert result.prefix_tokens.sum() == sum(len(row[0]) for row in rows)
    assert (out.blocks.view(np.int64) >= 0).all()
    assert (out.blocks.view(np.int64).reshape(-1, 4) <= result.prefix_tokens[:, None]).all()
    again = replay(trace, cell).outcome
    assert np.array_equal(again.replica, out.replica)
    assert np.array_equal(again.blocks, out.blocks)


@QUICK
@given(timed_rows, st.permutations(["a", "b", "c"]), st.sampled_from((*ALL, "sglang_cache_aware")))
def test_permuting_replica_names_changes_nothing(rows: Any, names: list[str], policy: str) -> None:
    trace = timed_trace(rows)
    cell = Cell(policy, 3, 6, block_tokens=1, service="recorded")
    plain = replay(trace, cell._replace(replica_names=("a", "b", "c"))).outcome
    named = replay(trace, cell._replace(replica_names=tuple(names))).outcome
    hashed = policy in ("session_hash", "ring_hash", "bounded_load")
    renamed = [["a", "b", "c"].index(name) for name in names] if hashed else [0, 1, 2]
    assert [renamed[r] for r in named.replica] == plain.replica.tolist()
    assert np.array_equal(named.blocks, plain.blocks)


def test_a_prompt_can_be_hit_only_once_it_is_computed() -> None:
    trace = trace_of([[1] * 4, [1] * 4, [1] * 4], [0, 1, 2], [0, 1, 3], duration_s=np.full(3, 2.0))
    early = replay(trace, Cell("round_robin", 1, block_tokens=1, service="recorded"))
    late = replay(trace, Cell("round_robin", 1, block_tokens=1, service="recorded", insert="finish"))
    assert early.outcome.blocks["hit"].tolist() == [0, 4, 4]
    assert late.outcome.blocks["hit"].tolist() == [0, 0, 4]


def test_requests_wait_for_a_place_and_for_kv() -> None:
    trace = trace_of([[1] * 4, [2] * 4, [3] * 4], [0, 1, 2], [0, 0, 0], duration_s=np.full(3, 2.0))
    slots = replay(trace, Cell("round_robin", 1, block_tokens=1, service="recorded", max_running=1)).outcome
    assert slots.times["admitted_s"].tolist() == [0, 2, 4]
    room = replay(trace, Cell("round_robin", 1, 8, block_tokens=1, service="recorded")).outcome
    assert room.times["admitted_s"].tolist() == [0, 0, 2]
    refused = replay(trace, Cell("round_robin", 1, block_tokens=1, service="recorded", max_running=1, queue_limit=1))
    assert refused.outcome.replica.tolist() == [0, 0, -1]


def test_a_closed_loop_waits_for_answers() -> None:
    trace = trace_of([[1], [1, 1], [2]], [0, 0, 1], [0, 5, 1], duration_s=np.array([3.0, 1.0, 2.0]))
    one = replay(trace, Cell("round_robin", 1, block_tokens=1, service="recorded", loop="closed", max_running=1))
    assert one.outcome.times["arrived_s"].tolist() == [
        0,
        1,
        5,
    ]  # in arrival order: the gap of 2 s follows the answer at 3
    lanes = replay(trace, Cell("round_robin", 1, block_tokens=1, service="recorded", loop="closed", population=1))
    assert lanes.outcome.times["arrived_s"].tolist() == [0, 6, 5]  # the second session takes the place of the first


def test_unknown_policies_parameters_and_loads_are_refused() -> None:
    trace = trace_of([[1]])
    for cell, message in (
        (Cell("nearest", 2), "no routing policy"),
        (Cell("tower", 2, params={"speed": 1.0}), "it has budget"),
        (Cell("sglang_cache_aware", 2), "choose the service"),
        (Cell("tower", 0), "replicas must be at least 1"),
        (Cell("tower", 2, service="recorded"), "no durations"),
        (Cell("tower", 1, events=(Event("lose", 0.0),)), "only replica"),
    ):
        with pytest.raises(ValueError, match=message):
            replay(trace, cell)
