"""Ways to read the same files that must give the same dataset, and how to try them on any folder by hand.

    python -m tests.traces.intake.laws FOLDER...

reads each folder in every way and prints what differs from reading it once.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import zstandard

from analysis.headline.report import report
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from traces.dataset.bundle import bundle
from traces.dataset.layout import Dataset
from traces.intake.ingest import NothingUsable, ingest
from traces.intake.registry import reader

Law = Callable[[Path, Path, Path], None]
"""(sample folder, work folder, dataset to make)"""
STEPS = 4
"""States of a growing file that are ingested, spread over its lines."""


def read(item: Path, dataset: Path) -> dict[str, Any]:
    """Ingest, whether or not there is a request, and check the balance of the receipt."""
    try:
        receipt = ingest([str(item)], dataset)
    except NothingUsable as error:
        receipt = error.receipt
    counts = receipt["records"]
    assert counts["read"] == counts["used"] + counts["rejected"] + counts["duplicate"] + counts["ignored"]
    assert min(counts.values()) >= 0
    return receipt


def figures(dataset: Path) -> dict[str, Any]:
    """What must be the same: counts and tokens of the workload, and the hit rates."""
    found = report(open_dataset(dataset), Question(arrivals="staggered:60"))
    workload, rate = found["workload"], found["hit_rate"]
    names = ("requests", "sessions", "input_tokens", "output_tokens")
    usage = Dataset(dataset).read("sources")["usage"].drop_nulls().unique().sort().to_list()
    rates = {n: rate[n] for n in ("ceiling", "reported", "ceiling_hit_tokens")}
    return {n: workload[n] for n in names} | rates | {"usage": usage}


def files_of(folder: Path) -> list[Path]:
    """The files of a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def copied(sample: Path, place: Path) -> Path:
    """A copy of a folder."""
    shutil.copytree(sample, place)
    return place


