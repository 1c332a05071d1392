"""Writers wait for each other, readers see the old or the new, and a killed writer leaves one of the two."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.traces.dataset.mutations import tiny
from traces.dataset.layout import Dataset, NotADataset
from traces.dataset.locks import Busy, writing
from traces.dataset.writing import beside, partial_of
from traces.intake.ingest import Options, ingest


def trace(path: Path, number: int) -> str:
    rows = [{"timestamp": i, "input_length": 8, "output_length": 1, "hash_ids": [number * 100, i]} for i in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


INGEST = """
import sys
from traces.intake.ingest import Options, ingest
for path in sys.argv[2:]:
    ingest([path], sys.argv[1], Options(block_tokens=4))
"""


def started(*words: object, code: str = INGEST) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name.startswith("."))


@pytest.mark.slow
def test_twenty_processes_on_one_dataset_lose_nothing(tmp_path: Path) -> None:
    """Ten processes that all start the dataset anew and then append to it, and ten that open it meanwhile."""
    read = """
import sys, time
from pathlib import Path
from traces.dataset.layout import Dataset
path, seen = Path(sys.argv[1]), set()
end = time.monotonic() + 60
while time.monotonic() < end and len(seen) < 12:
    if (path / "manifest.json").exists():
        dataset = Dataset(path)  # the old tables or the new ones, never an error or a mixture
        rows = dataset.read("requests").height
        assert rows == dataset.manifest["rows"]["requests"] == dataset.read("requests")["request_id"].len()
        assert dataset.read("sessions").height == dataset.manifest["rows"]["sessions"]
        seen.add(rows)
        if rows == 60:
            break
"""
    out = tmp_path / "ds"
    readers = [started(out, code=read) for _ in range(10)]
    traces = [trace(tmp_path / f"{i}.jsonl", i) for i in range(20)]
    writers = [started(out, *traces[i::10]) for i in range(10)]
    for process in (*writers, *readers):
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert Dataset(out).read("requests").height == 60
    ingest([trace(tmp_path / "last.jsonl", 20)], out)  # clears what the readers held before they ended
    assert len(list(out.glob("tables-*"))) == 1
    assert leftovers(tmp_path) == []


def test_a_second_writer_waits_or_names_the_first(tmp_path: Path) -> None:
    said: list[str] = []
    with writing(tmp_path / "ds"):
        with (
            pytest.raises(Busy, match=f"ds is being written by process {os.getpid()}") as refused,
            writing(tmp_path / "ds", wait=False),
        ):
            pass
        assert refused.value.process == os.getpid()
    with writing(tmp_path / "ds", heard=said.append):
        assert said == []
    assert leftovers(tmp_path) == []


def test_tables_stay_readable_while_they_are_replaced(tmp_path: Path) -> None:
    ds = tiny(tmp_path / "made")
    old = Dataset(ds)
    ingest([trace(tmp_path / "more.jsonl", 5)], ds, Options(block_tokens=4))
    assert old.read("requests").height == 4
    assert Dataset(ds).read("requests").height == 7
    del old
    ingest([trace(tmp_path / "again.jsonl", 6)], ds, Options(block_tokens=4))
    assert len(list(ds.glob("tables-*"))) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
count, last = [0], int(sys.argv[1])

def counted(owner, name):
    real = getattr(owner, name)
    def call(*args, **kw):
        count[0] += 1
        if count[0] == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kw)
    setattr(owner, name, call)

import polars as pl
from traces.intake.ingest import Options, ingest
for owner, names in ((os, ("open", "fsync", "rename", "replace", "unlink", "rmdir", "mkdir", "ftruncate", "pwrite")),
                     (Path, ("mkdir", "rename", "replace", "unlink", "write_text", "write_bytes", "touch", "chmod")),
                     (pl.DataFrame, ("write_parquet",))):
    for name in names:
        counted(owner, name)
ingest(sys.argv[3:], sys.argv[2], Options(block_tokens=4))
print(count[0])
"""


@pytest.mark.parametrize("fresh", [True, False])
def test_killed_at_every_file_operation(tmp_path: Path, fresh: bool) -> None:
    """A sample of the operations here; every one by hand with KILL_EVERY=1."""
    every = int(os.environ.get("KILL_EVERY", "41"))
    first, more = trace(tmp_path / "1.jsonl", 1), trace(tmp_path / "2.jsonl", 2)

    def prepared(name: str) -> Path:
        out = tmp_path / name / "ds"
        out.parent.mkdir()
        if not fresh:
            ingest([first], out, Options(block_tokens=4))
        return out

    process = started(10**9, prepared("whole"), more, code=KILLED)
    operations = int(process.communicate(timeout=120)[0])
    before, after = (0, 3) if fresh else (3, 6)
    assert operations > 30
    for last in range(1 + operations % every, operations + 1, every):
        out = prepared(f"at-{last}")
        process = started(last, out, more, code=KILLED)
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        rows = Dataset(out).read("requests").height if (out / "manifest.json").exists() else 0
        assert rows in (before, after), last
        ingest([more], out, Options(block_tokens=4))
        assert Dataset(out).read("requests").height == after, last
        assert leftovers(out.parent) == [], last
        assert sorted(p.name.split("-")[0] for p in out.iterdir() if p.name != "cache") == [
            "manifest.json", "private", "tables",
        ], last  # fmt: skip
        assert len(list((out / "private").iterdir())) == 1, last


