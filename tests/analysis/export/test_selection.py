"""What leaves in every export: no name that a model, agent or stop reason carries, and no file of a claimed size."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from analysis.export.planners import TARGETS
from analysis.export.planners.output import plain_cell
from analysis.export.write import export
from analysis.store.warehouse import Warehouse, open_dataset
from traces.intake.ingest import Options, ingest

NAMES = ["qzwx@example.org", "arn:aws:iam::123456789012:user/qzwx", "/home/qzwx/models/x", "=cmd|' /C calc'!A0"]


def made(folder: Path, rows: list[dict[str, object]]) -> Warehouse:
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "t.jsonl")], folder / "ds", Options(format="table", block_tokens=16))
    return open_dataset(folder / "ds")


@pytest.mark.parametrize("target", TARGETS)
def test_no_name_and_no_formula_leaves(target: str, tmp_path: Path) -> None:
    rows = [
        {"timestamp": i, "end_time": i + 1, "session_id": f"s{i % 2}", "model": NAMES[i % 4],
         "input_length": 16 * (i + 1), "output_length": 5, "hash_ids": list(range(i + 1)),
         "finish_reason": NAMES[i % 3]}
        for i in range(16)
    ]  # fmt: skip
    export(made(tmp_path, rows), target, tmp_path / "out", 64 if target == "weka" else None)
    for path in [p for p in (tmp_path / "out").rglob("*") if p.is_file()] or [tmp_path / "out"]:
        text = path.read_text()
        assert not any(name in text for name in NAMES), path
        assert "qzwx" not in text


@pytest.mark.parametrize("target", [name for name, target in TARGETS.items() if target.takes == "trace"])
def test_a_claimed_length_fills_no_memory(target: str, tmp_path: Path) -> None:
    row = {"timestamp": 0, "session_id": "a", "input_length": 64, "output_length": 8, "hash_ids": [1, 2, 3, 4]}
    file = made(tmp_path, [row, {**row, "timestamp": 1}]).dataset.table_path("requests")
    claimed = pl.when(pl.col("request_id") == 0).then(2_000_000_000).otherwise("output_tokens")
    pl.read_parquet(file).with_columns(output_tokens=claimed).write_parquet(file)
    written = export(open_dataset(tmp_path / "ds"), target, tmp_path / "out")
    assert any("1 requests claim more than" in note for note in written.notes)
    assert sum(p.stat().st_size for p in [tmp_path / "out", *(tmp_path / "out").rglob("*")] if p.is_file()) < 1 << 20


def test_formulas_are_text() -> None:
    assert [plain_cell(text) for text in ("=1", "+1", "-1", "@a", "\tx", "a=1", "")] == [
        "'=1", "'+1", "'-1", "'@a", "'\tx", "a=1", "",
    ]  # fmt: skip
