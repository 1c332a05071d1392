"""Reading the same thing again changes nothing, whatever its name, container or order: reader × law.

Each law ingests a format's samples in some other way than once as a whole, and must give the same dataset: requests,
sessions, tokens, ceiling. Every receipt on the way must balance. `laws.py` runs the same laws over any folder.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.intake.laws import LAWS, Law, figures, read
from traces.intake.registry import READERS

FORMATS = [name for name in READERS if (SAMPLES / name).is_dir() and name != "servegen"]  # its samples are refused
EXCEPTIONS = {
    ("rotated", "cline"): "the names of its files say what they are",
}
"""(law, format) -> why the law cannot hold."""
CASES = [
    (name, law)
    for row, name in enumerate(FORMATS)
    for column, law in enumerate(LAWS)
    if (row + column) % 3 == 0 and (law.__name__, name) not in EXCEPTIONS
]
"""A third of the table, spread evenly over formats and laws; `laws.py` goes through all of it."""


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The figures of a format's samples that are read once, as a whole."""

    @cache
    def of(name: str) -> dict[str, Any]:
        dataset = tmp_path_factory.mktemp("once") / "dataset"
        read(SAMPLES / name, dataset)
        return figures(dataset)

    return of


@pytest.mark.parametrize(("name", "law"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_same_content_same_figures(name: str, law: Law, once: Any, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    law(SAMPLES / name, work, tmp_path / "dataset")
    assert figures(tmp_path / "dataset") == once(name)
