"""From 64-bit ids to positions, at about twenty bytes an id: a dict takes seven times as much."""

from __future__ import annotations

from array import array

_ID = (1 << 64) - 1
_FEW = 1 << 16
"""Up to this number of ids are held in a dict, which is faster."""


class IdTable:
    """Ids that are spread evenly (hashes, digests) and the position each was first given; nothing is taken out."""

    def __init__(self) -> None:
        self._few: dict[int, int] | None = {}
        self._size = 0

    def _make(self, slots: int) -> None:
        self._mask = slots - 1
        self._ids = array("Q", bytes(8 * slots))
        self._positions = array("i", (-1,)) * slots

    def __len__(self) -> int:
        return self._size if self._few is None else len(self._few)

    def get(self, number: int) -> int:
        """The position of an id, -1 where it is not known."""
        if self._few is not None:
            return self._few.get(number, -1)
        number &= _ID
        mask, ids, positions = self._mask, self._ids, self._positions
        at = number & mask
        while (position := positions[at]) >= 0:
            if ids[at] == number:
                return position
            at = (at + 1) & mask
        return -1

    def add(self, number: int, position: int) -> None:
        """Give an id a position (from 0 to 2^31), unless it has one."""
        if self._few is not None:
            self._few.setdefault(number, position)
            if len(self._few) >= _FEW:
                few, self._few = self._few, None
                self._make(4 * _FEW)
                for known, place in few.items():
                    self.add(known, place)
            return
        number &= _ID
        if 3 * self._size > 2 * self._mask:
            ids, positions = self._ids, self._positions
            self._make(2 * (self._mask + 1))
            for known, place in zip(ids, positions, strict=True):
                if place >= 0:
                    self._put(known, place)
        self._size += self._put(number, position)

    def _put(self, number: int, position: int) -> bool:
        at = number & self._mask
        while self._positions[at] >= 0:
            if self._ids[at] == number:
                return False
            at = (at + 1) & self._mask
        self._ids[at], self._positions[at] = number, position
        return True
