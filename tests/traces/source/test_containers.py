"""Containers do not decide meaning: the same records in any arrangement, packing and encoding give the same receipt."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.places import SAMPLES
from tests.traces.source.hostile import zipped
from traces.intake.ingest import NothingUsable, Options, ingest
from traces.intake.registry import READERS

FIGURES = ("formats", "records", "requests", "sessions", "input_tokens", "output_tokens", "unknown_usage_requests")


def _records(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def _dumped(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent).encode()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "log.gz": lambda data: gzip.compress(data, mtime=0),
    "log.zst": zstandard.ZstdCompressor().compress,
    "log.zip": lambda data: zipped({"log": data}),
    "twice.zip": lambda data: zipped({"inner.zip": zipped({"log": data})}),
    "windows.zip": lambda data: zipped({"logs\\2026\\log": data}),
    "renamed": lambda data: data,
    "utf-16": lambda data: data.decode().encode("utf-16"),
}
ARRANGED: dict[str, Callable[[list[Any]], bytes]] = {
    "array": lambda records: _dumped(records),
    "pretty array": lambda records: _dumped(records, 2),
    "page": lambda records: _dumped({"data": records}),
    "pretty lines": lambda records: b"\n".join(_dumped(one, 1) for one in records),
    "lines": lambda records: b"".join(_dumped(one) + b"\n" for one in records),
}
FILES = [
    path
    for name in READERS
    for path in sorted((SAMPLES / name).glob("*"))
    if path.is_file() and path.suffix in (".jsonl", ".json", ".csv", ".log", ".txt")
]


def _figures(path: Path, format_name: str) -> dict[str, Any]:
    try:
        receipt = ingest([str(path)], None, Options(format=format_name, tokenizer="bytes"))
    except NothingUsable as error:
        receipt = error.receipt
    return {name: receipt[name] for name in FIGURES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_same_records(path: Path, tmp_path: Path) -> None:
    format_name, data = path.parent.name, path.read_bytes()
    (tmp_path / path.name).write_bytes(data)
    want = _figures(tmp_path / path.name, format_name)
    assert want["records"]["read"] == sum(n for name, n in want["records"].items() if name != "read")
    variants = {name: pack(data) for name, pack in PACKED.items()}
    if path.suffix == ".jsonl":
        variants |= {name: arrange(_records(data)) for name, arrange in ARRANGED.items()}
    different = {}
    for name, content in variants.items():
        place = tmp_path / "variants"
        place.mkdir(exist_ok=True)
        (place / name).write_bytes(content)
        if (found := _figures(place / name, format_name)) != want:
            different[name] = {key: (want[key], found[key]) for key in FIGURES if want[key] != found[key]}
    assert different == {}
