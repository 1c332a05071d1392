"""The samples of an .eval archive: a zip, deflated or (since 2026) compressed with zstd."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.source.limits import MAX_DOCUMENT_BYTES
from traces.source.packed import ZIP_METHODS, Damage, Entry
from traces.source.sources import parse_json
from traces.source.streams import read_exactly
from traces.transcripts.ledger import Ledger

if TYPE_CHECKING:
    from traces.source.sources import Source


def is_archive(data: bytes) -> bool:
    """Whether a zip's first bytes name what Inspect writes first."""
    return b"_journal/" in data[:512] or b"samples/" in data[:512] or b"header.json" in data[:512]


def samples_of(source: Source, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    """Yield (name, sample) in the order of names; what cannot be read is rejected."""
    try:
        archive = zipfile.ZipFile(source.local_path())
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        ledger.reject(0, f"a log that cannot be read: {type(error).__name__}")
        return
    with archive:
        infos = sorted((i for i in archive.infolist() if i.filename.startswith("samples/")), key=lambda i: i.filename)
        for at, info in enumerate(infos, 1):
            try:
                sample = parse_json(_content(source, archive, info))
            except (ValueError, OSError) as error:
                known = isinstance(error, ValueError)
                ledger.reject(at, str(error) if known else f"a sample that cannot be read: {type(error).__name__}")
                continue
            yield info.filename[len("samples/") : -len(".json")], sample
        if not infos:
            ledger.ignore("a log without samples")


def _content(source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    damages: list[Damage] = []
    if info.compress_type not in ZIP_METHODS:
        raise ValueError("a sample packed by a method that is not read")
    with Entry(archive, info).open(source.limits, damages.append) as stream:
        data = read_exactly(stream, MAX_DOCUMENT_BYTES + 1)
    if damages:
        raise ValueError(f"a sample that cannot be unpacked: {damages[0].reason}")
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ValueError("a sample that is too large to hold")
    return data
