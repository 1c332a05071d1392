"""Datasets: written whole or not at all, appended to, resumed, the same on every executor."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from analysis.headline.report import report
from analysis.store.executors import executor_for
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from tests.places import SAMPLES
from traces.dataset.bundle import bundle, is_bundle, open_bundle
from traces.dataset.layout import Dataset, NotADataset
from traces.intake import ingest as ingest_module
from traces.intake.demo import demo_inputs
from traces.intake.ingest import ingest, partial_of
from traces.schema import TABLES, polars_schema


def figures(path: Path) -> dict[str, Any]:
    found = report(open_dataset(path), Question(arrivals="staggered:60"), ("trajectory_type", "transition"))
    return {k: v for k, v in found.items() if k != "definition"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "ds"
    ingest(demo_inputs(), out)
    return out


def test_tables_are_as_declared(demo: Path) -> None:
    dataset = Dataset(demo)
    for name, table in TABLES.items():
        assert dict(pl.read_parquet_schema(dataset.table_path(name))) == dict(polars_schema(table)), name


def test_demo_is_real_sessions(demo: Path) -> None:
    found = figures(demo)
    assert len(demo_inputs()) == 10
    assert found["workload"]["main_sessions"] == 10
    assert found["workload"]["requests"] == 813
    assert {r["group"] for r in found["by"]["trajectory_type"]} == {"append", "branched", "compacted", "edited"}


def test_parts_give_the_whole(demo: Path, tmp_path: Path) -> None:
    files = demo_inputs()
    for part in (files[7:], files[:3], files[3:7]):
        ingest(part, tmp_path / "ds")
    assert figures(tmp_path / "ds") == figures(demo)


def test_nothing_new_changes_nothing(tmp_path: Path) -> None:
    files = demo_inputs()[:2]
    ingest(files, tmp_path / "ds")
    key = Dataset(tmp_path / "ds").key
    receipt = ingest(files, tmp_path / "ds")
    assert Dataset(tmp_path / "ds").key == key
    assert receipt["requests"] == 0
    assert receipt["files"]["skipped"] == 2


def test_threads_give_the_same(demo: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        ingest(demo_inputs(), tmp_path / "ds", executor=pool)
    assert figures(tmp_path / "ds") == figures(demo)


def test_processes_give_the_same(demo: Path, tmp_path: Path) -> None:
    """From the command line: spawned workers import the main module, which in a test runner may be anything."""
    command = [sys.executable, "-m", "app.cli", "ingest", *demo_inputs(), "-o", str(tmp_path / "ds"), "--workers", "2"]
    subprocess.run(command, check=True, capture_output=True)
    assert figures(tmp_path / "ds") == figures(demo)


def test_ray_gives_the_same(demo: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    with executor_for("ray", 2) as workers:
        ingest(demo_inputs(), tmp_path / "ds", executor=workers)
    assert figures(tmp_path / "ds") == figures(demo)


def test_a_killed_ingest_goes_on_where_it_was(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "SAVE_EVERY_S", 0.0)
    out = tmp_path / "ds"
    read = 0

    def stop(progress: Any) -> None:
        nonlocal read
        read = max(read, progress.done)
        if progress.stage == "reading" and progress.done == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(ingest_module.time, "monotonic", iter(range(10**9)).__next__)
    with pytest.raises(KeyboardInterrupt):
        ingest(demo_inputs(), out, watch=stop)
    assert not out.exists()
    kept = Dataset(partial_of(out))
    assert len(kept.manifest["inputs"]) == 6
    receipt = ingest(demo_inputs(), out)
    assert receipt["requests"] == 813
    assert receipt["files"]["read"] == 10
    assert not partial_of(out).exists()
    assert figures(out) == figures(demo)


def test_damaged_datasets_say_so(demo: Path, tmp_path: Path) -> None:
    with pytest.raises(NotADataset, match="no such folder"):
        Dataset(tmp_path / "none")
    broken = tmp_path / "broken"
    shutil.copytree(demo, broken)
    next(broken.glob("tables-*/prefixes.parquet")).unlink()
    with pytest.raises(NotADataset, match="prefixes missing"):
        Dataset(broken)
    (broken / "manifest.json").write_text("{")
    with pytest.raises(NotADataset, match="ingest it again"):
        Dataset(broken)
    (broken / "manifest.json").write_text('{"schema_version": 1, "tables": "../../etc", "tool": "tracetower"}')
    with pytest.raises(NotADataset, match=r"\$\.tables"):
        Dataset(broken)


def test_a_folder_that_is_no_dataset_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(NotADataset):
        ingest(demo_inputs()[:1], tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_private_is_private(demo: Path) -> None:
    private = demo / "private"
    assert private.stat().st_mode & 0o077 == 0
    names = [Path(f).name for f in demo_inputs()]
    for path in demo.rglob("*"):
        if path.is_file() and "private" not in path.parts:
            data = path.read_bytes()
            assert not [n for n in names if n.encode() in data], path


def test_a_bundle_answers_the_same_without_private(demo: Path, tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    bundle(Dataset(demo), path)
    assert is_bundle(path)
    opened = open_bundle(path, tmp_path / "opened")
    assert not (opened.path / "private").exists()
    assert figures(opened.path) == figures(demo)
    assert b"input_" not in (opened.path / "manifest.json").read_bytes().replace(b"input_tokens", b"")
    assert not any(i.get("digest") for i in opened.manifest["inputs"])


def test_hostile_bundles_are_refused(demo: Path, tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "b.zip"
    bundle(Dataset(demo), path)
    with zipfile.ZipFile(path) as good, zipfile.ZipFile(tmp_path / "bad.zip", "w") as bad:
        for name in good.namelist():
            data = good.read(name)
            if name.endswith("prefixes.parquet"):
                frame = pl.read_parquet(data).with_columns(parent_id=pl.lit(10**9, dtype=pl.Int64))
                frame.write_parquet(tmp_path / "p.parquet")
                data = (tmp_path / "p.parquet").read_bytes()
            bad.writestr(name, data)
    with pytest.raises(NotADataset, match="prefixes, column parent_id, row 0"):
        open_bundle(tmp_path / "bad.zip", tmp_path / "o1")
    (tmp_path / "no.zip").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(NotADataset, match="not a bundle"):
        open_bundle(tmp_path / "no.zip", tmp_path / "o2")


def test_samples_of_every_kind_count_up() -> None:
    for name in ("mooncake", "weka", "claude_code", "table"):
        receipt = ingest([str(SAMPLES / name)], None)
        counts = receipt["records"]
        assert counts["read"] == counts["used"] + counts["rejected"] + counts["duplicate"] + counts["ignored"]
        assert receipt["requests"] > 0


def test_sessions_that_name_each_other_as_parents(tmp_path: Path) -> None:
    row = {"input_length": 70, "output_length": 5, "hash_ids": [1], "prefix_reset": True}
    rows = [row | {"request_id": a, "session_id": a, "parent_session_id": b} for a, b in ("ab", "ba", "cb")]
    (tmp_path / "a.jsonl").write_bytes(b"".join(orjson.dumps(one) + b"\n" for one in rows))
    receipt = ingest([str(tmp_path / "a.jsonl")], tmp_path / "d")
    assert Dataset(tmp_path / "d").read("sessions")["parent_session_id"].to_list() == [None, None, None]
    circle = "3 sessions were started by each other in a circle (for example session 0, by 1)"
    assert [w for w in receipt["warnings"] if w.startswith(circle)]
