"""Zips: their entries as sources, with every name, size and nesting checked before anything is unpacked.

An archive is never unpacked to where its names point; links, climbing paths and bombs are refused with a reason.
"""

from __future__ import annotations

import re
import shutil
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from traces.source.limits import CHUNK_BYTES, MAX_NESTING, Limits, Meter
from traces.source.packed import ZIP_METHODS, Entry
from traces.source.sources import Source
from traces.source.streams import Slice

SKIP_NAMES = {".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX"}
_NOT_ARCHIVES = (".eval", ".xlsx", ".docx", ".npz", ".whl", ".jar")
UNREADABLE = (zipfile.BadZipFile, OSError, NotImplementedError, ValueError, RuntimeError, struct.error)


class Refused(NamedTuple):
    """An input that is not read, and why. `skipped` separates a file that was passed over from a failure."""

    name: str
    reason: str
    skipped: bool = False


class Budget:
    """What all archives of one input may unpack to together, and the file that holds the zips in it meanwhile."""

    def __init__(self, limits: Limits, packed_bytes: int) -> None:
        self.limits, self._entries = limits, 0
        self._meter = Meter(limits, max(1, packed_bytes))
        self._spool: IO[bytes] | None = None

    def spend(self, infos: list[zipfile.ZipInfo]) -> str:
        """Count an archive's entries; why they are too many or too large, or ""."""
        self._entries += len(infos)
        if self._entries > self.limits.entries:
            return f"holds more than {self.limits.entries:,} files, with the zips in it (split it)"
        return self._meter.over(sum(info.file_size for info in infos))

    def kept(self, stream: IO[bytes]) -> IO[bytes]:
        """What a stream holds, in a temporary file that all nested zips share."""
        if self._spool is None:  # closed with the last zip that is read from it
            self._spool = cast(IO[bytes], tempfile.SpooledTemporaryFile(max_size=CHUNK_BYTES))  # noqa: SIM115
        start = self._spool.seek(0, 2)
        shutil.copyfileobj(stream, self._spool, CHUNK_BYTES)
        return cast(IO[bytes], Slice(self._spool, start, self._spool.tell() - start))


def is_zip(start: bytes, name: str) -> bool:
    """Whether a file that starts like this is an archive of traces, not another format in a zip's clothes."""
    return start[:4] in (b"PK\x03\x04", b"PK\x05\x06") and not name.lower().endswith(_NOT_ARCHIVES)


def entries(name: str, stream: IO[bytes] | Path, budget: Budget, depth: int = 0) -> Iterator[Source | Refused]:
    """Yield the entries of a zip, and of the zips in it."""
    try:
        file = zipfile.ZipFile(stream)
        infos = file.infolist()
    except UNREADABLE as error:
        yield Refused(name, f"a zip that cannot be read: {type(error).__name__}")
        return
    refusal = budget.spend(infos)
    if refusal:
        yield Refused(name, f"a zip that {refusal}")
        return
    seen: dict[str, int] = {}
    for info in infos:
        path = info.filename.replace("\\", "/")  # as Windows' own tools write them
        if path.endswith("/"):
            continue
        seen[path] = again = seen.get(path, 0) + 1
        label = f"{name}/{path}" + (f" ({again})" if again > 1 else "")
        reason = _refusal(path, info)
        if not SKIP_NAMES.isdisjoint(PurePosixPath(path).parts):
            yield Refused(label, SYSTEM_FILE, skipped=True)
        elif reason is not None:
            yield Refused(label, reason)
        elif path.lower().endswith(".zip"):
            yield from _nested(label, file, info, budget, depth + 1)
        else:
            yield Source(label, entry=Entry(file, info), limits=budget.limits)


SYSTEM_FILE = "a file of the operating system's own"


def _refusal(path: str, info: zipfile.ZipInfo) -> str | None:
    if path.startswith("/") or ".." in PurePosixPath(path).parts or re.match(r"^[A-Za-z]:", path):
        return "a path that climbs out of its archive"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "a symbolic link in an archive"
    if info.flag_bits & 1:
        return "an encrypted entry; unpack it first"
    if info.compress_type not in ZIP_METHODS:
        return "packed by a method that is not read (Deflate64, LZMA, PPMd): unpack it first"
    return None


def _nested(
    name: str, file: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget, depth: int
) -> Iterator[Source | Refused]:
    if depth > MAX_NESTING:
        yield Refused(name, f"zips nested more than {MAX_NESTING} deep")
        return
    source = Source(name, entry=Entry(file, info), limits=budget.limits)
    try:
        with source.open() as inner:
            spool = budget.kept(inner)
    except UNREADABLE as error:
        yield Refused(name, f"a zip that cannot be read: {type(error).__name__}")
        return
    if source.damage is not None:
        yield Refused(name, f"a zip that cannot be read: {source.damage.reason}")
        return
    yield from entries(name, spool, budget, depth)
