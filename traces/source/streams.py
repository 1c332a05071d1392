"""Byte streams: digested while they pass, and text in UTF-8 whatever its byte order mark says."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterable
from typing import IO, Any, cast

import xxhash

from traces.source.limits import CHUNK_BYTES

_AT_ONCE_BYTES = 1 << 16
_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Hashed(io.RawIOBase):
    """A stream that digests what passes, and reports digest and size when it has all passed."""

    def __init__(self, inner: IO[bytes], report: Callable[[str, int], None]) -> None:
        self._inner, self._report = inner, report
        self._state = xxhash.xxh3_128()
        self._size = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes into a buffer, digested where they lie."""
        size = self._inner.readinto(buffer)  # type: ignore[attr-defined]  # raw files and packed streams have it
        if size:
            self._state.update(memoryview(buffer)[:size])
            self._size += size
        else:
            self._report(self._state.hexdigest(), self._size)
        return int(size or 0)

    def close(self) -> None:
        """Close what it reads from."""
        self._inner.close()
        super().close()


def digest_of(streams: Iterable[IO[bytes]]) -> tuple[str, int]:
    """(digest in hex, bytes) of streams, one after the other, as `Hashed` reports of one. Closes them."""
    state, size = xxhash.xxh3_128(), 0
    for stream in streams:
        with stream:
            while chunk := stream.read(CHUNK_BYTES):
                state.update(chunk)
                size += len(chunk)
    return state.hexdigest(), size


def as_utf8(raw: IO[bytes], marked: Callable[[str], None]) -> IO[bytes]:
    """`raw` without its byte order mark, and in UTF-8 if the mark says UTF-16; `marked` gets that encoding's name."""
    start = first_bytes(raw, 4)
    if start.startswith(codecs.BOM_UTF8):
        return cast(IO[bytes], Rest(start[3:], raw))
    for mark, encoding in _MARKS:
        if start.startswith(mark) and start != codecs.BOM_UTF32_LE:
            marked("UTF-16")
            return cast(IO[bytes], _Recoded(cast(IO[bytes], Rest(start[2:], raw)), encoding))
    return cast(IO[bytes], Rest(start, raw))


def first_bytes(raw: IO[bytes], size: int) -> bytes:
    """The first `size` bytes of a stream, or what there is of them."""
    data = b""
    while len(data) < size and (more := raw.read(size - len(data))):
        data += more
    return data


class _Recoded(io.RawIOBase):
    """Text in another encoding as UTF-8; what is no text becomes U+FFFD."""

    def __init__(self, raw: IO[bytes], encoding: str) -> None:
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._waiting = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting:
            data = self._raw.read(_AT_ONCE_BYTES)
            self._waiting = self._decoder.decode(data or b"", final=not data).encode("utf-8", "replace")
            if not data:
                break
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


class Rest(io.RawIOBase):
    """A stream whose first bytes were already taken."""

    def __init__(self, start: bytes, inner: IO[bytes]) -> None:
        self._start, self._inner = start, inner

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes, those that were taken first."""
        if self._start:
            size = min(len(buffer), len(self._start))
            buffer[:size], self._start = self._start[:size], self._start[size:]
            return size
        return int(self._inner.readinto(buffer) or 0)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close what it reads from."""
        self._inner.close()
        super().close()


class Slice(io.RawIOBase):
    """A part of a file. Several slices of one file may be read in turn."""

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        self._stream, self._start, self._at, self._end = stream, start, start, start + size

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place that counts from the start of the part (0), from where it is (1) or from its end (2)."""
        place = offset + (self._start, self._at, self._end)[whence]
        if place < self._start:
            raise ValueError("a place before the start")
        self._at = place
        return place - self._start

    def readinto(self, buffer: Any) -> int:
        """The next bytes of the part."""
        size = min(len(buffer), self._end - self._at)
        if size <= 0:
            return 0
        self._stream.seek(self._at)
        data = self._stream.read(size)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """The next `size` bytes, or what there is of them."""
    parts: list[bytes] = []
    while size > 0 and (chunk := stream.read(min(size, CHUNK_BYTES))):
        parts.append(chunk)
        size -= len(chunk)
    return b"".join(parts)
