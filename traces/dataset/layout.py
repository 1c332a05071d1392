"""The dataset on disk: a folder with a manifest that names the current generation of its tables, or a bundle's zip.

`Dataset(path)` is the only door: whatever it opens was checked, and stays readable while a writer replaces it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.caches import LAYOUT as CACHE_LAYOUT
from traces.dataset.caches import Caches
from traces.dataset.locks import Lease
from traces.dataset.manifest import AGAIN, SCHEMA_VERSION, read_manifest
from traces.dataset.paths import NotADataset, inside
from traces.dataset.proof import Replaced, proven, tool_version
from traces.dataset.seal import seal
from traces.dataset.unpacking import is_bundle, unpacked
from traces.schema import TABLES

__all__ = ["MANIFEST", "PRIVATE", "SCHEMA_VERSION", "Dataset", "NotADataset", "Tree", "is_dataset"]

MANIFEST = "manifest.json"
PRIVATE = "private"
_TRIES = 200


class Tree(NamedTuple):
    """The prefix tree: parent int64 (root -1), start and end int64 tokens, role int8 (traces.records.ROLES)."""

    parent: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    role: NDArray[np.int8]


class Dataset:
    """A dataset opened for reading.

    Attributes:
        path: its folder; of a bundle, the private folder that it was unpacked into, which goes with this object.
        name: what to call it.
        manifest: the checked manifest (traces.dataset.manifest).
        tables: the folder of its tables.
        key: 12 hex digits that change whenever the content does.
        caches: what is kept of computed results.
    """

    def __init__(self, path: str | Path) -> None:
        """Open and check the folder or bundle at `path`.

        Raises:
            NotADataset: if it is none, is damaged, or holds something that no dataset may hold.
        """
        given = Path(path)
        self.name = given.resolve().name
        self._unpacked = unpacked(given) if given.is_file() else None
        self.path = given if self._unpacked is None else Path(self._unpacked.name)
        for tried in range(_TRIES):
            try:
                self._open()
                digest = proven(self.path, self.path / MANIFEST, self.table_path, self.manifest["rows"])
                break
            except Replaced:
                if tried == _TRIES - 1:
                    raise
            except FileNotFoundError:  # a writer replaced the tables after the manifest was read
                if tried == _TRIES - 1 or (tried and self._read_manifest() == self.manifest):
                    raise NotADataset(f"{self.name}: damaged, tables are missing; {AGAIN}") from None
                time.sleep(0.01)
        self.key = digest[:12]
        size = sum(self.table_path(name).stat().st_size for name in TABLES)
        self.caches = Caches(self.path, seal("caches", CACHE_LAYOUT, tool_version(), digest), size)

    def _open(self) -> None:
        self.manifest = self._read_manifest()
        self.tables = inside(self.path, self.manifest["tables"])
        self._lease = Lease(self.tables)
        missing = [name for name in TABLES if not self.table_path(name).is_file()]
        if missing:
            raise NotADataset(f"{self.name}: damaged, {', '.join(missing)} missing; {AGAIN}")

    def _read_manifest(self) -> dict[str, Any]:
        try:
            found = inside(self.path, MANIFEST).is_file()
            there = found or self.path.exists()
        except OSError as error:
            raise NotADataset(f"{self.name}: cannot be opened ({error.strerror})") from None
        if not found:
            what = "no manifest.json in it" if there else "no such folder"
            raise NotADataset(f"{self.name}: not a dataset ({what}). Make one with: tracetower ingest INPUT -o DATASET")
        return read_manifest(self.path / MANIFEST, self.name)

    def table_path(self, name: str) -> Path:
        """The Parquet file of a table."""
        return inside(self.tables, f"{name}.parquet")

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

    def private_file(self, name: str) -> Path:
        """A file that never leaves the machine; it need not be there.

        Raises:
            NotADataset: where the dataset came without private files.
        """
        generation = self.manifest["private"]
        if generation is None:
            raise NotADataset(f"{self.name}: it came without private/, so nothing can be appended to it")
        return inside(self.path, PRIVATE, generation, name)


def is_dataset(path: Path) -> bool:
    """Whether `path` is the folder or the bundle of a dataset, which may still be damaged."""
    if path.is_file():
        return is_bundle(path)
    if not (path / MANIFEST).is_file():
        return False
    return any(path.glob("tables-*/requests.parquet")) or (path / "tables" / "requests.parquet").is_file()
