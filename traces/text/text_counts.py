"""Counts of texts, made in batches on a thread beside the reader.

A tokenizer works without Python's lock, but a thread that takes it up for every text waits longer for the lock than it
counts. So each text gets a number and some hundred are counted at a time; meanwhile a reader continues, and looks the
counts up when it has seen its last line.
"""

from __future__ import annotations

from array import array
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

BATCH_CHARS = 1 << 19
"""Enough for some 30 ms of counting: a thread waits up to 5 ms each time it asks for the lock."""
BATCHES_AHEAD = 4
REMEMBERED_TEXTS = 200_000
"""Texts that are counted once: agents' messages and tools repeat themselves, and lines are logged again."""


class TextCounts:
    """Numbers for texts, and after `settle` the token count of each. Equal texts get one number."""

    def __init__(self, tokenizer: Any) -> None:
        """Count with `tokenizer` (traces.text.tokens.Tokenizer, or what stands for one)."""
        self._tokenizer = tokenizer
        self.tokens = array("I")  # by number; 0 until settled
        self._known: dict[int, int] = {}
        self._batch: list[str] = []
        self._first = 0  # the number of the first text of the batch
        self._chars = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="token counts")
        self._running: deque[tuple[int, Future[list[int]]]] = deque()

    def number(self, text: str) -> int:
        """The number of `text`, which is counted soon if it is new."""
        key = hash(text)  # of 64 bits: among a million texts two share one with a chance of 3 in 10^8
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= REMEMBERED_TEXTS:
                self._known.clear()
            found = self._known[key] = len(self.tokens)
            self.tokens.append(0)
            self._batch.append(text)
            self._chars += len(text)
            if self._chars >= BATCH_CHARS:
                self._hand_over()
        return found

    def settle(self, numbers: int) -> None:
        """Wait until the first `numbers` texts are counted."""
        if self._first < numbers:
            self._hand_over()
        while self._running and self._running[0][0] < numbers:
            self._take_oldest()

    def _hand_over(self) -> None:
        if len(self._running) >= BATCHES_AHEAD:
            self._take_oldest()
        self._running.append((self._first, self._pool.submit(self._tokenizer.count_all, self._batch)))
        self._batch, self._chars, self._first = [], 0, len(self.tokens)

    def _take_oldest(self) -> None:
        first, counted = self._running.popleft()
        counts = counted.result()
        self.tokens[first : first + len(counts)] = array("I", counts)
