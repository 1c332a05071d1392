"""Which calls have copies: one owner each, whatever the order of the inputs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Copies:
    """Rows that name their call: row, digest of the call's name, rank (the smallest owns the call)."""

    def __init__(self) -> None:
        self.rows = array("q")
        self.digests = array("Q")
        self.ranks: list[tuple[Any, ...]] = []

    def add(self, row: int, digest: int, rank: tuple[Any, ...]) -> None:
        """Take a row. Ranks are mostly those of the row before, and are kept once."""
        self.rows.append(row)
        self.digests.append(digest)
        self.ranks.append(self.ranks[-1] if self.ranks and self.ranks[-1] == rank else rank)

    def __len__(self) -> int:
        return len(self.rows)

    def repeated(self) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """(row, digest, rank) of the calls that several rows name, in the order they came."""
        digests = self._digests()
        _, inverse, counts = np.unique(digests, return_inverse=True, return_counts=True)
        for at in np.flatnonzero(counts[inverse] > 1).tolist():
            yield self.rows[at], self.digests[at], self.ranks[at]

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Rows and digests."""
        return np.array(self.rows, np.int64), self._digests()

    def _digests(self) -> NDArray[np.uint64]:
        return np.array(self.digests, np.uint64)
