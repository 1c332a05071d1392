"""One input file: its lines, its document, its head, read in bounded memory."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

import orjson
import xxhash

from traces.source.streams import CHUNK_BYTES, Hashed, read_exactly, unpacked

LINE_BUFFER_BYTES = 1 << 18
MAX_LINE_BYTES = 256 << 20
MAX_DOCUMENT_BYTES = 1 << 30
HEAD_BYTES = 1 << 16
TOLD_EVERY_BYTES = 4 << 20


class TooLarge(ValueError):
    """A document that has to be held whole is larger than `MAX_DOCUMENT_BYTES`."""


def parse_json(line: bytes) -> Any:
    """Return the JSON value of `line`; lone surrogates become U+FFFD, NaN and Infinity are errors.

    Raises:
        ValueError: with a short reason that never quotes the content.
    """
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if b"\\u" in line or re.search(rb"\d{19}", line):
            return _parse_slowly(line)
        at = f" at byte {error.pos}" if error.pos else ""
        raise ValueError(f"not valid JSON{at}: {_reason(error.msg)}") from None


def _reason(message: str) -> str:
    return re.sub(r":\s*line \d+.*$", "", message)[:60]


def _parse_slowly(line: bytes) -> Any:
    import json

    def refuse(_: str) -> None:
        raise ValueError("NaN or Infinity is not a JSON number")

    try:
        text = line.decode("utf-8", "replace")
        value = json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON at character {error.pos}: {error.msg[:60]}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return _whole(value)


def _whole(value: Any) -> Any:
    """Replace lone surrogates, which cannot be stored as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(v) for v in value]
    if isinstance(value, dict):
        return {_whole(k): _whole(v) for k, v in value.items()}
    return value


class Archive:
    """An open zip that sources are entries of."""

    def __init__(self, stream: IO[bytes] | Path) -> None:
        self.file = zipfile.ZipFile(stream)


class Head:
    """The start of an input, for telling its format."""

    def __init__(self, source: Source, data: bytes) -> None:
        self._source = source
        self.data = data[3:] if data.startswith(b"\xef\xbb\xbf") else data
        self.name = PurePosixPath(source.name).name
        self.suffix = PurePosixPath(_plain_name(self.name)).suffix.lower()

    @cached_property
    def first_line(self) -> bytes:
        """The first line that is not blank, as far as it lies in the head."""
        return next((line.strip() for line in self.data.split(b"\n") if line.strip()), b"")

    @cached_property
    def records(self) -> list[Any]:
        """The first JSON lines that parse (at most 20); the first line is read whole however long it is."""
        found: list[Any] = []
        lines = self._source.lines() if len(self.data) >= HEAD_BYTES else enumerate(self.data.split(b"\n"))
        early = [line for line in self.data.split(b"\n", 8) if line and not line.isspace()][:4]
        if not any(line.lstrip()[:1] in (b"{", b"[") for line in early):  # the first may be the end of a cut one
            return found
        for seen, (_, line) in enumerate(lines):
            if line and line.strip():
                try:
                    found.append(parse_json(line))
                except ValueError:
                    if not found and seen > 3:
                        break
            if len(found) >= 20 or seen >= 40:
                break
        return found

    @cached_property
    def record(self) -> Any:
        """The first JSON line, or None."""
        return self.records[0] if self.records else None

    @cached_property
    def document(self) -> Any:
        """The whole file as one JSON value where it is one and at most 64 MiB, else None."""
        if self.data.lstrip()[:1] not in (b"{", b"["):
            return None
        try:
            return parse_json(self._source.document(64 << 20))
        except ValueError:
            return None

    @property
    def source(self) -> Source:
        """The input itself, for what only its end tells (Parquet, SQLite)."""
        return self._source

    @property
    def siblings(self) -> Mapping[str, Source]:
        """The other files of the same folder or archive."""
        return self._source.siblings


def _plain_name(name: str) -> str:
    return re.sub(r"\.(gz|zst)$", "", name, flags=re.IGNORECASE)