@pytest.mark.parametrize("number", [28, 30, 13])
def test_a_disk_that_cannot_be_written_leaves_the_old_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    import polars as pl

    ds = tiny(tmp_path / "made")
    before = sorted(p for p in ds.rglob("*") if "cache" not in p.parts)

    def full(self: pl.DataFrame, path: Path, **_: object) -> None:
        if ds in Path(path).parents and "cache" not in Path(path).parts:
            Path(path).write_bytes(b"half")
            raise pl.exceptions.ComputeError(f"{os.strerror(number)} (os error {number})")

    more = trace(tmp_path / "more.jsonl", 3)
    with monkeypatch.context() as broken:
        broken.setattr(pl.DataFrame, "write_parquet", full)
        with pytest.raises(OSError, match=os.strerror(number)):
            ingest([more], ds, Options(block_tokens=4))
    assert sorted(p for p in ds.rglob("*") if "cache" not in p.parts) == before
    ingest([more], ds, Options(block_tokens=4))
    assert Dataset(ds).read("requests").height == 7


def test_folders_of_any_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = trace(tmp_path / "1.jsonl", 1)
    options = Options(block_tokens=4)
    for name in ("a/b/c", "x" * 250, "it's [1] *?", "ü\u00a0\n"):
        ingest([one], tmp_path / "out" / name, options)
        assert Dataset(tmp_path / "out" / name).read("requests").height == 3
        assert leftovers((tmp_path / "out" / name).parent) == []
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ingest([one], ".", options)
    assert Dataset(".").read("requests").height == 3
    with pytest.raises(NotADataset, match="is a file"):
        ingest([one], one, options)
    with pytest.raises(OSError, match="too long"):
        ingest([one], tmp_path / ("y" * 300), options)


def test_a_dataset_is_never_read_as_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    from traces.dataset.bundle import bundle

    ds = tiny(tmp_path / "made")
    rows = Dataset(ds).read("requests")
    bundle(Dataset(ds), tmp_path / "b.zip")
    for name, given in (("folder", ds), ("zip", tmp_path / "b.zip")):
        receipt = ingest([str(given)], tmp_path / name)
        assert receipt["requests"] == 4
        assert receipt["records"]["used"] == receipt["records"]["read"] == 4
        assert Dataset(tmp_path / name).read("requests").equals(rows)
        assert ingest([str(given)], tmp_path / name)["files"]["skipped"] == 1
    ingest([trace(tmp_path / "n.jsonl", 8)], tmp_path / "folder", Options(block_tokens=4))  # private/ came along
    assert Dataset(tmp_path / "folder").read("requests").height == 7
    # inside a folder: neither the dataset that is written, nor another, nor a bundle, nor what a killed ingest left
    monkeypatch.chdir(tmp_path / "made")
    shutil.move(tmp_path / "b.zip", "b.zip")
    shutil.copytree("ds", "other")
    shutil.copytree("ds", partial_of(Path("elsewhere")))
    beside(Path("other"), "lock").write_text("1\n")
    for _ in range(2):
        receipt = ingest(["."], "mine", Options(block_tokens=4))
        assert Dataset("mine").read("requests").height == 4
    assert receipt["files"]["failed"] == 0


def test_a_killed_ingest_of_other_inputs_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traces.intake import ingest as module

    class Killed(BaseException):
        pass

    one, two, three = (trace(tmp_path / f"{i}.jsonl", i) for i in (1, 2, 3))
    options = Options(block_tokens=4)
    real = module.save

    def killed(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]
        raise Killed

    with monkeypatch.context() as soon:
        soon.setattr(module, "SAVE_EVERY_S", -1.0)
        soon.setattr(module, "save", killed)
        with pytest.raises(Killed):
            ingest([one, two], tmp_path / "ds", options)
    assert partial_of(tmp_path / "ds").is_dir()
    ingest([three], tmp_path / "ds", options)
    assert Dataset(tmp_path / "ds").read("requests").height == 3
    assert leftovers(tmp_path) == []
