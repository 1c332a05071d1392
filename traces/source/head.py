"""The start of an input, by which its format is recognised."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from traces.source.containers import Shape
from traces.source.json_values import parse_json
from traces.source.limits import HEAD_BYTES

_MOST_RECORDS, _MOST_LINES = 20, 40


class Head:
    """The first bytes and records of an input (`traces.source.sources.Source`).

    `start`: the first bytes as they are. `shape`: how the file arranges its records. `name`, `suffix`: of the file,
    without the ending of a compressed one.
    """

    def __init__(self, source: Any, start: bytes, shape: Shape) -> None:
        self._source = source
        self.start, self.shape = start, shape
        self.name = PurePosixPath(source.name).name
        self.suffix = PurePosixPath(re.sub(r"\.(gz|zst|bz2|xz)$", "", self.name, flags=re.IGNORECASE)).suffix.lower()

    @cached_property
    def data(self) -> bytes:
        """The first 64 KiB of the records as lines, whatever the file's arrangement; of other files, of the file."""
        if self.shape.kind == "text":
            return self.start
        lines, size = [], 0
        for _, line in self._source.lines():
            lines.append(line or b"")
            size += len(lines[-1]) + 1
            if size >= HEAD_BYTES:
                break
        return b"\n".join(lines)[:HEAD_BYTES]

    @cached_property
    def first_line(self) -> bytes:
        """The first line that is not blank, as far as it lies in the head."""
        return next((line.strip() for line in self.data.split(b"\n") if line.strip()), b"")

    @cached_property
    def records(self) -> list[Any]:
        """The first records that parse (at most 20); the first is read whole however long it is."""
        records: list[Any] = []
        early = [line for line in self.data.split(b"\n", 8) if line and not line.isspace()][:4]
        if not any(line.lstrip()[:1] in (b"{", b"[") for line in early):  # the first may be the end of a cut one
            return records
        short = len(self.data) < HEAD_BYTES
        lines = enumerate(self.data.split(b"\n")) if short else self._source.lines()
        for seen, (_, line) in enumerate(islice(lines, _MOST_LINES)):
            if line and line.strip():
                try:
                    records.append(parse_json(line))
                except ValueError:
                    if not records and seen > 3:
                        break
            if len(records) >= _MOST_RECORDS:
                break
        return records

    @cached_property
    def fields(self) -> frozenset[str]:
        """The names of all fields of the first records that are objects."""
        return frozenset().union(*(record for record in self.records if isinstance(record, dict)))

    @cached_property
    def record(self) -> Any:
        """The first record, or None."""
        return self.records[0] if self.records else None

    @property
    def source(self) -> Any:
        """The input itself, for what the first bytes cannot say (the columns of Parquet, the tables of SQLite)."""
        return self._source

    @property
    def siblings(self) -> Mapping[str, Any]:
        """The other files of the same folder or archive."""
        siblings: Mapping[str, Any] = self._source.siblings
        return siblings
