"""A dataset made by anyone is opened right, or refused with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.traces.dataset.mutations import attempt, tiny


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny(tmp_path_factory.mktemp("good"))


@pytest.mark.parametrize("tens", range(20))
def test_damaged_datasets_are_opened_right_or_refused(good: Path, tmp_path: Path, tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        commands = [["report", "{dataset}", "--json"]] if seed % 5 == 0 else []
        assert attempt(good, tmp_path, seed, commands) in ("refused", "answered")
