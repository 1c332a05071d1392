"""One input file: its records as lines, its document, a local copy; read in bounded memory."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import IO, cast

import xxhash

from traces.source import limits
from traces.source.containers import Shape, shape_of, values
from traces.source.head import Head
from traces.source.json_values import TooLarge, parse_json
from traces.source.limits import CHUNK_BYTES, HEAD_BYTES, LINE_BUFFER_BYTES, Limits
from traces.source.packed import Damage, Entry, is_packed, unpacked
from traces.source.parquet import Row, parquet_lines, parquet_rows
from traces.source.streams import Hashed, as_utf8, digest_of, read_exactly

__all__ = ["Head", "Source", "TooLarge", "parse_json"]

HEARD_EVERY_BYTES = 4 << 20
_BLANK_LINES = 64
"""After so many blank lines in a row, the next are passed over at once."""
_MARKED = "an input in {} was read, as its byte order mark says"
_BLANK = re.compile(rb"[ \t\r\n]*+")


class Source:
    """One input file. `name` is private: it is relative to what the user named and goes nowhere but private/.

    Whatever packs and arranges the records (gzip, zstd, bzip2, xz, a zip's entry, UTF-16; lines, an array,
    pretty-printed documents, an API's page, Parquet), `lines` yields them one a line.
    """

    def __init__(
        self,
        name: str,
        path: Path | None = None,
        entry: Entry | None = None,
        limits: Limits | None = None,
        spooled: bool = False,
    ) -> None:
        self.name = name
        self.limits = limits or Limits()
        self.beside: dict[str, Source] = {}  # "-wal", "-journal": parts of a database that lie beside it
        self._path, self._entry, self._spooled = path, entry, spooled
        self._group: Mapping[str, Source] = {}
        self._claims: set[str] = set()
        self._content: tuple[str, int] | None = None  # digest and size, once it was read
        self._scratch: Path | None = None
        self.bytes_read = self.in_hand = 0  # in_hand: number of the line that was handed out last
        self.left_out: set[int] = set()  # lines that the reader failed on, which are not handed out again
        self.heard: Callable[[], None] | None = None  # called now and then while lines are read
        self.damage: Damage | None = None  # why a packed stream ended early
        self.remarks: set[str] = set()  # what the receipt says about how the content was read
        self.size = entry.size if entry is not None else cast(Path, path).stat().st_size

    @property
    def plain_path(self) -> Path | None:
        """The file on disk that this input is, or None where it lies in an archive or came from a pipe."""
        return None if self._spooled else self._path

    def _raw(self) -> IO[bytes]:
        if self._entry is not None:
            return self._entry.open(self.limits, self._damaged)
        return cast(IO[bytes], cast(Path, self._path).open("rb", buffering=0))

    def _hashed(self, digest: str, size: int) -> None:
        if not self.wal:
            self._content = digest, size

    def _damaged(self, damage: Damage) -> None:
        self.damage = self.damage or damage

    def open(self) -> IO[bytes]:
        """A stream of the content: unpacked by what its first bytes are, and text in UTF-8 without its mark."""
        content = self._plain()
        return content if self._content is not None else cast(IO[bytes], Hashed(content, self._hashed))

    def _plain(self) -> IO[bytes]:
        content = unpacked(self._raw(), self.limits, self._damaged)
        return as_utf8(content, lambda encoding: self.remarks.add(_MARKED.format(encoding)))

    def digest(self) -> bytes:
        """A fast 128-bit digest of the content, unpacked and in UTF-8 (to be keyed before it is kept anywhere).

        Whoever reads the content to its end has taken it; else it costs a pass of its own.
        """
        return bytes.fromhex(self._measured()[0])

    @property
    def content_bytes(self) -> int:
        """Bytes of the content, unpacked and in UTF-8."""
        return self._measured()[1]

    def _measured(self) -> tuple[str, int]:
        if self._content is None:
            self._content = digest_of(part._plain() for part in (self, self.wal) if part is not None)
        return self._content

    def digests_at(self, sizes: Iterable[int]) -> dict[int, bytes]:
        """Size -> the digest of that many first bytes of the content, for those of `sizes` that it has."""
        state, at, found = xxhash.xxh3_128(), 0, {}
        with self._plain() as content:
            for size in sorted(set(sizes)):
                while at < size and (chunk := content.read(min(size - at, CHUNK_BYTES))):
                    state.update(chunk)
                    at += len(chunk)
                if at == size:
                    found[size] = state.digest()
        return found

    @property
    def wal(self) -> Source | None:
        """The write-ahead log of a SQLite database, in the input or beside the file on disk, if it holds anything."""
        if "-wal" not in self.beside and self.plain_path is not None:
            path = self.plain_path.with_name(self.plain_path.name + "-wal")
            if path.is_file() and not path.is_symlink():
                self.beside["-wal"] = Source(self.name + "-wal", path, limits=self.limits)
        wal = self.beside.get("-wal")
        return wal if wal is not None and wal.size else None

    @cached_property
    def start(self) -> bytes:
        """The first bytes of the content, held until it is read or `let_go`."""
        with self.open() as stream:
            return read_exactly(stream, HEAD_BYTES)

    @cached_property
    def opening(self) -> bytes:
        """The first bytes from the first that is not blank, held like `start`."""
        if len(self.start) < HEAD_BYTES or not self.start.isspace():
            return self.start
        with self.open() as stream:
            while (chunk := stream.read(CHUNK_BYTES)).isspace():
                pass
            return (chunk.lstrip() + read_exactly(stream, HEAD_BYTES))[:HEAD_BYTES]

    def let_go(self) -> None:
        """Hold the first bytes no longer: there may be many files."""
        for name in ("start", "opening"):
            self.__dict__.pop(name, None)

    def head(self) -> Head:
        """The first bytes and records, for recognising the format."""
        return Head(self, self.opening, self.shape)

    @cached_property
    def shape(self) -> Shape:
        """How the file arranges its records."""
        return shape_of(self.opening)

    def document(self, limit: int = limits.MAX_DOCUMENT_BYTES) -> bytes:
        """The whole content.

        Raises:
            TooLarge: if it is larger than `limit` bytes.
        """
        self.let_go()
        with self.open() as stream:
            data = read_exactly(stream, limit + 1)
        if len(data) > limit:
            raise TooLarge(f"a document of more than {limit >> 20} MiB cannot be held whole")
        self.bytes_read = len(data)
        return data

    def lines(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield (1-based number, line without its end): a record, where the file is JSON in any arrangement.

        A line over `MAX_LINE_BYTES` is None. Long runs of blank lines are passed over. The number is
        the line's or, in an array, a page, documents and Parquet, the record's.
        """
        lines = {"text": self._text_lines, "parquet": self._parquet_lines}.get(self.shape.kind, self._values)()
        self.let_go()
        return (line for line in lines if line[0] not in self.left_out) if self.left_out else lines

    def _parquet_lines(self) -> Iterator[tuple[int, bytes | None]]:
        for number, line in parquet_lines(self.parquet_rows()):
            self.in_hand = number
            yield number, line

    def parquet_rows(self, names: list[str] | None = None) -> Iterator[Row]:
        """The rows of a Parquet file, of the columns `names` where they exist; None reads all."""
        for number, row in parquet_rows(self.local_path(), self.limits, self._damaged, names):
            self.in_hand = number
            yield number, row
        self.bytes_read = self.size

    def _values(self) -> Iterator[tuple[int, bytes | None]]:
        with self.open() as stream:
            heard_at = HEARD_EVERY_BYTES
            for number, value in enumerate(values(stream, self.shape), 1):
                self.in_hand = number
                self.bytes_read += limits.MAX_LINE_BYTES if value is None else len(value)
                if self.bytes_read >= heard_at and self.heard is not None:
                    heard_at = self.bytes_read + HEARD_EVERY_BYTES
                    self.heard()
                yield number, value

    def _text_lines(self) -> Iterator[tuple[int, bytes | None]]:
        most = limits.MAX_LINE_BYTES
        with self.open() as stream:
            # lines are small beside the buffer, so the allocator reuses their memory instead of faulting in new pages
            buffered = io.BufferedReader(cast(io.RawIOBase, stream), LINE_BUFFER_BYTES)
            readline = buffered.readline
            number, blanks, heard_at = 0, 0, HEARD_EVERY_BYTES
            while line := readline(most + 1):
                self.in_hand = number = number + 1
                self.bytes_read += len(line)
                if self.bytes_read >= heard_at and self.heard is not None:
                    heard_at = self.bytes_read + HEARD_EVERY_BYTES
                    self.heard()
                # the same name throughout: a line of 100 MB is not held twice while it is used
                if line.endswith(b"\n"):
                    line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
                    yield number, line
                    blanks = blanks + 1 if not line or line.isspace() else 0
                    if blanks >= _BLANK_LINES:
                        number += self._pass_blank_lines(buffered)
                elif len(line) > most:
                    while rest := readline(CHUNK_BYTES):
                        self.bytes_read += len(rest)
                        if rest.endswith(b"\n"):
                            break
                    yield number, None
                else:
                    line = line.removesuffix(b"\r")
                    yield number, line

    def _pass_blank_lines(self, buffered: io.BufferedReader[io.RawIOBase]) -> int:
        ahead = buffered.peek()
        size = ahead.rfind(b"\n", 0, _BLANK.match(ahead).end()) + 1  # type: ignore[union-attr]  # it can match nothing
        self.bytes_read += size
        return buffered.read(size).count(b"\n")

    def scratch(self) -> Path:
        """A private folder for copies of this input; `close` removes it."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="tracetower-"))
        return self._scratch

    def local_path(self) -> Path:
        """A file on disk with the unpacked content (for Parquet, SQLite and archives of a format's own)."""
        if self._path is not None:
            with self._path.open("rb") as stream:
                if not is_packed(stream.read(8)):
                    return self._path
        copy = self.scratch() / "content"
        if not copy.exists():
            self.copy_to(copy)
        return copy

    def copy_to(self, path: Path) -> None:
        """Write the unpacked bytes to `path`, as they are."""
        with path.open("wb") as out, unpacked(self._raw(), self.limits, self._damaged) as stream:
            shutil.copyfileobj(stream, out, CHUNK_BYTES)

    def close(self) -> None:
        """Remove temporary copies, if any were made."""
        self.let_go()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
        if self._spooled and self._path is not None:
            self._path.unlink(missing_ok=True)

    def left_as(self, other: Source) -> None:
        """Take over how reading the same file in another process went."""
        self.damage, self.remarks = other.damage, other.remarks
        self.bytes_read, self.in_hand = other.bytes_read, other.in_hand

    @property
    def siblings(self) -> Mapping[str, Source]:
        """The files of the same folder or archive by name, this one included."""
        return self._group

    def beside_in(self, group: Mapping[str, Source]) -> None:
        """Make `group` the files beside this one, unless it has some: an archive's entries know the archive's."""
        self._group = self._group or group

    def claim(self, name: str) -> None:
        """Say that this input's reader reads the sibling `name`, so that it is not an input of its own."""
        if name in self._group:
            self._claims.add(name)

    @property
    def claims(self) -> frozenset[str]:
        """The siblings that were claimed."""
        return frozenset(name for name in self._claims if self._group[name] is not self)
