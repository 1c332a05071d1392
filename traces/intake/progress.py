"""How far an ingest is, for whoever watches it, and memory given back while it runs."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

REPORT_EVERY_S = 0.2


class Progress(NamedTuple):
    """How far an ingest is: inputs done and known, bytes read, requests, seconds."""

    stage: str
    done: int
    total: int
    bytes_read: int
    requests: int
    seconds: float


Watcher = Callable[[Progress], None]


class Reporter:
    """Calls the watcher at each new stage, and a few times a second while inputs are read."""

    def __init__(self, watch: Watcher | None) -> None:
        self._watch = watch
        self._started = time.monotonic()
        self._reported = 0.0
        self.bytes = 0  # of the inputs that are done
        self.total = 0  # inputs

    def report(self, stage: str, done: int, requests: int, more_bytes: int = 0) -> None:
        """`done` inputs are done; `more_bytes` of the next one are read."""
        now = time.monotonic()
        if self._watch is not None and (now - self._reported > REPORT_EVERY_S or stage != "reading"):
            self._reported = now
            size = self.bytes + more_bytes
            self._watch(Progress(stage, done, self.total, size, requests, now - self._started))


def give_back() -> None:
    """Give freed memory back to the system, where the C library keeps it (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
