"""Inputs as streams: files, folders, .gz, .zst, .zip and stdin, read in bounded memory and never trusted.

An archive is never unpacked to where its names point; links, climbing paths and bombs are refused with a reason.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast

import orjson
import xxhash
import zstandard

CHUNK_BYTES = 1 << 22
LINE_BUFFER_BYTES = 1 << 18
MAX_LINE_BYTES = 256 << 20
MAX_DOCUMENT_BYTES = 1 << 30
HEAD_BYTES = 1 << 16
MAX_NESTING = 4
SKIP_NAMES = {".DS_Store", "Thumbs.db", "__MACOSX"}


class TooLarge(ValueError):
    """A document that has to be held whole is larger than `MAX_DOCUMENT_BYTES`."""


class Limits(NamedTuple):
    """What an archive may hold. `ratio`: unpacked to packed bytes, looked at above 64 MiB unpacked."""

    total_bytes: int = 1 << 40
    entries: int = 200_000
    ratio: float = 1000.0


UPLOAD_LIMITS = Limits(total_bytes=8 << 30, entries=20_000, ratio=300.0)


class Refused(NamedTuple):
    """An input that is not read, and why. `skipped` tells a file passed over in a folder from a failure."""

    name: str
    reason: str
    skipped: bool = False


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
        if self.first_line[:1] not in (b"{", b"["):
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

    def __init__(self, name: str, path: Path | None = None, archive: _Archive | None = None, entry: str = "") -> None:
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
        self.truncated = False  # a compressed stream that ended early or was damaged

    @property
    def size(self) -> int:
        """Packed bytes on disk."""
        if self._archive is not None:
            return self._archive.file.getinfo(self._entry).file_size
        return cast(Path, self._path).stat().st_size

    def _raw(self) -> IO[bytes]:
        if self._archive is not None:
            raw = self._archive.file.open(self._entry)
        else:
            raw = cast(IO[bytes], cast(Path, self._path).open("rb", buffering=0))
        if self._hash_reads and self._hash is None:
            return cast(IO[bytes], _Hashed(raw, self._hashed))
        return raw

    def hash_while_reading(self) -> None:
        """Take the digest from the next whole read instead of a pass of its own."""
        self._hash_reads = True

    def _hashed(self, digest: str, size: int) -> None:
        if size == self.size:
            self._hash = digest

    def open(self) -> IO[bytes]:
        """A stream of the content, decompressed by what its first bytes are."""
        return _unpacked(self._raw(), self._cut)

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
            return Head(self, _read_exactly(stream, HEAD_BYTES))

    def document(self, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
        """The whole content, without a byte order mark.

        Raises:
            TooLarge: if it is larger than `limit` bytes.
        """
        with self.open() as stream:
            data = _read_exactly(stream, limit + 1)
        if len(data) > limit:
            raise TooLarge(f"a document of more than {limit >> 20} MiB cannot be held whole")
        self.bytes_read = len(data)
        return data[3:] if data.startswith(b"\xef\xbb\xbf") else data

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield (1-based number, line without its end); blank lines are b"", a line over `MAX_LINE_BYTES` is None."""
        with self.open() as stream:
            # lines are small beside the buffer, so the allocator reuses their memory instead of faulting in new pages
            readline = io.BufferedReader(cast(io.RawIOBase, stream), LINE_BUFFER_BYTES).readline
            number = 0
            while line := readline(MAX_LINE_BYTES + 1):
                number += 1
                self.bytes_read += len(line)
                if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                    line = line[3:]
                if line.endswith(b"\n"):
                    yield number, line[:-2] if line.endswith(b"\r\n") else line[:-1]
                elif len(line) > MAX_LINE_BYTES:
                    while rest := readline(CHUNK_BYTES):
                        self.bytes_read += len(rest)
                        if rest.endswith(b"\n"):
                            break
                    yield number, None
                else:
                    yield number, line.removesuffix(b"\r")

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


