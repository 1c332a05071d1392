"""kvcache-simulator's cache, block by block, against the one pass that replaces it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.peers.defined_hits import defined_hits
from analysis.peers.peer_definitions import peer_ceiling, peer_curve
from analysis.store.question import Question
from tests.analysis.export.exported import again, mooncake_file, read, weka_folder
from tests.places import SAMPLES

BLOCK = 4


def replayed(prompts: list[list[int]], capacity: int) -> list[int]:
    """Blocks hit by each prompt: leaves leave least recent first, but those of the prompt that were there before."""
    present: dict[tuple[int, ...], int] = {}  # path -> when it was touched
    clock, hits = 0, []
    for ids in prompts:
        path = [tuple(ids[: k + 1]) for k in range(len(ids))]
        hit = next((k for k, node in enumerate(path) if node not in present), len(path))
        for node in path[:hit]:
            clock += 1
            present[node] = clock
        hits.append(hit)
        protected = set(path[:hit])
        for node in path[hit:]:
            if len(present) >= capacity:
                inner = {held[:-1] for held in present}
                leaves = [held for held in present if held not in inner and held not in protected]
                if not leaves:
                    break
                del present[min(leaves, key=present.__getitem__)]
            if len(node) > 1 and node[:-1] not in present:
                break
            clock += 1
            present[node] = clock
    return hits


def rows_of(prompts: list[list[int]]) -> list[dict[str, Any]]:
    """Mooncake rows in whose ids a number stands for the blocks up to there."""
    ids: dict[tuple[int, ...], int] = {}
    return [
        {"timestamp": 1000 * k, "input_length": BLOCK * len(prompt), "output_length": 1, "block_size": BLOCK,
         "hash_ids": [ids.setdefault(tuple(prompt[: i + 1]), len(ids)) for i in range(len(prompt))]}
        for k, prompt in enumerate(prompts)
    ]  # fmt: skip


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), min_size=1, max_size=14))
@settings(deadline=None, max_examples=40)
def test_overlong_prompts_as_the_simulator_treats_them(tmp_path_factory: Any, prompts: list[list[int]]) -> None:
    folder: Path = tmp_path_factory.mktemp("t")
    warehouse = read(mooncake_file(folder / "t.jsonl", rows_of(prompts)), folder)
    question = Question(definition="kvcache-simulator")
    for capacity in range(1, 9):
        hits = replayed(prompts, capacity)
        _, found = defined_hits(warehouse, question, capacity * BLOCK)
        assert (found // BLOCK).tolist() == hits
        row = peer_curve(warehouse, question, [capacity])[0]
        assert row["hit_tokens"] == BLOCK * sum(hits[len(hits) // 2 :])


def test_a_place_stays_empty_behind_an_overlong_prompt(tmp_path: Path) -> None:
    # 1 2 3 leaves 1 alone in a cache of two; 1 hits and leaves the place empty; 9 fills it, and 1 is still there
    prompts = [[1, 2, 3], [1, 2], [1, 2, 3], [1], [9], [1, 2]]
    warehouse = read(mooncake_file(tmp_path / "t.jsonl", rows_of(prompts)), tmp_path)
    _, found = defined_hits(warehouse, Question(definition="kvcache-simulator"), 2 * BLOCK)
    assert (found // BLOCK).tolist() == [0, 1, 2, 1, 0, 1] == replayed(prompts, 2)


@pytest.mark.parametrize("kind", ["weka", "text"])
def test_what_has_no_ids_for_partial_blocks_counts_as_its_mooncake_export(kind: str, tmp_path: Path) -> None:
    made = weka_folder(tmp_path / "w") if kind == "weka" else SAMPLES / "canaries"
    warehouse = read(made, tmp_path)
    arrivals = "staggered:600" if kind == "weka" else "recorded"
    exported = again(warehouse, "mooncake", tmp_path, 64, arrivals=arrivals)
    for definition in ("aiperf", "kvcache-simulator"):
        here = Question(64, arrivals, definition=definition)
        there = Question(64, definition=definition)
        assert peer_ceiling(warehouse, here) == peer_ceiling(exported, there)
    capacities = [1, 2, 3, 5, 100]
    assert peer_curve(warehouse, here, capacities) == peer_curve(exported, there, capacities)