def again(sample: Path, work: Path, dataset: Path) -> None:
    """Three times more: the same, under names that sort the other way round, and each file compressed."""
    read(sample, dataset)
    key = Dataset(dataset).key
    files = files_of(sample)
    for number, path in enumerate(files):
        name = f"{len(files) - number:04d}-log{''.join(path.suffixes)}"
        other, packed = (work / kind / path.relative_to(sample).parent for kind in ("renamed", "packed"))
        other.mkdir(parents=True, exist_ok=True)
        packed.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, other / name)
        (packed / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    for folder in (sample, work / "renamed", work / "packed"):
        assert read(folder, dataset)["requests"] == 0, folder
    assert Dataset(dataset).key == key, "nothing new was written"


def zipped(sample: Path, work: Path, dataset: Path) -> None:
    """First from a zip in a zip, then from the folder."""
    with zipfile.ZipFile(work / "inner.zip", "w") as inner:
        for path in files_of(sample):
            inner.write(path, path.relative_to(sample).as_posix())
    with zipfile.ZipFile(work / "outer.zip", "w") as outer:
        outer.write(work / "inner.zip", "inner.zip")
    read(work / "outer.zip", dataset)
    read(sample, dataset)


def apart(sample: Path, work: Path, dataset: Path) -> None:
    """One file after the other, the last first; then the folder, where a reader reads files together."""
    for number, path in enumerate(reversed(files_of(sample))):
        place = work / str(number) / path.relative_to(sample)
        place.parent.mkdir(parents=True)
        shutil.copy(path, place)
        read(work / str(number), dataset)
    if any(getattr(reader(one["format"]), "SIBLINGS", False) for one in Dataset(dataset).manifest["inputs"]):
        read(sample, dataset)


def grown(sample: Path, work: Path, dataset: Path) -> None:
    """Each file line by line, under the same name."""
    folder = copied(sample, work / "grown")
    wholes = {path: path.read_bytes() for path in files_of(folder)}
    for step in range(1, STEPS + 1):
        for path, whole in wholes.items():
            lines = whole.splitlines(keepends=True)
            path.write_bytes(b"".join(lines[: -(-len(lines) * step // STEPS)]))
        read(folder, dataset)


def cut(sample: Path, work: Path, dataset: Path) -> None:
    """First files that end anywhere, then the whole ones under other names."""
    folder = copied(sample, work / "cut")
    for path in files_of(folder):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) * 2 // 3])
    read(folder, dataset)
    read(sample, dataset)


def backup(sample: Path, work: Path, dataset: Path) -> None:
    """Beside each file an earlier state of it, in one ingest."""
    folder = copied(sample, work / "backup")
    for path in files_of(folder):
        lines = path.read_bytes().splitlines(keepends=True)
        path.with_name(path.name + ".bak.1").write_bytes(b"".join(lines[: -(-len(lines) // 2)]))
    read(folder, dataset)


def rotated(sample: Path, work: Path, dataset: Path) -> None:
    """Each file half written under its name, then whole under another, then the half that is left of it is read."""
    folder, later = copied(sample, work / "log"), work / "later"
    for path in files_of(folder):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: -(-len(lines) // 2)]))
        whole = later / path.relative_to(folder).with_name(f"rotated.1.{path.name}")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(b"".join(lines))
    for one in (folder, later, folder):
        read(one, dataset)


def _rearranged(sample: Path, place: Path, arrange: Callable[[list[Any]], bytes]) -> Path:
    """A copy of a folder in which the records of each file of JSON lines are arranged in another way."""
    folder = copied(sample, place)
    for path in files_of(folder):
        lines = [line for line in path.read_bytes().splitlines() if line.strip()]
        try:
            records = [json.loads(line) for line in lines]
        except ValueError:
            continue
        if len(records) > 1 and all(isinstance(record, dict) for record in records):
            path.write_bytes(arrange(records))
    return folder


def array(sample: Path, work: Path, dataset: Path) -> None:
    """Lines as an array."""
    read(_rearranged(sample, work / "array", lambda records: json.dumps(records).encode()), dataset)


def pretty(sample: Path, work: Path, dataset: Path) -> None:
    """Lines as documents of many lines."""
    texts = partial(json.dumps, indent=2)
    read(_rearranged(sample, work / "pretty", lambda records: "\n".join(map(texts, records)).encode()), dataset)


def packed(sample: Path, work: Path, dataset: Path) -> None:
    """Each file packed by zstd, under its name, those that are packed too."""
    folder = copied(sample, work / "packed")
    for path in files_of(folder):
        path.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    read(folder, dataset)


def among_ours(sample: Path, work: Path, dataset: Path) -> None:
    """In a folder that also holds a dataset of the same files, and a bundle of it."""
    read(sample, work / "all" / "ours")
    bundle(Dataset(work / "all" / "ours"), work / "all" / "bundle.zip")
    copied(sample, work / "all" / "logs")
    read(work / "all", dataset)


LAWS: list[Law] = [again, zipped, apart, grown, cut, backup, rotated, array, pretty, packed, among_ours]


def main(folders: list[Path]) -> int:
    """Try every law on every folder; the number of those that do not hold."""
    broken = 0
    for folder in folders:
        with tempfile.TemporaryDirectory() as place:
            once = Path(place) / "once"
            read(folder, once)
            if not once.exists():
                continue
            for law in LAWS:
                work, dataset = Path(place) / law.__name__, Path(place) / f"{law.__name__}.dataset"
                work.mkdir()
                try:
                    law(folder, work, dataset)
                    want, have = figures(once), figures(dataset)
                    differences = {name: (want[name], have[name]) for name in want if want[name] != have[name]}
                except Exception as error:
                    differences = {"error": repr(error)[:300]}
                if differences:
                    broken += 1
                    print(f"{folder.name} {law.__name__}: {differences}", flush=True)
    return broken


if __name__ == "__main__":
    sys.exit(min(1, main([Path(argument) for argument in sys.argv[1:]])))
