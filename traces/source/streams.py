"""Byte streams: digested while they pass, decompressed, ending quietly where they are cut off."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, cast

import xxhash
import zstandard

CHUNK_BYTES = 1 << 22


class Hashed(io.RawIOBase):
    """A stream that digests what passes, and tells when it has all passed."""

    def __init__(self, inner: IO[bytes], tell: Callable[[str, int], None]) -> None:
        self._inner, self._tell = inner, tell
        self._state = xxhash.xxh3_128()
        self._size = 0
        self._whole = True

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """As what it reads from."""
        return self._inner.seekable()

    def seek(self, offset: int, whence: int = 0) -> int:
        """Back to the start: the digest starts again; anywhere else: there will be none."""
        if offset == 0 and whence == 0:
            self._state.reset()
            self._size = 0
        elif offset or whence != 1:  # else it is only asked where it is
            self._whole = False
        return self._inner.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        """The next bytes, digested."""
        data = self._inner.read(size)
        if data:
            self._state.update(data)
            self._size += len(data)
        elif self._whole:
            self._tell(self._state.hexdigest(), self._size)
        return data

    def readinto(self, buffer: Any) -> int:
        """The next bytes into a buffer, digested where they lie."""
        size = self._inner.readinto(buffer)  # type: ignore[attr-defined]  # raw files and zip entries have it
        if size:
            self._state.update(memoryview(buffer)[:size])
            self._size += size
        elif self._whole:
            self._tell(self._state.hexdigest(), self._size)
        return int(size or 0)

    def close(self) -> None:
        """Close what it reads from."""
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
        """Always."""
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


def unpacked(raw: IO[bytes], cut: Callable[[], None]) -> IO[bytes]:
    """`raw` decompressed by what its first bytes are (gzip, zstd, or as it is); `cut` is called at a damaged end."""
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
        """Always."""
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


def read_exactly(stream: IO[bytes], size: int) -> bytes:
    """The next `size` bytes, or what there is of them."""
    parts: list[bytes] = []
    while size > 0 and (chunk := stream.read(min(size, CHUNK_BYTES))):
        parts.append(chunk)
        size -= len(chunk)
    return b"".join(parts)