class _Hashed(io.RawIOBase):
    """A stream that digests what passes, and tells when it has all passed."""

    def __init__(self, inner: IO[bytes], tell: Callable[[str, int], None]) -> None:
        self._inner, self._tell = inner, tell
        self._state = xxhash.xxh3_128()
        self._size = 0
        self._whole = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._inner.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset == 0 and whence == 0:
            self._state.reset()
            self._size = 0
        else:
            self._whole = False
        return self._inner.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        data = self._inner.read(size)
        if data:
            self._state.update(data)
            self._size += len(data)
        elif self._whole:
            self._tell(self._state.hexdigest(), self._size)
        return data

    def readinto(self, buffer: Any) -> int:
        return _fill(self, buffer)

    def close(self) -> None:
        self._inner.close()
        super().close()


def _fill(stream: io.RawIOBase, buffer: Any) -> int:
    """`readinto` in terms of `read`."""
    data = stream.read(len(buffer)) or b""
    buffer[: len(data)] = data
    return len(data)


class _Unpacked(io.RawIOBase):
    """A decompressor that closes what it reads from and ends quietly at a cut tail (the reader sees a cut line)."""

    def __init__(self, inner: IO[bytes], raw: IO[bytes], cut: Callable[[], None]) -> None:
        self._inner, self._raw, self._cut = inner, raw, cut

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            return self._inner.read(size)
        except (EOFError, zstandard.ZstdError, gzip.BadGzipFile, OSError, zipfile.BadZipFile, zlib.error):
            self._cut()
            return b""

    def readinto(self, buffer: Any) -> int:
        return _fill(self, buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _unpacked(raw: IO[bytes], cut: Callable[[], None]) -> IO[bytes]:
    magic = raw.read(4)
    if raw.seekable():
        raw.seek(0)
    else:
        raw = cast(IO[bytes], _Rest(magic, raw))
    if magic[:2] == b"\x1f\x8b":
        return cast(IO[bytes], _Unpacked(cast(IO[bytes], gzip.GzipFile(fileobj=raw)), raw, cut))
    if magic == b"\x28\xb5\x2f\xfd":
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw, read_across_frames=True)
        return cast(IO[bytes], _Unpacked(cast(IO[bytes], reader), raw, cut))
    return raw


class _Rest(io.RawIOBase):
    """A stream whose first bytes were already taken."""

    def __init__(self, start: bytes, inner: IO[bytes]) -> None:
        self._start, self._inner = start, inner

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._start:
            taken, self._start = self._start, b""
            return taken + (self._inner.read(max(0, size - len(taken))) if size >= 0 else self._inner.read())
        return self._inner.read(size)

    def readinto(self, buffer: Any) -> int:
        return _fill(self, buffer)

    def close(self) -> None:
        self._inner.close()
        super().close()


def _read_exactly(stream: IO[bytes], size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (chunk := stream.read(min(size, CHUNK_BYTES))):
        parts.append(chunk)
        size -= len(chunk)
    return b"".join(parts)


class _Archive:
    def __init__(self, stream: IO[bytes] | Path) -> None:
        self.file = zipfile.ZipFile(stream)


def expand(inputs: list[str], limits: Limits | None = None, spool: Path | None = None) -> Iterator[Source | Refused]:
    """Yield the files behind `inputs` (paths, folders, zips, or "-" for stdin), sorted by name inside each.

    Args:
        inputs: what the user named.
        limits: what archives may hold.
        spool: where stdin is kept while it is read (a temporary file otherwise).
    """
    limits = limits or Limits()
    for text in inputs:
        if text == "-":
            yield _stdin(spool)
            continue
        path = Path(text)
        if not path.exists():
            yield Refused(text, "no such file or folder")
        elif path.is_dir():
            yield from _folder(path, limits)
        else:
            yield from _file(path.name, path, limits, 0)


def _stdin(spool: Path | None) -> Source:
    handle, name = tempfile.mkstemp(prefix="stdin-", dir=spool)
    with os.fdopen(handle, "wb") as out:
        shutil.copyfileobj(sys.stdin.buffer, out, CHUNK_BYTES)
    source = Source("-", Path(name))
    source._temporary = Path(name)
    return source


def _folder(root: Path, limits: Limits) -> Iterator[Source | Refused]:
    found: list[Source | Refused] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIP_NAMES and not (Path(folder) / f).is_symlink())
        for name in sorted(files):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if name in SKIP_NAMES:
                continue
            if path.is_symlink():
                found.append(Refused(relative, "a symbolic link is not followed", skipped=True))
            elif not stat.S_ISREG(path.stat().st_mode):
                found.append(Refused(relative, "not a regular file", skipped=True))
            else:
                found.extend(_file(relative, path, limits, 0))
    yield from _grouped(found)


