"""Kept results are found under exactly their key, by this release, on this machine, for this content."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.dataset.mutations import tiny
from traces.dataset import caches as caches_module
from traces.dataset import layout, seal
from traces.dataset.caches import Caches, _file_name
from traces.dataset.layout import Dataset
from traces.intake.ingest import ingest


@pytest.fixture
def ds(tmp_path: Path) -> Path:
    return tiny(tmp_path / "made")


FRAME = pl.DataFrame({"a": [1]})
value = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())


@given(st.tuples(value, value), st.tuples(value, value))
def test_equal_names_mean_equal_keys(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    same = repr(one) == repr(other)
    assert (_file_name("x", one) == _file_name("x", other)) == same


def test_close_numbers_have_their_own_result(ds: Path) -> None:
    caches = Dataset(ds).caches
    for number in (1000001.0, 1000002.0, 1000001.5, 0.1 + 0.2, 0.3):
        caches.keep("x", (number,), FRAME.with_columns(a=pl.lit(number)))
    for number in (1000001.0, 1000002.0, 1000001.5, 0.1 + 0.2, 0.3):
        path = caches.find("x", (number,))
        assert path is not None
        assert pl.read_parquet(path)["a"][0] == number


def test_a_result_that_was_cut_short_is_made_anew(ds: Path) -> None:
    caches = Dataset(ds).caches
    path = caches.keep("x", (1,), FRAME, {"b": 2})
    assert caches.about(path) == {"b": 2}
    for size in range(0, path.stat().st_size, 7):
        path.write_bytes(path.read_bytes()[:size])
        assert caches.find("x", (1,)) is None
        assert caches.frame("x", (1,), lambda: FRAME).equals(FRAME)
        assert caches.find("x", (1,)) == path


def test_another_release_content_or_machine_finds_nothing(ds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Dataset(ds).caches.keep("x", (1,), FRAME)
    assert Dataset(ds).caches.find("x", (1,)) is not None
    with monkeypatch.context() as other:
        other.setattr(layout, "tool_version", lambda: "next")
        assert Dataset(ds).caches.find("x", (1,)) is None
    with monkeypatch.context() as other:
        other.setattr(seal, "_secret", lambda: b"y" * 32)
        assert Dataset(ds).caches.find("x", (1,)) is None
    more = ds.parent / "more.jsonl"
    more.write_text(json.dumps({"timestamp": 9, "input_length": 4, "output_length": 1, "hash_ids": [77]}) + "\n")
    ingest([str(more)], ds)
    assert Dataset(ds).caches.find("x", (1,)) is None


def test_the_store_is_bounded_and_drops_what_was_not_used_for_longest(
    ds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches_module, "MOST_FILES", 5)
    monkeypatch.setattr(caches_module, "IN_USE_S", -1.0)
    caches = Dataset(ds).caches
    caches.keep("x", (-1,), FRAME)
    for number in range(40):
        caches.keep("x", (number,), FRAME)
        assert caches.find("x", (-1,)) is not None  # used every time
    assert len(list((ds / "cache").rglob("*.parquet"))) == 5
    assert caches.find("x", (39,)) is not None
    assert caches.find("x", (3,)) is None


def test_results_in_use_stay_up_to_four_times_the_limit(ds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches_module, "MOST_FILES", 5)
    caches = Dataset(ds).caches
    for number in range(40):
        caches.keep("x", (number,), FRAME)
    assert len(list((ds / "cache").rglob("*.parquet"))) == 20


def test_what_a_dead_writer_left_is_removed(ds: Path) -> None:
    caches = Dataset(ds).caches
    folder = caches.keep("x", (1,), FRAME).parent
    (folder / ".part-0123").write_bytes(b"half")
    caches.keep("x", (2,), FRAME)
    assert not (folder / ".part-0123").exists()


def test_a_full_disk_leaves_nothing_and_the_answer_comes(ds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = caches_module._write

    def full(path: Path, *more: object) -> None:
        if ds in path.parents:
            path.with_name(".part-x").write_bytes(b"half")
            path.with_name(".part-x").unlink()
            raise OSError(28, "No space left on device")
        whole(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(caches_module, "_write", full)
    caches = Dataset(ds).caches
    path = caches.keep("x", (1,), FRAME)
    assert ds not in path.parents
    assert pl.read_parquet(path).equals(FRAME)
    assert not list((ds / "cache").rglob("*.parquet"))


def test_a_cache_that_is_a_link_is_not_used(ds: Path, tmp_path: Path) -> None:
    import shutil

    shutil.rmtree(ds / "cache", ignore_errors=True)
    (tmp_path / "elsewhere").mkdir()
    (ds / "cache").symlink_to(tmp_path / "elsewhere")
    caches = Dataset(ds).caches
    assert isinstance(caches, Caches)
    assert pl.read_parquet(caches.keep("x", (1,), FRAME)).equals(FRAME)
    assert not list((tmp_path / "elsewhere").iterdir())
