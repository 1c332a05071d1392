"""The dataset on disk: a folder with a manifest that names the current generation of its tables.

Nothing else knows the layout. A generation is written beside the old one and the manifest is replaced in one rename, so
a killed writer leaves the old dataset or the new one.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.schema import TABLES

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
PRIVATE = "private"
CACHE = "cache"


class NotADataset(ValueError):
    """The path holds no dataset that can be opened; the message says what to do."""


class Tree(NamedTuple):
    """The prefix tree: parent int64 (root -1), start and end int64 tokens, role int8 (traces.records.ROLES)."""

    parent: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    role: NDArray[np.int8]


class Dataset:
    """A dataset opened for reading."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        manifest = self.path / MANIFEST
        if not manifest.is_file():
            what = "no such folder" if not self.path.exists() else "no manifest.json in it"
            raise NotADataset(
                f"{self.path.name}: not a dataset ({what}). Make one with: tracetower ingest INPUT -o DATASET"
            )
        try:
            self.manifest: dict[str, Any] = json.loads(manifest.read_text("utf-8"))
            version = self.manifest["schema_version"]
            self.tables = self.path / self.manifest["tables"]
        except (ValueError, KeyError, TypeError) as error:
            raise NotADataset(
                f"{self.path.name}: its manifest cannot be read ({type(error).__name__}); ingest again"
            ) from None
        if version != SCHEMA_VERSION:
            raise NotADataset(
                f"{self.path.name}: schema version {version}, this release reads {SCHEMA_VERSION}; ingest again"
            )
        if self.tables.resolve().parent != self.path.resolve() and self.tables.resolve() != self.path.resolve():
            raise NotADataset(f"{self.path.name}: its manifest points outside the dataset")
        missing = [name for name in TABLES if not self.table_path(name).is_file()]
        if missing:
            raise NotADataset(f"{self.path.name}: damaged, {', '.join(missing)} missing; ingest again")

    @property
    def key(self) -> str:
        """Changes whenever the content does: what caches are keyed by."""
        return str(self.manifest["content_key"])

    def table_path(self, name: str) -> Path:
        """The Parquet file of a table."""
        return self.tables / f"{name}.parquet"

    def read(self, name: str, columns: list[str] | None = None) -> pl.DataFrame:
        """A table as a frame."""
        return pl.read_parquet(self.table_path(name), columns=columns, glob=False)

    def tree(self) -> Tree:
        """The prefix tree as arrays."""
        from traces.records import ROLES

        frame = self.read("prefixes")
        codes = {role: code for code, role in enumerate(ROLES)}
        return Tree(
            frame["parent_id"].fill_null(-1).to_numpy(),
            frame["start_token"].to_numpy(),
            frame["end_token"].to_numpy(),
            frame["role"].replace_strict(codes, default=0, return_dtype=pl.Int8).to_numpy(),
        )

    def cache_path(self, name: str) -> Path:
        """Where a derived result is kept; None of it is needed and all of it may be deleted."""
        folder = self.path / CACHE / self.key
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    def write_cache(self, name: str, frame: pl.DataFrame) -> None:
        """Keep a derived frame, atomically; a folder that cannot be written is no error."""
        try:
            path = self.cache_path(name)
            part = path.with_name(f".{secrets.token_hex(4)}.{path.name}")
            frame.write_parquet(part, compression="zstd")
            part.replace(path)
        except OSError:
            return

    def read_cache(self, name: str) -> pl.DataFrame | None:
        """A derived frame kept by `write_cache`, or None."""
        path = self.path / CACHE / self.key / name
        try:
            return pl.read_parquet(path, glob=False) if path.is_file() else None
        except (OSError, pl.exceptions.PolarsError):
            return None

    @property
    def private(self) -> Path:
        """The folder that never leaves the machine."""
        return self.path / PRIVATE


def write_generation(
    path: Path, tables: dict[str, pl.DataFrame], manifest: dict[str, Any], private: dict[str, Any]
) -> None:
    """Write a generation of the dataset at `path` and make it the current one in one rename.

    Args:
        path: the dataset's folder (made if missing).
        tables: every table of `TABLES`.
        manifest: what the manifest says besides where the tables are.
        private: file name -> frame, array, bytes or JSON value, for private/.
    """
    generation = secrets.token_hex(6)
    first = not path.exists()
    target = path.with_name(f".{path.name}.new-{generation}") if first else path
    target.mkdir(parents=True, exist_ok=True)
    folder = target / f"tables-{generation}"
    hidden = target / PRIVATE / generation
    try:
        folder.mkdir()
        (target / PRIVATE).mkdir(mode=0o700, exist_ok=True)
        (target / PRIVATE).chmod(0o700)
        hidden.mkdir(mode=0o700)
        for name in TABLES:
            tables[name].write_parquet(folder / f"{name}.parquet", compression="zstd", compression_level=1)
        for name, value in private.items():
            _write_private(hidden / name, value)
        text = json.dumps(
            {**manifest, "tables": folder.name, "private": generation, "content_key": generation}, indent=1
        )
        part = target / f".{MANIFEST}.{generation}"
        part.write_text(text + "\n", "utf-8")
        _sync(part)
        part.replace(target / MANIFEST)
        if first:
            target.rename(path)
    except BaseException:
        if first:
            shutil.rmtree(target, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.rmtree(hidden, ignore_errors=True)
        raise
    sweep(path, generation)


def sweep(path: Path, generation: str) -> None:
    """Remove what earlier generations and killed writers left."""
    for found in [*path.glob("tables-*"), *(path / PRIVATE).glob("*"), *(path / CACHE).glob("*")]:
        if generation not in found.name:
            if found.is_dir():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink(missing_ok=True)
    for found in path.glob(f".{MANIFEST}.*"):
        found.unlink(missing_ok=True)
    for found in path.parent.glob(f".{path.name}.new-*"):
        shutil.rmtree(found, ignore_errors=True)


def _write_private(path: Path, value: Any) -> None:
    if isinstance(value, pl.DataFrame):
        value.write_parquet(path, compression="zstd", compression_level=1)
    elif isinstance(value, np.ndarray):
        value.tofile(path)
    elif isinstance(value, bytes):
        path.write_bytes(value)
    else:
        path.write_text(json.dumps(value), "utf-8")
    path.chmod(0o600)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
