"""Every limit on what is read, each stated once.

Text is read in the memory of a few lines. Compressed data is read as a stream, and the stream ends where it unpacks to
far more than it holds. Nothing is allocated because a file claims a size.
"""

from __future__ import annotations

from typing import NamedTuple

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

MOST_TOKENS = 1 << 27
"""More tokens than any model takes or writes in one request: 134 million, where the longest context that has been
announced is 100 million. A record that claims more is a reject, in every format."""

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


UPLOAD_LIMITS = Limits(total_bytes=8 << 30, entries=20_000, ratio=300.0, seconds=600.0)
"""For files that a visitor of the app hands over."""
