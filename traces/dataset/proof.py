"""A record that a dataset's tables were checked, stored in its cache/ under this machine's seal: they are checked
once."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import time
from collections import OrderedDict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from traces.dataset.paths import NotADataset, inside, remove
from traces.dataset.seal import seal
from traces.dataset.table_checks import PathOf, check_tables
from traces.schema import TABLES

CHECKS = "1"
"""Of the checks in `table_checks`: change it when they refuse more than before."""
SETTLED_NS = 50_000_000
"""A file that changed less than this ago may change again without a new time."""
_proven: OrderedDict[tuple[object, ...], str] = OrderedDict()  # of this process
_MOST_PROVEN = 256

Status = tuple[str, int, int, int, int]


class _Kept(msgspec.Struct):
    files: list[Status]
    digest: str
    seal: str


class Replaced(NotADataset):
    """A writer replaced the tables while they were checked: opened anew, the dataset is whole."""


def tool_version() -> str:
    """The installed version."""
    try:
        return version("tracetower")
    except PackageNotFoundError:
        return "0"


def proven(dataset: Path, manifest: Path, path_of: PathOf, rows: dict[str, int]) -> str:
    """Check the tables unless that was done, and return the digest of manifest and tables (64 hex digits).

    Raises:
        Replaced: where a writer replaced the tables meanwhile.
        NotADataset: where a table is not as declared (`traces.dataset.table_checks`).
    """
    paths = [manifest, *map(path_of, TABLES)]
    status = [_status(path) for path in paths]
    known = (str(dataset), *status)
    if known in _proven:
        _proven.move_to_end(known)
        return _proven[known]
    kept = _kept(dataset, status)
    if kept is None:
        digest = _digest(paths)
        mark = f"{seal('checked', CHECKS, digest)}.checked"
        if not _exists(dataset, mark):
            check_tables(path_of, rows)
            if [_status(path) for path in paths] != status:
                raise Replaced(f"{dataset.name}: its tables were replaced while they were read; try again")
            _keep(dataset, mark, b"")
        if all(changed < time.time_ns() - SETTLED_NS for _, _, _, changed, _ in status):
            kept = _Kept(status, digest, _sealed(status, digest))
            _keep(dataset, _stamp(), msgspec.json.encode(kept))
    else:
        digest = kept.digest
    _proven[known] = digest
    while len(_proven) > _MOST_PROVEN:
        _proven.popitem(last=False)
    return digest


def _status(path: Path) -> Status:
    found = path.lstat()
    return path.name, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def _digest(paths: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _sealed(status: list[Status], digest: str) -> str:
    return seal("files", CHECKS, repr(status), digest)


def _stamp() -> str:
    return f"files-{seal('stamp')[:8]}.json"


def _kept(dataset: Path, status: list[Status]) -> _Kept | None:
    """The proof for files that have not changed since."""
    try:
        path = inside(dataset, "cache", _stamp())
        if path.stat().st_size > 1 << 16:
            return None
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (OSError, NotADataset, msgspec.MsgspecError, ValueError):
        return None
    return kept if kept.files == status and kept.seal == _sealed(status, kept.digest) else None


def _exists(dataset: Path, name: str) -> bool:
    with contextlib.suppress(NotADataset):
        return inside(dataset, "cache", name).is_file()
    return False


def _keep(dataset: Path, name: str, content: bytes) -> None:
    """Keep a proof; a folder that cannot be written only means that the check is repeated."""
    with contextlib.suppress(OSError, NotADataset):
        path = inside(dataset, "cache", name)
        path.parent.mkdir(exist_ok=True)
        part = path.with_name(f".{secrets.token_hex(8)}")
        try:
            part.write_bytes(content)
            part.replace(path)
        finally:
            remove(part)
