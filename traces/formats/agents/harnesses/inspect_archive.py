"""The samples of an .eval archive: a zip, deflated or (since 2026) compressed with zstd, which zipfile cannot read."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import zstandard

from traces.source.limits import MAX_DOCUMENT_BYTES
from traces.source.sources import parse_json
from traces.transcripts.ledger import Ledger

if TYPE_CHECKING:
    from traces.source.sources import Source

ZSTD = 93
"""The number of the zstd method in a zip."""


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
            if info.file_size > MAX_DOCUMENT_BYTES:
                ledger.reject(at, "a sample that is too large to hold")
                continue
            try:
                yield info.filename[len("samples/") : -len(".json")], parse_json(_content(archive, info))
            except (ValueError, OSError, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
                known = isinstance(error, ValueError)
                ledger.reject(at, str(error) if known else f"a sample that cannot be read: {type(error).__name__}")
            except (zstandard.ZstdError, zlib.error):
                ledger.reject(at, "a sample that cannot be unpacked")
        if not infos:
            ledger.ignore("a log without samples")


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type != ZSTD:
        return archive.read(info)
    stream = archive.fp
    if stream is None:
        raise ValueError("a sample that cannot be read")
    stream.seek(info.header_offset)
    name, extra = struct.unpack("<HH", stream.read(30)[26:])
    stream.seek(info.header_offset + 30 + name + extra)
    packed = stream.read(info.compress_size)
    return zstandard.ZstdDecompressor().decompress(packed, max_output_size=info.file_size)
