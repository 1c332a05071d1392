"""What a third planter plants, in the words of many harnesses, is found again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.planted.harness.planter import plant
from tests.planted.planted_score import found_labels


def test_what_harnesses_change_in_towers() -> None:
    planted = []
    for seed in range(1, 9):
        tokenizer = ("bytes", "o200k_base")[seed % 2]
        harnessed = plant(seed, "tower", tokenizer)
        with tempfile.TemporaryDirectory() as folder:
            labels, lost = found_labels(harnessed.made.rows, Path(folder), tokenizer)
        assert lost == harnessed.lost
        truth, told = harnessed.scored(labels)
        assert all(x is None for t, x in zip(truth, told, strict=True) if t is None)
        planted += [(t, x) for t, x in zip(truth, told, strict=True) if t is not None]
    assert len(planted) > 150
    assert sum(t == x for t, x in planted) >= 0.97 * len(planted)
