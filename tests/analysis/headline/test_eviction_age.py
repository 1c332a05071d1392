"""Age at eviction against a cache that is replayed block by block."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.headline.eviction_age import eviction_age, evictions
from analysis.kernel.reuse import reuse
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from tests.references import naive
from traces.intake.ingest import Options, ingest


def evicted(prompts: list[str | None], order: list[int], block: int, capacity: int) -> list[tuple[int, int]]:
    """(row of the last touch, row that evicts) of every block that leaves."""
    held: OrderedDict[Any, int] = OrderedDict()
    gone = []
    for row in order:
        for b in reversed(naive.blocks_of(prompts[row], block)):
            held.pop(b, None)
            held[b] = row
        while len(held) > capacity:
            gone.append((held.popitem(last=False)[1], row))
    return gone


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text("abc", max_size=10)), min_size=1, max_size=12),
    st.integers(1, 3),
    st.integers(0, 14),
    st.randoms(use_true_random=False),
)
def test_evictions_are_those_of_a_cache_of_blocks(
    prompts: list[str | None], block: int, capacity: int, random: Any
) -> None:
    order = random.sample(range(len(prompts)), len(prompts))
    tree = naive.build_tree(prompts, cuts=[[random.randint(1, 10)] for _ in prompts])
    runs = reuse(tree.parent, tree.start, tree.end, tree.leaf, np.array(order), np.zeros(len(prompts)), block)
    found = evictions(
        runs.request, runs.blocks, runs.distance_blocks, runs.last_request, runs.full_blocks, np.array(order), capacity
    )
    got = [pair for *pair, blocks in zip(*found, strict=True) for _ in range(blocks)]
    assert [tuple(map(int, pair)) for pair in got] == evicted(prompts, order, block, capacity)


def test_ages_by_hand(tmp_path: Path) -> None:
    # Four prompts of two blocks of their own, one a minute, in a cache of four blocks: the third evicts the first.
    rows = [{"ts": 1_790_000_000 + 60 * i, "session_id": c, "prompt": c * 32} for i, c in enumerate("abcd")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds", Options(tokenizer="bytes"))
    warehouse = open_dataset(tmp_path / "ds")
    question = Question(block_size=16)
    (row,) = eviction_age(warehouse, question, (64,)).to_dicts()
    assert row == {
        "capacity_blocks": 4, "capacity_tokens": 64, "evicted_tokens": 64, "age_s_p10": 120.0, "age_s_p50": 120.0,
        "age_s_p90": 120.0,
    }  # fmt: skip
    swept = eviction_age(warehouse, question)
    assert swept["capacity_blocks"].to_list() == [2, 4]
    assert swept["evicted_tokens"].to_list() == [16 * 6, 16 * 4]
    assert swept["age_s_p50"].to_list() == [60.0, 120.0]
    assert eviction_age(warehouse, question, (128,)).is_empty()
