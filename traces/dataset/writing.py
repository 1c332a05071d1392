"""A new generation of a dataset: written beside the old one, made current by renaming the manifest, swept afterwards.

Whoever writes holds `traces.dataset.locks.writing`, so nothing that another writer still needs is swept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from traces.dataset.caches import sweep_caches
from traces.dataset.layout import MANIFEST, PRIVATE, Dataset
from traces.dataset.locks import unread, writing
from traces.dataset.manifest import SCHEMA_VERSION
from traces.dataset.paths import NotADataset, beside, inside, remove
from traces.dataset.proof import tool_version
from traces.schema import TABLES

DIGESTS = "digests.json"
_OURS = re.compile(r"tables-[0-9a-f]+|private|\.manifest\.json\.[0-9a-f]+|\.lock")
_GENERATION = re.compile(r"(?:tables-)?([0-9a-f]+)")


@contextlib.contextmanager
def writer(path: Path, wait: bool = True, heard: Callable[[str], None] | None = None) -> Iterator[Path]:
    """Hold the right to write the dataset at `path`, cleared of what killed writers left; yields the resolved path.

    Args:
        path: the dataset's folder, which need not exist.
        wait: wait for another writer; else raise.
        heard: called with a sentence when there is someone to wait for.

    Raises:
        traces.dataset.locks.Busy: if another process writes and `wait` is off.
        NotADataset: if there is something else at `path`.
        OSError: where nothing can be written there.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, wait, heard):
        if path.exists() and not path.is_dir():
            raise NotADataset(f"{path.name} is a file; a dataset is written into a folder")
        sweep(path)
        try:
            yield path
        finally:
            remove(spool_of(path))


def partial_of(path: Path) -> Path:
    """Where an unfinished ingest into `path` is kept."""
    return beside(path, "partial")


def spool_of(path: Path) -> Path:
    """The folder that holds standard input while it is ingested into `path`."""
    return beside(path, "spool")


def write_generation(
    path: Path, tables: dict[str, pl.DataFrame], manifest: dict[str, Any], private: dict[str, Any]
) -> None:
    """Write a generation of the dataset at `path` and make it the current one in one rename.

    Args:
        path: the dataset's folder (made if missing).
        tables: every table of `TABLES`.
        manifest: what the manifest says besides versions and where the tables are.
        private: file name -> frame, array, bytes or JSON value, for private/; empty: the dataset has none.

    Raises:
        OSError: where it cannot be written; the dataset is then what it was before.
        NotADataset: where private/ is a link.
    """
    generation = secrets.token_hex(6)
    target = beside(path, f"new-{generation}") if not path.exists() else path
    folder = target / f"tables-{generation}"
    hidden = inside(target, PRIVATE, generation)
    part = target / f".{MANIFEST}.{generation}"
    try:
        folder.mkdir(parents=True)
        for name in TABLES:
            with _as_os_error(folder / f"{name}.parquet"):
                tables[name].write_parquet(folder / f"{name}.parquet", compression="zstd", compression_level=1)
        if private:
            hidden.parent.mkdir(mode=0o700, exist_ok=True)
            hidden.parent.chmod(0o700)
            hidden.mkdir(mode=0o700)
            for name, value in private.items():
                with _as_os_error(hidden / name):
                    _write_private(hidden / name, value)
            _write_private(hidden / DIGESTS, {name: _digest(hidden / name) for name in private})
        named = {
            "schema_version": SCHEMA_VERSION, "tool": "tracetower", "tool_version": tool_version(), **manifest,
            "tables": folder.name, "private": generation if private else None, "content_key": generation,
        }  # fmt: skip
        part.write_text(json.dumps(named, indent=1) + "\n", "utf-8")
        _sync(folder, *([hidden, hidden.parent] if private else []), part)
        part.replace(target / MANIFEST)
        _sync(target)
        if target != path:
            target.rename(path)
            _sync(path.parent)
    except BaseException:
        if target != path:
            remove(target)
        elif not _is_current(path, generation):
            for leftover in (part, folder, hidden):
                remove(leftover)
        raise
    sweep(path)


