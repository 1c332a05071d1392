"""Files that appear whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO

from analysis.store.question import BadQuestion


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write beside `path`; it takes the name of `path` once all of it is written.

    Raises:
        BadQuestion: where `path` is a folder.
    """
    if path.is_dir():
        raise BadQuestion(f"{path} is a folder: this target is one file, name it with -o")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with part.open("wb", buffering=1 << 20) as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill beside `path`; it takes the name of `path` once it is full.

    Raises:
        BadQuestion: where `path` is there already and not an empty folder.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise BadQuestion(f"{path} exists: this target is a new folder, name another one or remove it")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{token_hex(4)}")
    part.mkdir()
    try:
        yield part
        if path.exists():
            path.rmdir()
        part.rename(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def milliseconds(seconds: float | None) -> int | float | None:
    """Seconds as milliseconds, exact to the microsecond; whole where they are."""
    if seconds is None:
        return None
    micros = round(seconds * 1e6)
    return micros // 1000 if micros % 1000 == 0 else micros / 1000
