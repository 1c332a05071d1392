"""What is planted is found again, in towers and in real sessions (on seeds that the diagnosis was tuned on too)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planted import planted
from tests.planted.planted_score import found_labels, score
from tests.references import naive
from traces.text.tokens import load_tokenizer

SFT = naive.SHARED / "traces" / "openai_messages_sft" / "swesmith_ft_xml.head2.jsonl"


def check(made: planted.Planted, labels: list[str | None], lost: list[int], want: list[int]) -> None:
    for kind, found in score(made.truth, labels).items():
        assert found.precision >= 0.99, (kind, found)
        assert found.recall >= 0.99, (kind, found)
    assert lost == want


@pytest.mark.parametrize(("seed", "rate"), [(9001, 0.03), (9002, 0.3)])
def test_mixed_causes_in_clean_towers(tmp_path: Path, seed: int, rate: float) -> None:
    rng = random.Random(seed)
    towers = [planted.tower(rng, rng.randint(4, 30)) for _ in range(15)]
    made = planted.plant(seed, towers, dict.fromkeys(planted.KINDS, rate))
    labels, lost = found_labels(made.rows, tmp_path, "bytes")
    check(made, labels, lost, planted.lost_tokens(made.rows, load_tokenizer("bytes").encode))


@pytest.mark.parametrize("kind", planted.KINDS)
def test_each_kind_alone(tmp_path: Path, kind: str) -> None:
    rng = random.Random(kind)
    towers = [planted.tower(rng, 25) for _ in range(3)]
    made = planted.plant(77, towers, {kind: 0.25})
    assert kind in made.truth
    labels, lost = found_labels(made.rows, tmp_path, "bytes")
    assert labels == made.truth
    assert lost == planted.lost_tokens(made.rows, load_tokenizer("bytes").encode)


def test_sessions_that_only_grow_have_no_divergences(tmp_path: Path) -> None:
    rng = random.Random(5)
    made = planted.plant(5, [planted.tower(rng, 20) for _ in range(4)], {})
    labels, lost = found_labels(made.rows, tmp_path, "o200k_base")
    assert set(labels) == {None}
    assert not any(lost)


def test_mixed_causes_in_real_conversations(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in SFT.read_text().splitlines()]
    real = [planted.from_messages(row["messages"]) for row in rows] * 3
    made = planted.plant(9003, real, dict.fromkeys(planted.KINDS, 0.08))
    labels, lost = found_labels(made.rows, tmp_path, "o200k_base")
    check(made, labels, lost, planted.lost_tokens(made.rows, load_tokenizer("o200k_base").encode))


def real_lengths(most: int) -> list[list[int]]:
    """Lengths in blocks of the published sessions, as far as they only grow."""
    trace = naive.weka_trace()
    if trace is None:
        return []
    blocks = trace.tree.end[trace.tree.leaf] // 64
    found = []
    for code in range(int(trace.session.max()) + 1):
        rows = np.flatnonzero(trace.session == code)
        told: list[int] = []
        for length in blocks[rows[np.argsort(trace.arrival_s[rows], kind="stable")]].tolist():
            if told and length <= told[-1]:
                break
            told.append(length)
        if len(told) > 5:
            found.append(told)
    return found[:most]


def test_mixed_causes_in_real_sessions_of_block_ids(tmp_path: Path) -> None:
    lengths = real_lengths(40)
    made = planted.plant_hashes(9004, lengths, dict.fromkeys(planted.HASH_KINDS, 0.05))
    labels, lost = found_labels(made.rows, tmp_path, "bytes", by_transition=True)
    check(made, labels, lost, planted.lost_hash_tokens(made.rows))


def test_a_score_counts_what_was_planted_and_what_was_found() -> None:
    got: Any = score(["a", "a", None, "b"], ["a", None, "a", "b"])
    assert got == {"a": (2, 0.5, 0.5), "b": (1, 1.0, 1.0)}