def _is_current(path: Path, generation: str) -> bool:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return bool(json.loads((path / MANIFEST).read_bytes())["content_key"] == generation)
    return False


@contextlib.contextmanager
def _as_os_error(path: Path) -> Iterator[None]:
    """A disk that is full or read-only is an OSError, whichever library noticed."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        match = re.search(r"os error (\d+)", str(error))
        number = int(match[1]) if match else 5
        raise OSError(number, os.strerror(number), str(path)) from None


def sweep(path: Path) -> None:
    """Remove what earlier generations and killed writers of `path` left; nothing that is being read, no other's files.

    Raises:
        NotADataset: where private/ or cache/ is a link.
    """
    for purpose in ("new", "partial.new"):
        stem = beside(path, purpose).name if purpose == "new" else beside(partial_of(path), "new").name
        for found in path.parent.iterdir() if path.parent.is_dir() else ():
            if re.fullmatch(re.escape(stem) + r"-[0-9a-f]+", found.name):
                remove(found)
    remove(spool_of(path))
    if not path.is_dir():
        return
    current: Any = None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        current = json.loads((path / MANIFEST).read_bytes())["content_key"]
    if current is None and not is_unfinished(path):
        return
    private = inside(path, PRIVATE)
    for found in [*path.iterdir(), *(private.iterdir() if private.is_dir() else ())]:
        match = _GENERATION.fullmatch(found.name)
        if match and match[1] != current and found.is_dir() and not found.is_symlink():
            tables = path / f"tables-{match[1]}"
            with unread(tables) as free:
                if free or not tables.exists():
                    remove(private / match[1])
                    remove(tables)
        elif re.fullmatch(rf"\.{re.escape(MANIFEST)}\.[0-9a-f]+", found.name):
            remove(found)
    sweep_caches(path)


def is_unfinished(path: Path) -> bool:
    """Whether the folder at `path` is empty, or holds nothing but what a killed first ingest into it left."""
    if not path.is_dir() or not all(_OURS.fullmatch(found.name) for found in path.iterdir()):
        return False
    private = path / PRIVATE
    return not private.exists() or all(_GENERATION.fullmatch(found.name) for found in inside(path, PRIVATE).iterdir())


def _write_private(path: Path, value: Any) -> None:
    path.touch(mode=0o600)
    if isinstance(value, pl.DataFrame):
        value.write_parquet(path, compression="zstd", compression_level=1)
    elif isinstance(value, Path):
        shutil.copyfile(value, path)
    elif isinstance(value, np.ndarray):
        value.tofile(path)
    elif isinstance(value, bytes):
        path.write_bytes(value)
    else:
        path.write_text(json.dumps(value), "utf-8")


def check_private(dataset: Dataset) -> None:
    """Check that the private files are those that were written.

    Raises:
        NotADataset: naming the first one that is missing or damaged.
    """
    what = "so nothing can be appended; ingest all inputs again into a new dataset"
    try:
        stored = json.loads(dataset.private_file(DIGESTS).read_bytes())
        wrong = [name for name, digest in stored.items() if _digest(dataset.private_file(name)) != digest]
    except (OSError, ValueError, AttributeError) as error:
        if isinstance(error, NotADataset):
            raise
        raise NotADataset(f"{dataset.name}: private/ cannot be read ({type(error).__name__}), {what}") from None
    if wrong:
        raise NotADataset(f"{dataset.name}: private/{wrong[0]} is damaged, {what}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(*paths: Path) -> None:
    """Wait until files, or folders with the files in them, are on the disk."""
    for path in paths:
        inner = [p for p in path.iterdir() if p.is_file()] if path.is_dir() else []
        for each in (*inner, path):
            descriptor = os.open(each, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
