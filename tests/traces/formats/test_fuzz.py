"""Every reader against mutations of its samples (tests/samples/<format>/)."""

from __future__ import annotations

import pytest

from tests.places import SAMPLES
from tests.traces.formats.fuzz import fuzz
from tests.traces.formats.mutations import mutate, packed, with_long_line
from traces.intake.registry import READERS

WITH_SAMPLES = sorted(name for name in READERS if (SAMPLES / name).is_dir())


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_mutated_samples_never_raise(name: str) -> None:
    files = sorted(p for p in (SAMPLES / name).iterdir() if not p.name.startswith("."))
    assert fuzz(name, files, 20).failures == []


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_mutated_samples_are_detected_or_refused(name: str) -> None:
    files = sorted(p for p in (SAMPLES / name).iterdir() if not p.name.startswith("."))
    assert fuzz(name, files, 3, first_seed=1000, named=False).failures == []


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_damaged_containers_never_raise(name: str) -> None:
    files = sorted(p for p in (SAMPLES / name).iterdir() if not p.name.startswith("."))
    assert fuzz(name, files, 20, whole_every=4, change=packed).failures == []


@pytest.mark.parametrize("name", WITH_SAMPLES)
def test_a_line_of_40_mb_never_raises(name: str) -> None:
    files = sorted(p for p in (SAMPLES / name).iterdir() if not p.name.startswith("."))
    assert fuzz(name, files, 1, change=lambda file, data, seed: (file, with_long_line(data, seed))).failures == []


def test_a_mutation_repeats() -> None:
    data = b'{"a": [1, 2, "x"]}\n' * 5
    assert mutate(data, 7) == mutate(data, 7)
    assert len({mutate(data, seed) for seed in range(20)}) > 10
