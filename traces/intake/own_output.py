"""Datasets among the inputs: opened as datasets, and never read as traces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from traces.dataset.layout import Dataset, is_dataset
from traces.dataset.paths import NotADataset
from traces.dataset.writing import DIGESTS, check_private, write_generation
from traces.intake.reading import Options
from traces.intake.receipt import Tally
from traces.schema import TABLES, empty
from traces.source.inputs import Refused
from traces.source.sources import Source

_TABLE = re.compile(r"(.*?)/?tables(-[0-9a-f]+)?/requests\.parquet")
_WORKING = re.compile(r"\..+\.(lock|partial|spool|new-[0-9a-f]+)")
_A_DATASET = "a dataset, not a trace: open it by itself (tracetower report), or ingest the traces it was made from"


def datasets_among(inputs: list[str]) -> tuple[list[Path], list[str]]:
    """The inputs that are datasets, and the others."""
    datasets = [text for text in inputs if text != "-" and _is_dataset(Path(text))]
    return [Path(text) for text in datasets], [text for text in inputs if text not in datasets]


def _is_dataset(path: Path) -> bool:
    try:
        return is_dataset(path)
    except OSError:
        return False


def without_datasets(items: list[Source | Refused]) -> list[Source | Refused]:
    """`items` without the files of datasets in them; each dataset becomes one skipped item."""
    names = {item.name for item in items}
    tables = (_TABLE.fullmatch(name) for name in names)
    folders = {match[1] for match in tables if match and f"{match[1]}/manifest.json".lstrip("/") in names}
    left = [item for item in items if not _inside(item.name, folders) and not _is_working(item.name)]
    return [*left, *(Refused(f"{folder}/", _A_DATASET, skipped=True) for folder in sorted(folders))]


def _inside(name: str, folders: set[str]) -> bool:
    parts = name.split("/")
    return bool(folders) and any("/".join(parts[:depth]) in folders for depth in range(len(parts)))


def _is_working(name: str) -> bool:
    """Whether a file belongs to an ingest that is running, or was killed, beside the inputs."""
    return any(_WORKING.fullmatch(part) for part in name.split("/"))


def adopt(datasets: list[Path], path: Path | None, tally: Tally, options: Options) -> dict[str, Any] | None:
    """Make the dataset among the inputs the one at `path`, and return its receipt.

    Where there is a dataset at `path`, or several are given, they are counted in `tally` and None is returned.

    Args:
        datasets: folders and bundles of datasets.
        path: the dataset that is written; None only checks.
        tally: counts what is not read.
        options: how inputs are read; a dataset takes none of them.

    Raises:
        NotADataset: if a dataset cannot be opened.
    """
    others = [each for each in datasets if path is None or each.resolve() != path]
    for _ in range(len(datasets) - len(others)):
        tally.refused(path.name if path else "", "the dataset that is written is no input of itself", skipped=True)
    there = path is not None and is_dataset(path)
    if len(others) == 1 and not there:
        dataset = Dataset(others[0])
        tables = {name: dataset.read(name) for name in TABLES}
        tally.files["read"] += 1
        tally.formats["dataset"] += 1
        tally.records["used"] += tables["requests"].height
        tokenizers = dataset.manifest["tokenizers"]
        receipt = tally.receipt(tables, 0, Options(tokenizer=tokenizers[0]) if tokenizers else Options(), path)
        receipt["warnings"].insert(0, f"{dataset.name} is a dataset: it was opened as it is")
        if options._replace(limits=Options().limits) != Options():
            receipt["warnings"].append("the options for reading were not used: a dataset is not read again")
        if path is not None:
            dropped = ("schema_version", "tool", "tool_version", "bundle", "resume")
            manifest = {key: value for key, value in dataset.manifest.items() if key not in dropped}
            write_generation(path, tables, manifest, _private(dataset))
        return receipt
    for each in others:
        dataset = Dataset(each)
        if there and path is not None and dataset.read("requests").equals(Dataset(path).read("requests")):
            tally.repeated()
        else:
            tally.refused(dataset.name, _A_DATASET)
    return None


def nothing_read(path: Path | None, tally: Tally) -> dict[str, Any]:
    """The receipt of an ingest into the dataset at `path` that reads no input."""
    there = Dataset(path) if path is not None and is_dataset(path) else None
    tables = {name: empty(name) if there is None else there.read(name) for name in TABLES}
    return tally.receipt(tables, 1 << 62, Options(), path)


def _private(dataset: Dataset) -> dict[str, Any]:
    """The private files, to be copied; none where the dataset came without."""
    if dataset.manifest["private"] is None:
        return {}
    check_private(dataset)
    names = msgspec.json.decode(dataset.private_file(DIGESTS).read_bytes(), type=dict[str, str])
    try:
        return {name: dataset.private_file(name) for name in names}
    except OSError as error:
        raise NotADataset(f"{dataset.name}: private/ cannot be read ({error.strerror})") from None
