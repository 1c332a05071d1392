"""The one place that joins paths inside a dataset: they stay inside it and follow no link."""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
from pathlib import Path

_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,120}")
LONGEST_NAME_BYTES = 255


class NotADataset(ValueError):
    """The path holds no dataset that can be opened; the message says what to do."""


def inside(folder: Path, *names: str) -> Path:
    """The path of `names` below `folder`, which need not exist.

    Raises:
        NotADataset: for a name that could lead elsewhere, and for a link.
    """
    path = folder
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise NotADataset(f"{folder.name}: {name!r:.60} is no name of a file in a dataset")
        path = path / name
        try:
            linked = stat.S_ISLNK(path.lstat().st_mode)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise NotADataset(f"{folder.name}: {name} cannot be read ({error.strerror})") from None
        if linked:
            raise NotADataset(f"{folder.name}: {name} is a link; links inside a dataset are not followed")
    return path


def beside(path: Path, purpose: str) -> Path:
    """A hidden neighbour of `path` for our own use, which fits into the file system's limit for names."""
    name = f".{path.name}.{purpose}"
    if len(name.encode("utf-8", "surrogateescape")) > LONGEST_NAME_BYTES:
        short = hashlib.blake2b(path.name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        name = f".{short}.{purpose}"
    return path.with_name(name)


def remove(path: Path) -> None:
    """Delete a file, a link itself or a folder of ours; what cannot be deleted stays."""
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    except OSError:
        return
