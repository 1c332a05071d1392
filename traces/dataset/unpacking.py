"""A zip of a dataset, unpacked into a private folder: only the files a dataset has, within limits."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

from traces.dataset.locks import Lease, unread
from traces.dataset.manifest import AGAIN, MOST_BYTES, checked_manifest
from traces.dataset.paths import NotADataset, remove
from traces.schema import TABLES

MOST_UNPACKED_BYTES, MOST_ENTRIES, MOST_RATIO = 8 << 30, 100_000, 1000
_CHUNK = 1 << 20
_BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, KeyError, TypeError, ValueError)
_MANIFEST = "manifest.json"
_PREFIX = "tracetower-bundle-"


class _Folder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that is leased as long as it is used, so that another process sees whether it is left over."""

    def __init__(self) -> None:
        super().__init__(prefix=_PREFIX, ignore_cleanup_errors=True)
        self.lease = Lease(Path(self.name))


def _leased_folder() -> _Folder:
    while True:
        with contextlib.suppress(FileNotFoundError):  # taken for a leftover before its lease: make another
            return _Folder()


def _remove_leftovers(own: Path) -> None:
    """Delete the folders of killed processes of this user; nothing where locks do not work, never through a link."""
    with unread(own) as without_locks:
        if without_locks:
            return
    for path in own.parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                with unread(path) as left_over:
                    if left_over:
                        remove(path)


def is_bundle(path: Path) -> bool:
    """Whether the file at `path` is a zip of a dataset and of nothing else."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04":
                return False
        with zipfile.ZipFile(path) as archive:
            return _top(archive) is not None
    except _BROKEN:
        return False


def _top(archive: zipfile.ZipFile) -> str | None:
    """The folder in the zip that is the dataset ("" for a bundle); None where there is more, or none."""
    names = archive.namelist()
    if len(names) > MOST_ENTRIES:
        return None
    manifests = [name for name in names if name.count("/") < 2 and f"/{name}".endswith(f"/{_MANIFEST}")]
    if len(set(manifests)) != 1:
        return None
    top = manifests[0].removesuffix(_MANIFEST)
    if not all(name.startswith((top, "__MACOSX/")) for name in names):
        return None
    inner = [name.removeprefix(top) for name in names]
    return top if any(name.startswith("tables") and name.endswith("/requests.parquet") for name in inner) else None


def unpacked(path: Path) -> tempfile.TemporaryDirectory[str]:
    """A private folder with the dataset in the zip `path`; it is removed with the object, or at exit.

    Raises:
        NotADataset: as `unpack`.
    """
    if not is_bundle(path):
        raise NotADataset(
            f"{path.name}: a file that is no dataset's bundle. Make a dataset of it with: "
            f"tracetower ingest {path.name} -o DATASET"
        )
    folder = _leased_folder()
    try:
        _remove_leftovers(Path(folder.name))
        unpack(path, Path(folder.name))
    except OSError as error:
        folder.cleanup()
        raise NotADataset(f"{path.name}: cannot be unpacked into {folder.name} ({error.strerror})") from None
    except BaseException:
        folder.cleanup()
        raise
    return folder


def unpack(path: Path, folder: Path) -> None:
    """Unpack manifest and tables of the zip `path` into `folder`; private/ and cache/ are left behind.

    Raises:
        NotADataset: if the zip holds no dataset, is damaged, or unpacks to more than a dataset may.
        OSError: if `folder` cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(path) as archive:
            top = _top(archive)
            if top is None:
                raise NotADataset(f"{path.name}: not a bundle: it does not hold one manifest and the tables")
            manifest = _manifest(archive, top, path.name)
            wanted = {f"{top}{manifest['tables']}/{name}.parquet": f"{name}.parquet" for name in TABLES}
            infos = [info for info in archive.infolist() if info.filename in wanted]
            if sorted(info.filename for info in infos) != sorted(wanted):
                raise NotADataset(f"{path.name}: not a bundle: it does not hold every table exactly once; {AGAIN}")
            _check_sizes(path, infos)
            tables = folder / manifest["tables"]
            tables.mkdir()
            for info in infos:
                _copy(archive, info, tables / wanted[info.filename])
    except _BROKEN as error:
        if isinstance(error, NotADataset) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise NotADataset(f"{path.name}: not a bundle, or a damaged one ({type(error).__name__}); {AGAIN}") from None
    (folder / _MANIFEST).write_text(json.dumps(manifest | {"private": None, "bundle": True}), "utf-8")


def _manifest(archive: zipfile.ZipFile, top: str, name: str) -> dict[str, Any]:
    info = archive.getinfo(top + _MANIFEST)
    with archive.open(info) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise NotADataset(f"{name}: its manifest.json has more than {MOST_BYTES >> 20} MiB; {AGAIN}")
    return checked_manifest(content, name)


def _check_sizes(path: Path, infos: list[zipfile.ZipInfo]) -> None:
    size = sum(info.file_size for info in infos)
    if size > min(MOST_UNPACKED_BYTES, path.stat().st_size * MOST_RATIO):
        raise NotADataset(f"{path.name}: it unpacks to {size:,} bytes, which is more than a bundle may hold")
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if size > free:
        raise NotADataset(f"{path.name}: it unpacks to {size:,} bytes and {free:,} are free")


def _copy(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> None:
    """Copy one entry, and no more bytes than it claims."""
    left = info.file_size
    with archive.open(info) as inner, target.open("xb") as out:
        while chunk := inner.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise zipfile.BadZipFile("an entry is longer than it says")
            out.write(chunk)
