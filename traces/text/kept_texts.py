"""Texts of prompts, kept in memory while an ingest runs, to name the change between two prompts. Never written."""

from __future__ import annotations

from collections import OrderedDict

MOST_CHARS = 32 << 20
"""The most text that is kept; the oldest is dropped first."""
LONGEST_CHARS = 16_384
"""Longer texts are cut to this length: their beginning is enough to name a change."""


class KeptTexts:
    """Texts by the digest of the piece that represents them in the prefix tree, for pieces without token ids."""

    def __init__(self) -> None:
        self._texts: OrderedDict[int, str] = OrderedDict()
        self._chars = 0

    def add(self, key: int, text: str) -> None:
        """Keep the text of a piece."""
        if key in self._texts:
            self._texts.move_to_end(key)
            return
        self._texts[key] = kept = text[:LONGEST_CHARS]
        self._chars += len(kept)
        while self._chars > MOST_CHARS:
            self._chars -= len(self._texts.popitem(last=False)[1])

    def update(self, texts: dict[int, str]) -> None:
        """Keep the texts that another process read."""
        for key, text in texts.items():
            self.add(key, text)

    def get(self, key: int) -> str | None:
        """The text of a piece, or None if it is not known."""
        return self._texts.get(key)

    def all(self) -> dict[int, str]:
        """Every text, by key."""
        return dict(self._texts)
