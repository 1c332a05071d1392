"""What no dataset may hold is refused, naming table, column and row; nothing outside of it is touched."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.traces.dataset.mutations import tiny
from traces.dataset.bundle import bundle
from traces.dataset.layout import Dataset, NotADataset
from traces.dataset.paths import inside
from traces.intake.ingest import ingest


@pytest.fixture
def ds(tmp_path: Path) -> Path:
    return tiny(tmp_path / "made")


def with_value(dataset: Path, table: str, column: str, row: int, value: Any) -> None:
    path = next(dataset.glob(f"tables-*/{table}.parquet"))
    frame = pl.read_parquet(path)
    new = pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value, frame.schema[column])).otherwise(pl.col(column))
    frame.with_columns(new.alias(column)).write_parquet(path)


@pytest.mark.parametrize(
    ("table", "column", "row", "value"),
    [
        ("sources", "native_block_tokens", 0, 0),
        ("sessions", "session_id", 0, -3),
        ("sessions", "session_id", 1, 10**12),
        ("sessions", "source_id", 0, 7),
        ("sessions", "parent_session_id", 0, 0),
        ("sessions", "spawn_request_id", 0, 99),
        ("requests", "request_id", 1, 0),
        ("requests", "session_id", 0, 99),
        ("requests", "source_id", 0, None),
        ("requests", "arrival_s", 1, float("nan")),
        ("requests", "duration_s", 1, float("inf")),
        ("requests", "input_tokens", 2, -1),
        ("requests", "input_tokens", 2, 1 << 50),
        ("requests", "prefix_id", 3, 1000),
        ("requests", "prefix_tokens", 3, 1000),
        ("requests", "output_prefix_id", 3, 1000),
        ("requests", "turn", 0, -1),
        ("prefixes", "parent_id", 2, 2),
        ("prefixes", "parent_id", 2, 1000),
        ("prefixes", "parent_id", 0, 0),
        ("prefixes", "start_token", 1, -8),
        ("prefixes", "end_token", 1, -8),
    ],
)
def test_a_value_that_no_table_holds(ds: Path, table: str, column: str, row: int, value: Any) -> None:
    with_value(ds, table, column, row, value)
    with pytest.raises(NotADataset, match=rf"^table {table}, column \w+, row {row}: .*; ingest it again"):
        Dataset(ds)


def test_parents_in_a_circle(ds: Path) -> None:
    with_value(ds, "sessions", "parent_session_id", 0, 1)
    with_value(ds, "sessions", "parent_session_id", 1, 0)
    with pytest.raises(NotADataset, match="column parent_session_id, row 0: 1 leads around in a circle"):
        Dataset(ds)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/etc", "a\\b", "a\0", "x" * 300, "ä"])
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotADataset):
        inside(tmp_path, name)


def test_links_are_not_followed(ds: Path, tmp_path: Path) -> None:
    for name in ("manifest.json", next(ds.glob("tables-*")).name):
        copy = tmp_path / "copy"
        shutil.copytree(ds, copy)
        (copy / name).rename(tmp_path / "elsewhere")
        (copy / name).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(NotADataset, match="is a link"):
            Dataset(copy)
        shutil.rmtree(copy)
        (tmp_path / "elsewhere").rename(tmp_path / f"was-{name}")


@pytest.mark.parametrize("name", ["cache", "private"])
def test_an_ingest_deletes_nothing_through_a_link(ds: Path, tmp_path: Path, name: str) -> None:
    others = tmp_path / "others"
    (others / "0123456789ab").mkdir(parents=True)
    (others / "0123456789ab" / "thesis.txt").write_text("x")
    shutil.rmtree(ds / name, ignore_errors=True)
    (ds / name).symlink_to(others)
    mode = others.stat().st_mode
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"timestamp": 9, "input_length": 4, "output_length": 1, "hash_ids": [77]}) + "\n")
    if name == "private":
        with pytest.raises(NotADataset, match="private is a link"):
            ingest([str(more)], ds)
    else:
        ingest([str(more)], ds)
    assert (others / "0123456789ab" / "thesis.txt").exists()
    assert others.stat().st_mode == mode


def test_private_files_that_changed_are_not_appended_to(ds: Path, tmp_path: Path) -> None:
    units = next(ds.glob("private/*/units.bin"))
    data = bytearray(units.read_bytes())
    data[0] ^= 1
    units.write_bytes(bytes(data))
    with pytest.raises(NotADataset, match=r"private/units\.bin is damaged"):
        ingest([str(tmp_path / "made" / "trace.jsonl")], ds)


def test_a_bundle_is_opened_wherever_a_dataset_is(ds: Path, tmp_path: Path) -> None:
    bundle(Dataset(ds), tmp_path / "b.zip")
    opened = Dataset(tmp_path / "b.zip")
    assert opened.read("requests").equals(Dataset(ds).read("requests"))
    folder = opened.path
    assert folder.stat().st_mode & 0o077 == 0
    del opened
    assert not folder.exists()


def test_a_folder_zipped_by_hand_leaves_private_and_cache_behind(ds: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as out:
        for path in sorted(ds.rglob("*")):
            out.write(path, f"mine/{path.relative_to(ds)}")
    opened = Dataset(tmp_path / "b.zip")
    assert sorted(p.name for p in opened.path.iterdir() if p.name != "cache")[0] == "manifest.json"
    assert not (opened.path / "private").exists()


def test_a_file_that_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{}")
    with pytest.raises(NotADataset, match="no dataset's bundle"):
        Dataset(tmp_path / "x.jsonl")


def test_a_proof_that_was_sent_along_is_not_believed(ds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traces.dataset import seal

    Dataset(ds)
    with_value(ds, "requests", "prefix_id", 3, 1000)
    # another machine's secret seals the damaged tables as checked
    kept = {path.name: path.read_bytes() for path in (ds / "cache").iterdir() if path.is_file()}
    assert kept
    monkeypatch.setattr(seal, "_secret", lambda: b"x" * 32)
    from traces.dataset import proof

    monkeypatch.setattr(proof, "check_tables", lambda *_: None)
    proof._proven.clear()
    Dataset(ds)
    monkeypatch.undo()
    proof._proven.clear()
    with pytest.raises(NotADataset, match="column prefix_id, row 3"):
        Dataset(ds)


def test_tables_are_checked_once(ds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traces.dataset import proof

    Dataset(ds)
    proof._proven.clear()
    monkeypatch.setattr(proof, "check_tables", lambda *_: pytest.fail("checked again"))
    Dataset(ds)
