"""Output files that appear complete or not at all, and rows as JSON Lines and CSV."""

from __future__ import annotations

import codecs
import csv
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import orjson

from analysis.store.question import BadQuestion

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path`, renamed to `path` once it is complete.

    Raises:
        BadQuestion: `path` is a folder.
    """
    if path.is_dir():
        raise BadQuestion(f"{path} is a folder: this target writes one file: name a file in it")
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
    """A temporary folder beside `path`, renamed to `path` once it is complete.

    Raises:
        BadQuestion: `path` exists and is not an empty folder.
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


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> int:
    """Write one JSON object per line, leaving out unknown values (None). Returns the number of lines."""
    count = 0
    with new_file(path) as file:
        for record in records:
            file.write(orjson.dumps(known(record), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE))
            count += 1
    return count


def known(record: dict[str, Any]) -> dict[str, Any]:
    """The record without its unknown values."""
    return {name: value for name, value in record.items() if value is not None}


def write_csv(path: Path, rows: Iterable[tuple[Any, ...]]) -> int:
    """Write a header and rows as CSV. Returns the number of rows without the header.

    Text that a spreadsheet would run as a formula gets a leading apostrophe.
    """
    count = -1
    with new_file(path) as file:
        writer = csv.writer(codecs.getwriter("utf-8")(file), lineterminator="\n")
        for row in rows:
            writer.writerow([plain_cell(cell) if isinstance(cell, str) else cell for cell in row])
            count += 1
    return count


def plain_cell(text: str) -> str:
    """A CSV cell that no spreadsheet reads as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def milliseconds(seconds: float | None) -> int | float | None:
    """Seconds as milliseconds, exact to the microsecond; an int if the value is whole."""
    if seconds is None:
        return None
    micros = round(seconds * 1e6)
    return micros // 1000 if micros % 1000 == 0 else micros / 1000
