"""Every limit on what is read, each stated once.

Text is read in the memory of a few lines. Compressed data is read as a stream, and the stream ends where it unpacks to
far more than it holds. Nothing is allocated because a file claims a size.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from traces.schema import TABLE_TOKENS

CHUNK_BYTES = 1 << 22
LINE_BUFFER_BYTES = 1 << 18
HEAD_BYTES = 1 << 16
"""A format is recognised by this much of a file's content (and by its first records, which are read whole)."""

MAX_LINE_BYTES = 256 << 20
"""A longer line, or a longer element of a JSON array, is a reject."""
MAX_DOCUMENT_BYTES = 256 << 20
"""A longer document that has to be held whole (a recorded cassette, a sample of a log) is a reject."""
MAX_JSON_MEMORY_BYTES = 1 << 30
"""JSON that would take more than this as Python values is a reject: one record, or the records of a file that is held
as one value. `traces.source.json_values.memory_of` estimates it from the text."""

MOST_TOKENS = TABLE_TOKENS >> 4
"""More tokens than any model takes or writes in one request: 134 million, where the longest context that has been
announced is 100 million. A record that claims more is a reject, in every format."""

MOST_REJECTS = 1 << 20
"""Records of one input that cannot be used and are listed one by one; more of them are only counted."""

RATIO_FROM_BYTES = 64 << 20
"""The ratio of unpacked to packed bytes is looked at above this many unpacked bytes."""
MAX_NESTING = 4
"""Zips in zips are opened this deep."""


class Limits(NamedTuple):
    """What a compressed input may unpack to: zip, gzip, zstd, bzip2, xz, Parquet and SQLite alike.

    `total_bytes`: unpacked, of one input and all archives in it. `entries`: files in an archive. `ratio`: unpacked to
    packed bytes, looked at above `RATIO_FROM_BYTES`. `seconds`: how long one input may take to read.
    """

    total_bytes: int = 1 << 40
    entries: int = 200_000
    ratio: float = 1000.0
    seconds: float = 24 * 3600.0


UPLOAD_LIMITS = Limits(total_bytes=8 << 30, entries=20_000, seconds=600.0)
"""For files that a visitor of the app hands over."""


class Meter:
    """Counts what one packed input unpacks to, and says which limit ends it. Every kind of packing is counted here."""

    def __init__(self, limits: Limits, packed_bytes: int = 0) -> None:
        self.limits, self.packed, self.made = limits, packed_bytes, 0
        self._deadline = time.monotonic() + limits.seconds

    def over(self, made: int = 0, packed: int = 0) -> str:
        """Count `made` more bytes of content from `packed` more bytes; the limit that is exceeded and what to do.

        "" where none is.
        """
        self.made, self.packed = self.made + made, self.packed + packed
        ratio, most, seconds = self.limits.ratio, self.limits.total_bytes, self.limits.seconds
        if self.made > max(RATIO_FROM_BYTES, self.packed * ratio):
            return f"unpacks to more than {ratio:,.0f} times its size (unpack it yourself if it is meant)"
        if self.made > most:
            return f"unpacks to more than {most:,} bytes (split it)"
        if time.monotonic() > self._deadline:
            return f"takes longer than {seconds:,.0f} s to read (split it)"
        return ""
