"""`--keep-excerpts`: the changed text of each divergence, in private/ and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from traces.dataset.bundle import bundle
from traces.dataset.layout import Dataset
from traces.intake.ingest import Options, ingest

ESTIMATED = "lengths counted with bytes are estimates where the model's own tokenizer differs"


def _rows(folder: Path, name: str, session: str, times: list[str]) -> str:
    head = "You are a careful assistant that answers in few words. " * 4
    prompts = [f"{head}\nIt is now {time}.\nThe rest stays the same." for time in times]
    lines = [json.dumps({"ts": i, "session_id": session, "prompt": text}) for i, text in enumerate(prompts)]
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def _excerpts(folder: Path) -> list[tuple[int, int, str, str]]:
    return sorted(pl.read_parquet(Dataset(folder).private_file("excerpts.parquet")).rows())


@pytest.mark.parametrize("tokenizer", ["bytes", "o200k_base"])
def test_excerpts_hold_what_changed_and_stay_in_private(tmp_path: Path, tokenizer: str) -> None:
    first = _rows(tmp_path, "a.jsonl", "one", ["10:15:33", "11:47:20"])
    ingest([first], tmp_path / "ds", Options(tokenizer=tokenizer, keep_excerpts=True))
    assert [(r, q, "10:15:33" in was, "11:47:20" in now) for r, q, was, now in _excerpts(tmp_path / "ds")] == [
        (1, 0, True, True)
    ]
    # another ingest keeps them, and stores no more unless it is asked to
    stored = _excerpts(tmp_path / "ds")
    second = _rows(tmp_path, "b.jsonl", "two", ["08:01:02", "09:03:04"])
    ingest([second], tmp_path / "ds", Options(tokenizer=tokenizer))
    assert _excerpts(tmp_path / "ds") == stored
    third = _rows(tmp_path, "c.jsonl", "three", ["07:05:06", "06:07:08"])
    ingest([third], tmp_path / "ds", Options(tokenizer=tokenizer, keep_excerpts=True))
    assert (5, 4) in [(r, q) for r, q, *_ in _excerpts(tmp_path / "ds")]
    assert set(stored) <= set(_excerpts(tmp_path / "ds"))
    bundle(Dataset(tmp_path / "ds"), tmp_path / "ds.zip")
    sent = [path for path in (tmp_path / "ds").rglob("*") if path.is_file() and "private" not in path.parts]
    assert all(b"11:47:20" not in path.read_bytes() for path in (*sent, tmp_path / "ds.zip"))


def test_nothing_is_stored_unless_asked(tmp_path: Path) -> None:
    ingest([_rows(tmp_path, "a.jsonl", "one", ["10:15:33", "11:47:20"])], tmp_path / "ds", Options(tokenizer="bytes"))
    assert not Dataset(tmp_path / "ds").private_file("excerpts.parquet").exists()


def test_the_receipt_says_where_nothing_could_be_stored(tmp_path: Path) -> None:
    keep = Options(tokenizer="bytes", keep_excerpts=True)
    text = _rows(tmp_path, "a.jsonl", "one", ["10:15:33", "11:47:20"])
    assert ingest([text], tmp_path / "ds", keep)["warnings"] == [ESTIMATED]
    assert "no changed text was stored: no input is new" in ingest([text], tmp_path / "ds", keep)["warnings"]
    row = {"timestamp": 1, "input_length": 512, "output_length": 1, "hash_ids": [1]}
    (tmp_path / "hashes.jsonl").write_text(json.dumps(row))
    said = ingest([str(tmp_path / "hashes.jsonl")], tmp_path / "hashes", Options(keep_excerpts=True))["warnings"]
    assert "no changed text was stored: no two prompts with known text differ" in said
    # a dataset is opened as it is, so options for reading mean nothing to it
    said = ingest([str(tmp_path / "ds")], tmp_path / "copy", keep)["warnings"]
    assert "the options for reading were not used: a dataset is not read again" in said
    plainly = ingest([str(tmp_path / "ds")], tmp_path / "second copy", Options())["warnings"]
    assert not any("not used" in one for one in plainly)