class Source:
    """One input file. `name` is private: it is relative to what the user named and goes nowhere but private/."""

    def __init__(self, name: str, path: Path | None = None, archive: Archive | None = None, entry: str = "") -> None:
        self.name = name
        self._path = path
        self._archive = archive
        self._entry = entry
        self._group: dict[str, Source] = {}
        self._claims: set[str] = set()
        self._hash: str | None = None
        self._hash_reads = False
        self._temporary: Path | None = None
        self.bytes_read = 0
        self.heard: Callable[[], None] | None = None  # called now and then while lines are read
        self.truncated = False  # a compressed stream that ended early or was damaged

    @property
    def size(self) -> int:
        """Packed bytes on disk."""
        if self._archive is not None:
            return self._archive.file.getinfo(self._entry).file_size
        return cast(Path, self._path).stat().st_size

    @property
    def plain_path(self) -> Path | None:
        """The file on disk that this input is, or None where it lies in an archive or came from stdin."""
        return None if self._archive is not None or self.name == "-" else self._path

    def _raw(self) -> IO[bytes]:
        if self._archive is not None:
            raw = self._archive.file.open(self._entry)
        else:
            raw = cast(IO[bytes], cast(Path, self._path).open("rb", buffering=0))
        if self._hash_reads and self._hash is None:
            return cast(IO[bytes], Hashed(raw, self._hashed))
        return raw

    def hash_while_reading(self) -> None:
        """Take the digest from the next whole read instead of a pass of its own."""
        self._hash_reads = True

    def _hashed(self, digest: str, size: int) -> None:
        if size == self.size:
            self._hash = digest

    def open(self) -> IO[bytes]:
        """A stream of the content, decompressed by what its first bytes are."""
        return unpacked(self._raw(), self._cut)

    def _cut(self) -> None:
        self.truncated = True

    def digest(self) -> bytes:
        """A fast 128-bit digest of the stored bytes (to be keyed before it is kept anywhere)."""
        if self._hash is None:
            state = xxhash.xxh3_128()
            self._hash_reads = False
            with self._raw() as raw:
                while chunk := raw.read(CHUNK_BYTES):
                    state.update(chunk)
            self._hash = state.hexdigest()
        return bytes.fromhex(self._hash)

    def head(self) -> Head:
        """The first bytes, for telling the format."""
        with self.open() as stream:
            return Head(self, read_exactly(stream, HEAD_BYTES))

    def document(self, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
        """The whole content, without a byte order mark.

        Raises:
            TooLarge: if it is larger than `limit` bytes.
        """
        with self.open() as stream:
            data = read_exactly(stream, limit + 1)
        if len(data) > limit:
            raise TooLarge(f"a document of more than {limit >> 20} MiB cannot be held whole")
        self.bytes_read = len(data)
        return data[3:] if data.startswith(b"\xef\xbb\xbf") else data

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield (1-based number, line without its end); blank lines are b"", a line over `MAX_LINE_BYTES` is None."""
        with self.open() as stream:
            # lines are small beside the buffer, so the allocator reuses their memory instead of faulting in new pages
            readline = io.BufferedReader(cast(io.RawIOBase, stream), LINE_BUFFER_BYTES).readline
            number, told = 0, TOLD_EVERY_BYTES
            while line := readline(MAX_LINE_BYTES + 1):
                number += 1
                self.bytes_read += len(line)
                if self.bytes_read >= told and self.heard is not None:
                    told = self.bytes_read + TOLD_EVERY_BYTES
                    self.heard()
                if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                    line = line[3:]
                # the same name throughout: a line of 100 MB is not held twice while it is used
                if line.endswith(b"\n"):
                    line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
                    yield number, line
                elif len(line) > MAX_LINE_BYTES:
                    while rest := readline(CHUNK_BYTES):
                        self.bytes_read += len(rest)
                        if rest.endswith(b"\n"):
                            break
                    yield number, None
                else:
                    line = line.removesuffix(b"\r")
                    yield number, line

    def local_path(self) -> Path:
        """A file on disk with the decompressed content (for SQLite and Parquet)."""
        if self._path is not None and not re.search(r"\.(gz|zst)$", self._path.name, re.IGNORECASE):
            return self._path
        if self._temporary is None:
            handle, name = tempfile.mkstemp(prefix="tracetower-")
            self._temporary = Path(name)
            with os.fdopen(handle, "wb") as out, self.open() as stream:
                shutil.copyfileobj(stream, out, CHUNK_BYTES)
        return self._temporary

    def close(self) -> None:
        """Remove a temporary copy, if one was made."""
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None

    @property
    def siblings(self) -> Mapping[str, Source]:
        """The files of the same folder or archive by name, this one included."""
        return self._group

    def claim(self, name: str) -> None:
        """Say that this input's reader reads the sibling `name`, so that it is not an input of its own."""
        if name in self._group:
            self._claims.add(name)

    @property
    def claims(self) -> frozenset[str]:
        """The siblings that were claimed."""
        return frozenset(self._claims)
