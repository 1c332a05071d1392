"""What the user named, as sources: files, folders, zips and stdin.

An archive is never unpacked to where its names point; links, climbing paths and bombs are refused with a reason.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple, cast

from traces.source.sources import Archive, Source
from traces.source.streams import CHUNK_BYTES

MAX_NESTING = 4
SKIP_NAMES = {".DS_Store", "Thumbs.db", "__MACOSX"}


class Limits(NamedTuple):
    """What an archive may hold. `ratio`: unpacked to packed bytes, looked at above 64 MiB unpacked."""

    total_bytes: int = 1 << 40
    entries: int = 200_000
    ratio: float = 1000.0


UPLOAD_LIMITS = Limits(total_bytes=8 << 30, entries=20_000, ratio=300.0)


class Refused(NamedTuple):
    """An input that is not read, and why. `skipped` tells a file passed over in a folder from a failure."""

    name: str
    reason: str
    skipped: bool = False


def expand(inputs: list[str], limits: Limits | None = None, spool: Path | None = None) -> Iterator[Source | Refused]:
    """Yield the files behind `inputs` (paths, folders, zips, or "-" for stdin), sorted by name inside each.

    Args:
        inputs: what the user named.
        limits: what archives may hold.
        spool: where stdin is kept while it is read (a temporary file otherwise).
    """
    limits = limits or Limits()
    for text in inputs:
        if text == "-":
            yield _stdin(spool)
            continue
        path = Path(text)
        if not path.exists():
            yield Refused(text, "no such file or folder")
        elif path.is_dir():
            yield from _folder(path, limits)
        else:
            yield from _file(path.name, path, limits, 0)


def _stdin(spool: Path | None) -> Source:
    handle, name = tempfile.mkstemp(prefix="stdin-", dir=spool)
    with os.fdopen(handle, "wb") as out:
        shutil.copyfileobj(sys.stdin.buffer, out, CHUNK_BYTES)
    source = Source("-", Path(name))
    source._temporary = Path(name)
    return source


def _folder(root: Path, limits: Limits) -> Iterator[Source | Refused]:
    found: list[Source | Refused] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIP_NAMES and not (Path(folder) / f).is_symlink())
        for name in sorted(files):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if name in SKIP_NAMES:
                continue
            if path.is_symlink():
                found.append(Refused(relative, "a symbolic link is not followed", skipped=True))
            elif not stat.S_ISREG(path.stat().st_mode):
                found.append(Refused(relative, "not a regular file", skipped=True))
            else:
                found.extend(_file(relative, path, limits, 0))
    yield from _grouped(found)


def _grouped(found: list[Source | Refused]) -> Iterator[Source | Refused]:
    found.sort(key=lambda s: s.name)
    group = {s.name: s for s in found if isinstance(s, Source)}
    for source in found:
        if isinstance(source, Source) and not source._group:
            source._group = group
        yield source


def _file(name: str, path: Path, limits: Limits, depth: int) -> Iterator[Source | Refused]:
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic == b"PK\x03\x04" and path.suffix.lower() not in (".eval", ".xlsx", ".docx", ".npz", ".whl", ".jar"):
        try:
            archive = Archive(path)
        except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
            yield Refused(name, f"a zip that cannot be read: {type(error).__name__}")
            return
        yield from _grouped(list(_entries(name, archive, limits, depth)))
    else:
        yield Source(name, path)


def _entries(name: str, archive: Archive, limits: Limits, depth: int) -> Iterator[Source | Refused]:
    infos = archive.file.infolist()
    unpacked = sum(i.file_size for i in infos)
    packed = max(1, sum(i.compress_size for i in infos))
    if len(infos) > limits.entries:
        yield Refused(name, f"a zip of {len(infos):,} entries; at most {limits.entries:,} are read")
        return
    if unpacked > limits.total_bytes or (unpacked > 64 << 20 and unpacked / packed > limits.ratio):
        yield Refused(name, f"a zip that unpacks to {unpacked:,} bytes from {packed:,}: refused as a zip bomb")
        return
    for info in infos:
        if info.is_dir() or PurePosixPath(info.filename).name in SKIP_NAMES or "__MACOSX/" in info.filename:
            continue
        label = f"{name}/{info.filename}"
        parts = PurePosixPath(info.filename.replace("\\", "/")).parts
        if info.filename.startswith("/") or ".." in parts or re.match(r"^[A-Za-z]:", info.filename):
            yield Refused(label, "a path that climbs out of its archive")
        elif stat.S_ISLNK(info.external_attr >> 16):
            yield Refused(label, "a symbolic link in an archive")
        elif info.flag_bits & 1:
            yield Refused(label, "an encrypted entry; unpack it first")
        elif info.filename.lower().endswith(".zip"):
            yield from _nested(label, archive, info, limits, depth + 1)
        else:
            yield Source(label, archive=archive, entry=info.filename)


def _nested(
    name: str, archive: Archive, info: zipfile.ZipInfo, limits: Limits, depth: int
) -> Iterator[Source | Refused]:
    if depth > MAX_NESTING:
        yield Refused(name, f"zips nested more than {MAX_NESTING} deep")
        return
    spool: IO[bytes] = cast(IO[bytes], tempfile.SpooledTemporaryFile(max_size=64 << 20))  # noqa: SIM115 (outlives this)
    try:
        with archive.file.open(info) as inner:
            shutil.copyfileobj(inner, spool, CHUNK_BYTES)
        spool.seek(0)
        yield from _entries(name, Archive(spool), limits, depth)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        yield Refused(name, f"a zip that cannot be read: {type(error).__name__}")
