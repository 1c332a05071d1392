"""Decompressed streams, within limits: what is unpacked before damage, a cut or a limit is handed out first."""

from __future__ import annotations

import bz2
import io
import itertools
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, NamedTuple, Protocol, cast

import zstandard

from traces.source.limits import MAX_NESTING, Limits, Meter
from traces.source.streams import Rest, Slice, first_bytes

_PACKED_BYTES = 1 << 16
"""Packed bytes that are read at a time."""
_STEP_BYTES = 1 << 10
"""Packed bytes that a codec gets at once if a failure loses what the same call unpacked."""
_MOST_AT_ONCE = 1 << 20


class Damage(NamedTuple):
    """Why a stream ended early, and after how much of its content ("512 bytes")."""

    reason: str
    after: str


class _Codec(Protocol):
    """Unpacks what it is fed. `unpack` raises at damage; `whole`: the packed data ended where it should."""

    whole: bool

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        """(unpacked bytes, packed bytes that are still to be fed)."""
        ...


class _Deflate:
    """gzip (several members in a row too), or the bare stream of a zip's entry.

    zlib gives nothing back from a call that fails, so a copy of the state before the call is fed byte by byte then.
    """

    def __init__(self, window_bits: int) -> None:
        self._bits = window_bits
        self._state = zlib.decompressobj(window_bits)
        self.whole = False

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        if self.whole:
            if self._bits < 0 or not packed.lstrip(b"\0"):
                return b"", b""  # padding
            self._state, self.whole = zlib.decompressobj(self._bits), False
        before = self._state.copy()
        try:
            data = self._state.decompress(packed, _MOST_AT_ONCE)
        except zlib.error as error:
            raise _Failed(_by_the_byte(before, packed)) from error
        self.whole = self._state.eof
        return data, self._state.unused_data if self.whole else self._state.unconsumed_tail


class _Failed(Exception):
    """A codec met damage; `data` is what it had unpacked before that."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__()
        self.data = data


def _by_the_byte(state: Any, packed: bytes) -> bytes:
    parts = []
    try:
        for at in range(len(packed)):
            parts.append(state.decompress(packed[at : at + 1], _MOST_AT_ONCE))
            while state.unconsumed_tail:
                parts.append(state.decompress(state.unconsumed_tail, _MOST_AT_ONCE))
    except zlib.error:
        pass
    return b"".join(parts)


class _Stepped:
    """zstd, bzip2 or xz, several frames in a row too, fed in small steps."""

    def __init__(self, make: Callable[[], Any], bounded: bool) -> None:
        self._make, self._bounded = make, bounded
        self._state = make()
        self.whole = False

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        if self.whole:
            if not packed.strip(b"\0"):
                return b"", b""
            self._state, self.whole = self._make(), False
        step, rest = packed[:_STEP_BYTES], packed[_STEP_BYTES:]
        try:
            data = self._state.decompress(step, _MOST_AT_ONCE) if self._bounded else self._state.decompress(step)
            while self._bounded and not self._state.eof and not self._state.needs_input:
                data += self._state.decompress(b"", _MOST_AT_ONCE)
        except (zstandard.ZstdError, lzma.LZMAError, OSError, EOFError, ValueError) as error:
            raise _Failed from error
        self.whole = self._state.eof
        return data, self._state.unused_data + rest if self.whole else rest


class _Stored:
    """An entry of a zip that is not packed."""

    whole = True

    def unpack(self, packed: bytes) -> tuple[bytes, bytes]:
        return packed, b""


def _zstd() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


_MAGIC: tuple[tuple[bytes, str, Callable[[], _Codec]], ...] = (
    (b"\x1f\x8b", "gzip", lambda: _Deflate(31)),
    (b"\x28\xb5\x2f\xfd", "zstd", lambda: _Stepped(_zstd, False)),
    (b"BZh", "bzip2", lambda: _Stepped(bz2.BZ2Decompressor, True)),
    (b"\xfd7zXZ\x00", "xz", lambda: _Stepped(lambda: lzma.LZMADecompressor(memlimit=256 << 20), True)),
)
ZIP_METHODS: dict[int, Callable[[], _Codec]] = {
    0: _Stored,
    8: lambda: _Deflate(-15),
    12: lambda: _Stepped(bz2.BZ2Decompressor, True),
    93: lambda: _Stepped(_zstd, False),
}


class Unpacked(io.RawIOBase):
    """A decompressed stream. Damage, a cut and a limit end it; what was unpacked before is handed out first."""

    def __init__(
        self,
        raw: IO[bytes],
        name: str,
        codec: _Codec,
        limits: Limits,
        damaged: Callable[[Damage], None],
        checksum: tuple[int, int] | None = None,
        around: Unpacked | None = None,
    ) -> None:
        """`around`: the stream that this one is packed in again; their sizes count as one packing."""
        self._raw, self._name, self._codec, self._damaged = raw, name, codec, damaged
        self._checksum = checksum
        self._packed, self._waiting, self._ended = b"", memoryview(b""), False
        self._meter, self._crc, self._around = Meter(limits), 0, around

    @property
    def packed(self) -> int:
        """Bytes of the file that were read so far."""
        return self._meter.packed

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next unpacked bytes."""
        while not self._waiting and not self._ended:
            self._waiting = memoryview(self._more())
        size = min(len(buffer), len(self._waiting))
        buffer[:size] = self._waiting[:size]
        self._waiting = self._waiting[size:]
        return size

    def _more(self) -> bytes:
        if not self._packed:
            try:
                self._packed = self._raw.read(_PACKED_BYTES)
            except (OSError, ValueError) as error:
                return self._end(f"cannot be read on ({type(error).__name__})")
            self._meter.packed = self._around.packed if self._around else self._meter.packed + len(self._packed)
            if not self._packed:
                return self._end(self._complaint())
        try:
            data, self._packed = self._codec.unpack(self._packed)
        except _Failed as failed:
            data = failed.data
            self._meter.made += len(data)
            self._end("is damaged")
            return data
        complaint = self._meter.over(len(data)) if data else ""
        if self._checksum is not None:
            self._crc = zlib.crc32(data, self._crc)
            if self._meter.made > self._checksum[1]:
                complaint = "holds more than the zip says"
        if complaint:
            self._end(complaint)
        return data

    def _complaint(self) -> str:
        if not self._codec.whole:
            return "is cut off"
        if self._checksum is not None and self._checksum != (self._crc, self._meter.made):
            return "has a wrong checksum"
        return ""

    def _end(self, complaint: str) -> bytes:
        self._ended = True
        if complaint:
            self._damaged(Damage(f"{self._name} {complaint}", f"{self._meter.made:,} bytes"))
        return b""

    def close(self) -> None:
        """Close what it reads from."""
        self._raw.close()
        super().close()


