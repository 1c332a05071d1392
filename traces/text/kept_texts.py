"""Texts of prompts while an ingest runs: what parts two prompts is named by them, and they are gone when it ends."""

from __future__ import annotations

from collections import OrderedDict

MOST_CHARS = 32 << 20
"""The most text that is remembered; what came first is forgotten first."""
LONGEST_CHARS = 16_384
"""Of longer texts the beginning is kept: it is enough to name what changed."""


class KeptTexts:
    """Texts by the digest of the piece that stands for them in the prefix tree, where that holds no token ids."""

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
        """The text of a piece, or None where it is not known."""
        return self._texts.get(key)

    def all(self) -> dict[int, str]:
        """Every text, by key."""
        return dict(self._texts)
