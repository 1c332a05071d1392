"""Eviction rules against a cache kept block by block, the optimum against every choice, LRU against the curve."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.headline.curves import curve
from analysis.policies.block_tree import BlockTree, uses
from analysis.policies.eviction import RULES, Order, replay
from analysis.policies.policy_curve import closed, in_words, policy_curve
from analysis.store.question import BadQuestion, Question
from tests.analysis.policies.test_at_once import BLOCK, SESSIONS, made

PARENTS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3)), min_size=1, max_size=8)
ASKED = st.lists(st.tuples(st.integers(-1, 50), st.integers(-1, 2)), min_size=1, max_size=14)


def world(nodes: list[tuple[int, int]], asked: list[tuple[int, int]]) -> tuple[BlockTree, Order]:
    """A tree from (parent, blocks) of each node, and requests from (node, session); −1 unknown."""
    parent, before, blocks = [0], [0], [0]
    for above, size in nodes:
        parent.append(above % len(parent))
        before.append(before[parent[-1]] + blocks[parent[-1]])
        blocks.append(size)
    leaf = np.array([-1 if node < 0 else node % len(parent) for node, _ in asked], np.int32)
    session = np.array([s for _, s in asked], np.int32)
    ends = np.array([s >= 0 and s not in session[i + 1 :] for i, s in enumerate(session)])
    tree = BlockTree(np.array(parent, np.int32), np.array(before, np.int64), np.array(blocks, np.int64))
    return tree, Order(leaf, session, ends, session != 2)


def paths(tree: BlockTree, order: Order) -> list[list[tuple[int, int]]]:
    """Each request's blocks, as (node, place in it), from the root on."""
    found = []
    for leaf in order.leaf:
        path: list[tuple[int, int]] = []
        node = int(leaf)
        while node > 0:
            path = [(node, i) for i in range(int(tree.blocks[node]))] + path
            node = int(tree.parent[node])
        found.append(path)
    return found


def block_by_block(tree: BlockTree, order: Order, rule: str, capacity: int) -> list[int]:
    """The hits of each request if a cache holds blocks one by one and every block knows all about itself."""
    requests = paths(tree, order)
    cached: dict[tuple[int, int], dict[str, object]] = {}
    latest: dict[int, list[tuple[int, int]]] = {}
    hits = []
    for t, path in enumerate(requests):
        if order.leaf[t] < 0:
            hits.append(0)
            continue
        hits.append(next((i for i, block in enumerate(path) if block not in cached), len(path)))
        s = int(order.session[t])
        if s >= 0:
            latest.pop(s, None)
            if not order.ends[t] and path:
                latest[s] = path
        for block in path:
            about = cached.setdefault(block, {"born": t, "used": 0, "users": set()})
            about["time"] = t
            about["used"] += 1  # type: ignore[operator]
            if s >= 0:
                about["users"].add(s)  # type: ignore[attr-defined]

        def behind(block: tuple[int, int], path: list[tuple[int, int]] = path) -> bool:
            """Whether a cached block needs this one."""
            return any(block in q and q.index(block) < len(q) - 1 and q[q.index(block) + 1] in cached for q in requests)

        def key(block: tuple[int, int], t: int = t) -> tuple[float, ...]:
            about = cached[block]
            time, used, born, users = (about[name] for name in ("time", "used", "born", "users"))
            future = next((u for u in range(t + 1, len(requests)) if block in requests[u]), 10**9)
            holders = [o for o, q in latest.items() if block in q]
            held = 2 if any(o != 2 for o in holders) else 1 if holders else 0
            return {
                "lru": (time,),
                "belady": (-future,),
                "lfu": (used, time),
                "slru": (used > 1, time),  # type: ignore[operator]
                "fifo": (born,),
                "mru": (-time,),
                "filo": (-born,),
                "session": (held, time),  # type: ignore[operator]
                "heads": (len(users) > 1, time),  # type: ignore[arg-type]
            }[rule]  # type: ignore[return-value]

        while len(cached) > capacity:
            ends = [block for block in cached if not behind(block)]
            others = ends if rule == "belady" else [block for block in ends if block not in path] or ends
            del cached[min(others, key=key)]
    return hits


@settings(max_examples=80, deadline=None)
@given(PARENTS, ASKED, st.integers(0, 9), st.sampled_from(list(RULES)))
def test_every_rule_is_that_of_a_cache_kept_block_by_block(
    nodes: list[tuple[int, int]], asked: list[tuple[int, int]], capacity: int, rule: str
) -> None:
    tree, order = world(nodes, asked)
    ours = replay(tree, order, rule, capacity, uses(tree, order.leaf))
    theirs = block_by_block(tree, order, rule, capacity)
    assert ours.tolist() == theirs
    assert int(ours.sum()) <= int(replay(tree, order, "belady", capacity, uses(tree, order.leaf)).sum())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.just(1)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 9), st.just(-1)), min_size=1, max_size=7),
    st.integers(0, 3),
)
def test_no_choice_of_what_to_keep_hits_more_than_belady(
    nodes: list[tuple[int, int]], asked: list[tuple[int, int]], capacity: int
) -> None:
    tree, order = world(nodes, asked)
    requests = paths(tree, order)
    best = {frozenset(): 0}  # what is cached -> the most hits that lead there
    for path in requests:
        after: dict[frozenset[tuple[int, int]], int] = {}
        for cached, hits in best.items():
            hit = next((i for i, block in enumerate(path) if block not in cached), len(path))
            every = sorted(cached | set(path))
            for size in range(min(capacity, len(every)) + 1):
                for kept in itertools.combinations(every, size):
                    chosen = frozenset(kept)
                    after[chosen] = max(after.get(chosen, 0), hits + hit)
        best = after
    assert int(replay(tree, order, "belady", capacity, uses(tree, order.leaf)).sum()) == max(best.values())


@settings(max_examples=6, deadline=None)
@given(SESSIONS, st.lists(st.integers(1, 30), min_size=1, max_size=4, unique=True))
def test_lru_is_the_curve(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[list[tuple[int, int, int, int]]], blocks: list[int]
) -> None:
    warehouse = made(tmp_path_factory.mktemp("policy"), sessions)
    question = Question(arrivals="closed:2", block_size=BLOCK)
    one_pass = curve(warehouse, question, "session", capacity_blocks=blocks)
    replayed = policy_curve(warehouse, question, ["lru"], "session", blocks).drop("policy")
    assert replayed.sort("group", "capacity_blocks").equals(one_pass.sort("group", "capacity_blocks"))


def test_what_closes_the_distance(tmp_path: Path) -> None:
    """Two sessions in turns, one of which ends early: to know that is worth something."""
    long = [(0, 1, 4, 0), (9, 1, 1, 0), (9, 1, 1, 0), (9, 1, 1, 0)]
    warehouse = made(tmp_path, [long, [(5, 1, 6, 0)], long])
    rows = policy_curve(warehouse, Question(arrivals="closed:3"), ["lru", "session", "belady"], capacity_blocks=[12])
    assert rows["policy"].to_list() == ["lru", "session", "belady"]
    lru, session, best = rows["hit_tokens"].to_list()
    assert lru < session <= best
    (share,) = closed(rows)
    assert share["closed"] == pytest.approx((session - lru) / (best - lru))
    assert "session closes" in in_words(rows)
    assert in_words(rows.filter(pl.col("policy") != "belady")) == ""


def test_an_unknown_policy_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(BadQuestion, match="Policies: lru, belady"):
        policy_curve(made(tmp_path, [[(0, 1, 2, 0)]]), Question(), ["arc"])
