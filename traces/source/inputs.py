"""The user's inputs as sources: files, folders, zips, pipes and stdin. Each input that is not read gets a reason."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from traces.source.archives import SKIP_NAMES, SYSTEM_FILE, Budget, Refused, entries, is_zip
from traces.source.limits import CHUNK_BYTES, Limits
from traces.source.sources import Source

__all__ = ["Refused", "expand"]

_OPENED = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Pipes that another program already writes to: what a shell makes of <(zcat trace.gz)."""
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")


def expand(inputs: list[str], limits: Limits | None = None, spool: Path | None = None) -> Iterator[Source | Refused]:
    """Yield the files that `inputs` (paths, folders, zips, pipes, or "-" for stdin) hold, sorted by name inside each.

    Args:
        inputs: what the user named.
        limits: what compressed files may unpack to.
        spool: where stdin and pipes are kept while they are read (a temporary file otherwise).
    """
    limits = limits or Limits()
    for text in inputs:
        path = Path(text)
        try:
            if text == "-":
                yield _spooled("-", sys.stdin.buffer, limits, spool)
            elif path.is_dir():
                yield from _folder(path, limits)
            elif path.is_fifo():
                yield _pipe(text, path, limits, spool)
            elif not path.exists():
                yield Refused(text, "no such file or folder")
            elif not path.is_file():
                yield Refused(text, "not a regular file")
            else:
                yield from _file(path.name, path, limits)
        except OSError as error:
            yield Refused(text, f"cannot be read: {type(error).__name__}")


def _pipe(text: str, path: Path, limits: Limits, spool: Path | None) -> Source | Refused:
    if not text.startswith(_OPENED):  # opening one that nobody writes to would wait for ever
        return Refused(text, "a named pipe: give its content as standard input (cat PIPE | tracetower ingest - ...)")
    with path.open("rb") as stream:
        return _spooled(text.strip("/"), stream, limits, spool)


def _spooled(name: str, stream: IO[bytes], limits: Limits, spool: Path | None) -> Source | Refused:
    """A stream that can be read once, kept in a file that goes when the source is closed."""
    handle, copy = tempfile.mkstemp(prefix="stdin-", dir=spool)
    with os.fdopen(handle, "wb") as out:
        left = limits.total_bytes
        while left > 0 and (chunk := stream.read(min(CHUNK_BYTES, left))):
            out.write(chunk)
            left -= len(chunk)
    return Source(name, Path(copy), limits=limits, spooled=True)


def _folder(root: Path, limits: Limits) -> Iterator[Source | Refused]:
    items: list[Source | Refused] = []

    def failed(error: OSError) -> None:
        name = os.path.relpath(error.filename or root, root)
        items.append(Refused(name, f"a folder that cannot be read: {type(error).__name__}"))

    for folder, folders, files in os.walk(root, onerror=failed):
        here = Path(folder)
        for name in sorted(folders):
            relative = (here / name).relative_to(root).as_posix() + "/"
            if name in SKIP_NAMES:
                items.append(Refused(relative, SYSTEM_FILE, skipped=True))
            elif (here / name).is_symlink():
                reason = "a symbolic link to a folder is not followed: name the folder itself as an input"
                items.append(Refused(relative, reason, skipped=True))
        folders[:] = sorted(f for f in folders if f not in SKIP_NAMES and not (here / f).is_symlink())
        names = set(files)
        for name in sorted(files):
            if any(name.endswith(end) and name.removesuffix(end) in names for end in _BESIDE_DATABASE):
                continue  # part of the database beside it, which is read with it
            items.extend(_member((here / name).relative_to(root).as_posix(), here / name, limits))
    yield from _grouped(items)


def _member(name: str, path: Path, limits: Limits) -> Iterator[Source | Refused]:
    try:
        if path.name in SKIP_NAMES:
            yield Refused(name, SYSTEM_FILE, skipped=True)
        elif path.is_symlink():
            yield Refused(name, "a symbolic link is not followed: name the file itself as an input", skipped=True)
        elif not stat.S_ISREG(path.stat().st_mode):
            yield Refused(name, "not a regular file", skipped=True)
        else:
            yield from _file(name, path, limits)
    except OSError as error:
        yield Refused(name, f"cannot be read: {type(error).__name__}")


def _file(name: str, path: Path, limits: Limits) -> Iterator[Source | Refused]:
    with path.open("rb") as stream:
        start = stream.read(4)
    if is_zip(start, path.name):
        yield from _grouped(list(entries(name, path, Budget(limits, path.stat().st_size))))
    else:
        yield Source(name, path, limits=limits)


def _grouped(items: list[Source | Refused]) -> Iterator[Source | Refused]:
    """The items by name, each source with the files beside it."""
    items.sort(key=lambda item: item.name)
    group = {item.name: item for item in items if isinstance(item, Source)}
    for item in items:
        if isinstance(item, Source):
            if any(item.name.endswith(end) and item.name.removesuffix(end) in group for end in _BESIDE_DATABASE):
                group[item.name.rpartition("-")[0]].beside[item.name[item.name.rindex("-") :]] = item
                continue
            item.beside_in(group)
        yield item