class Entry:
    """One entry of an open zip, read from its own place in the file, so that entries of one name are all read."""

    def __init__(self, file: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._file, self._info = file, info
        self.size = info.file_size

    def open(self, limits: Limits, damaged: Callable[[Damage], None]) -> IO[bytes]:
        """The entry's content; damage, and nothing, where it is not where the zip says."""
        stream, info = cast(IO[bytes], self._file.fp), self._info
        stream.seek(max(0, info.header_offset))
        header = stream.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            damaged(Damage("the zip's entry is not where the zip says", "0 bytes"))
            return io.BytesIO()
        name, extra = struct.unpack("<HH", header[26:30])
        raw = cast(IO[bytes], Slice(stream, info.header_offset + 30 + name + extra, info.compress_size))
        codec, checksum = ZIP_METHODS[info.compress_type](), (info.CRC, info.file_size)
        return cast(IO[bytes], Unpacked(raw, "the zip's entry", codec, limits, damaged, checksum))


def unpacked(raw: IO[bytes], limits: Limits, damaged: Callable[[Damage], None]) -> IO[bytes]:
    """`raw` decompressed by what its first bytes are: gzip, zstd, bzip2, xz, also within one another; or as it is."""
    stream, around = raw, None
    for times in itertools.count():
        start = first_bytes(stream, 6)
        stream = cast(IO[bytes], Rest(start, stream))
        found = next(((name, codec) for magic, name, codec in _MAGIC if start.startswith(magic)), None)
        if found is None:
            break
        name, codec = found
        if times > MAX_NESTING:
            damaged(Damage(f"the {name} stream is packed more than {times} times over", "0 bytes"))
            break
        around = Unpacked(stream, f"the {name} stream", codec(), limits, damaged, around=around)
        stream = cast(IO[bytes], around)
    return stream


def is_packed(start: bytes) -> bool:
    """Whether a file that starts like this is unpacked before it is read."""
    return any(start.startswith(magic) for magic, _, _ in _MAGIC)
