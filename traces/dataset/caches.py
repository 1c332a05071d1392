"""Stores results computed from a dataset beside it. The keys contain every parameter exactly.

The store may be deleted at any time. A folder of the store is named by a seal over the tables' digest, this release and
this machine's secret, so results of other content, of another release or sent along by someone else are never found.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from traces.dataset.locks import Lease, unread
from traces.dataset.paths import NotADataset, inside, remove

LAYOUT = "1"
"""Of what is kept under a name: change it when a release keeps something else under the same name and key."""
MOST_FILES, LEAST_LIMIT_BYTES = 512, 2 << 30
TABLES_TIMES = 8
"""Limit of the store as a multiple of the bytes of the tables; `LEAST_LIMIT_BYTES` where that is more."""
IN_USE_S = 60.0
"""What was used this recently is evicted only when the store holds four times its limit."""
_PART = ".part-"


class Caches:
    """The results kept for one content of a dataset."""

    def __init__(self, dataset: Path, sealed: str, tables_bytes: int) -> None:
        self._dataset = dataset
        self._sealed = sealed
        self._limit = max(LEAST_LIMIT_BYTES, TABLES_TIMES * tables_bytes)
        self._lease: Lease | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def frame(
        self, name: str, key: tuple[Any, ...], make: Callable[[], pl.DataFrame], most_rows: int | None = None
    ) -> pl.DataFrame:
        """The frame kept as `name` for the parameters `key`, or what `make` returns.

        That is kept, unless it has more than `most_rows` rows or a type that Parquet does not know.
        """
        path = self.find(name, key)
        if path is not None:
            with contextlib.suppress(OSError, pl.exceptions.PolarsError):
                return pl.read_parquet(path, glob=False)
        frame = make()
        if most_rows is None or frame.height <= most_rows:
            with contextlib.suppress(pl.exceptions.PolarsError):
                self.keep(name, key, frame)
        return frame

    def find(self, name: str, key: tuple[Any, ...]) -> Path | None:
        """The Parquet file kept as `name` for the parameters `key`; None where there is no whole one."""
        for folder in self._folders():
            path = folder / _file_name(name, key)
            try:
                pl.scan_parquet(path, glob=False).collect_schema()  # the footer comes last, so a cut file has none
                os.utime(path)
            except FileNotFoundError:
                continue
            except PermissionError:
                return path
            except (OSError, pl.exceptions.PolarsError):
                remove(path)
                continue
            return path
        return None

    def keep(self, name: str, key: tuple[Any, ...], frame: pl.DataFrame, about: dict[str, Any] | None = None) -> Path:
        """Write a frame, with a few JSON values about it, and return its file.

        A dataset's folder that cannot be written, or a full disk, is no error: the frame then lies in a private
        folder that goes when this object does.
        """
        notes = {"about": msgspec.json.encode(about or {}).decode()}
        try:
            folder = inside(self._dataset, "cache", self._sealed)
            folder.mkdir(parents=True, exist_ok=True)
            if self._lease is None:
                self._lease = Lease(folder)
            path = folder / _file_name(name, key)
            _write(path, frame, notes)
            self._evict()
            return path
        except (OSError, NotADataset, pl.exceptions.PolarsError):
            path = self._scratch_folder() / _file_name(name, key)
            _write(path, frame, notes)
            return path

    def about(self, path: Path) -> dict[str, Any]:
        """The values that `keep` was given about a frame."""
        with path.open("rb") as file:
            return msgspec.json.decode(pl.read_parquet_metadata(file)["about"])

    def folders(self) -> list[Path]:
        """Where results lie, or may lie later."""
        self._scratch_folder()
        return self._folders()

    def _scratch_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="tracetower-", ignore_cleanup_errors=True)
        return Path(self._scratch.name)

    def _folders(self) -> list[Path]:
        found = [] if self._scratch is None else [Path(self._scratch.name)]
        with contextlib.suppress(OSError, NotADataset):
            folder = inside(self._dataset, "cache", self._sealed)
            if self._lease is None and folder.is_dir():
                self._lease = Lease(folder)
            found.append(folder)
        return found

    def _evict(self) -> None:
        """Remove what dead writers left, then the results not used for longest, until the store fits its limits."""
        now = time.time()
        kept: list[tuple[float, int, Path]] = []
        for folder in inside(self._dataset, "cache").iterdir():
            if folder.is_symlink() or not folder.is_dir():
                continue
            for path in folder.iterdir():
                with contextlib.suppress(OSError):
                    if path.name.startswith(_PART):
                        _remove_part(path)
                    elif path.suffix == ".parquet":
                        status = path.lstat()
                        kept.append((status.st_mtime, status.st_size, path))
        kept.sort()
        files, total = len(kept), sum(size for _, size, _ in kept)
        for used, size, path in kept:
            over = files > MOST_FILES or total > self._limit
            far_over = files > 4 * MOST_FILES or total > 4 * self._limit
            if not over or (now - used < IN_USE_S and not far_over):
                break
            remove(path)
            files, total = files - 1, total - size


def _file_name(name: str, key: tuple[Any, ...]) -> str:
    """Floats enter by their shortest exact form, texts quoted: two keys are equal where all their values are."""
    return f"{name}-{hashlib.sha256(repr((LAYOUT, name, key)).encode()).hexdigest()[:24]}.parquet"


def _write(path: Path, frame: pl.DataFrame, notes: dict[str, str]) -> None:
    """Write a whole file or none."""
    part = path.with_name(f"{_PART}{secrets.token_hex(8)}")
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # held while its writer lives
        frame.write_parquet(part, compression="zstd", metadata=notes)
        os.fsync(descriptor)
        part.replace(path)
    except BaseException:
        remove(part)
        raise
    finally:
        os.close(descriptor)


def _remove_part(path: Path) -> None:
    with unread(path) as dead:
        if dead:
            remove(path)


def sweep_caches(dataset: Path) -> None:
    """Remove the results of earlier contents that nobody is reading."""
    try:
        folder = inside(dataset, "cache")
    except NotADataset:
        return  # a link leads to someone else's files
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            with unread(path) as free:
                if free:
                    remove(path)
        else:
            remove(path)