def _grouped(found: list[Source | Refused]) -> Iterator[Source | Refused]:
    found.sort(key=lambda s: s.name)
    group = {s.name: s for s in found if isinstance(s, Source)}
    for source in found:
        if isinstance(source, Source) and not source._group:
            source._group = group
        yield source


def _file(name: str, path: Path, limits: Limits, depth: int) -> Iterator[Source | Refused]:
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic == b"PK\x03\x04" and path.suffix.lower() not in (".eval", ".xlsx", ".docx", ".npz", ".whl", ".jar"):
        try:
            archive = _Archive(path)
        except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
            yield Refused(name, f"a zip that cannot be read: {type(error).__name__}")
            return
        yield from _grouped(list(_entries(name, archive, limits, depth)))
    else:
        yield Source(name, path)


def _entries(name: str, archive: _Archive, limits: Limits, depth: int) -> Iterator[Source | Refused]:
    infos = archive.file.infolist()
    unpacked = sum(i.file_size for i in infos)
    packed = max(1, sum(i.compress_size for i in infos))
    if len(infos) > limits.entries:
        yield Refused(name, f"a zip of {len(infos):,} entries; at most {limits.entries:,} are read")
        return
    if unpacked > limits.total_bytes or (unpacked > 64 << 20 and unpacked / packed > limits.ratio):
        yield Refused(name, f"a zip that unpacks to {unpacked:,} bytes from {packed:,}: refused as a zip bomb")
        return
    for info in infos:
        if info.is_dir() or PurePosixPath(info.filename).name in SKIP_NAMES or "__MACOSX/" in info.filename:
            continue
        label = f"{name}/{info.filename}"
        parts = PurePosixPath(info.filename.replace("\\", "/")).parts
        if info.filename.startswith("/") or ".." in parts or re.match(r"^[A-Za-z]:", info.filename):
            yield Refused(label, "a path that climbs out of its archive")
        elif stat.S_ISLNK(info.external_attr >> 16):
            yield Refused(label, "a symbolic link in an archive")
        elif info.flag_bits & 1:
            yield Refused(label, "an encrypted entry; unpack it first")
        elif info.filename.lower().endswith(".zip"):
            yield from _nested(label, archive, info, limits, depth + 1)
        else:
            yield Source(label, archive=archive, entry=info.filename)


def _nested(
    name: str, archive: _Archive, info: zipfile.ZipInfo, limits: Limits, depth: int
) -> Iterator[Source | Refused]:
    if depth > MAX_NESTING:
        yield Refused(name, f"zips nested more than {MAX_NESTING} deep")
        return
    spool: IO[bytes] = cast(IO[bytes], tempfile.SpooledTemporaryFile(max_size=64 << 20))  # noqa: SIM115 (outlives this)
    try:
        with archive.file.open(info) as inner:
            shutil.copyfileobj(inner, spool, CHUNK_BYTES)
        spool.seek(0)
        yield from _entries(name, _Archive(spool), limits, depth)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        yield Refused(name, f"a zip that cannot be read: {type(error).__name__}")
