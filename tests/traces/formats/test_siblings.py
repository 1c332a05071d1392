"""Formats whose inputs look at the files beside them give the same dataset on every executor."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.places import ROOT, SAMPLES
from traces.dataset.layout import Dataset
from traces.intake.ingest import ingest
from traces.intake.registry import READERS, reader

FORMATS = ROOT / "traces" / "formats"
WITH_SIBLINGS = ("atif", "cline", "codex", "kimi", "opencode", "openhands")


def test_formats_that_look_beside_their_input_say_so() -> None:
    marked = {name for name in READERS if getattr(reader(name), "SIBLINGS", False)}
    looking = {path for path in FORMATS.rglob("*.py") if "source.siblings" in path.read_text()}
    looking = {path.parent.name if path.parent.name in WITH_SIBLINGS else path.stem for path in looking}
    assert marked == looking == set(WITH_SIBLINGS)


@pytest.mark.parametrize("name", WITH_SIBLINGS)
def test_an_executor_changes_nothing(name: str, tmp_path: Path) -> None:
    alone = ingest([str(SAMPLES / name)], tmp_path / "alone")
    with ThreadPoolExecutor(3) as pool:
        together = ingest([str(SAMPLES / name)], tmp_path / "together", executor=pool)
    for key in ("formats", "files", "records", "requests", "sessions", "input_tokens", "output_tokens"):
        assert alone[key] == together[key], key
    one, other = Dataset(tmp_path / "alone"), Dataset(tmp_path / "together")
    for table in ("sessions", "requests", "prefixes"):
        assert_frame_equal(one.read(table), other.read(table))
    assert one.read("requests").select(pl.col("prefix_id").null_count()).item() < one.read("requests").height
