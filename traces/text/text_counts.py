"""Counts the tokens of texts in batches, on a thread beside the reader.

A tokenizer works without Python's global lock, but a thread that acquires the lock for every text waits longer than it
counts. So each text gets a number, and a few hundred texts are counted at a time. The reader continues meanwhile, and
looks up the counts after its last line.
"""

from __future__ import annotations

from array import array
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

BATCH_CHARS = 1 << 19
"""Batch size, about 30 ms of counting: a thread may wait 5 ms each time it requests the lock."""
BATCHES_AHEAD = 4
REMEMBERED_TEXTS = 200_000
"""The number of texts remembered, so that each is counted once: agents repeat messages and tools, and log lines
twice."""


class TextCounts:
    """Numbers texts, and after `settle` holds the token count of each. Equal texts share a number."""

    def __init__(self, tokenizer: Any) -> None:
        """Count with `tokenizer` (traces.text.tokens.Tokenizer, or an object with the same methods)."""
        self._tokenizer = tokenizer
        self.tokens = array("I")  # by number; 0 until settled
        self._known: dict[int, int] = {}
        self._batch: list[str] = []
        self._first = 0  # the number of the first text of the batch
        self._chars = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="token counts")
        self._running: deque[tuple[int, Future[list[int]]]] = deque()

    def number(self, text: str) -> int:
        """The number of `text`; a new text is queued for counting."""
        key = hash(text)  # 64 bits: the chance that two of a million texts share one is 3 in 10^8
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
