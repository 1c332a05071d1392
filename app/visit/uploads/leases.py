"""Leases: an upload is found by its unguessable id, and kept as long as somebody looks at it and some minutes more."""

from __future__ import annotations

import hmac
import os
import secrets
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from app.visit.server import server_folder, used_bytes
from app.visit.uploads import reading

PREFIX = "upload-"
ID_BYTES = 24
MINUTES_VARIABLE = "TRACETOWER_LEASE_MINUTES"
MINUTES = 15.0
LEFT_S = 30.0
"""How long a reading goes on after its visitor's connection is gone."""
AT_ONCE = 2
"""Uploads that are read at once; more wait, so that pages stay quick."""
WATCH_S = 5.0

_turns = threading.BoundedSemaphore(AT_ONCE)
_lock = threading.RLock()
_leases: list[Lease] = []


class _Cancelled(Exception):
    """The reading is no longer wanted."""


def lease_s() -> float:
    """Seconds that an upload is kept after its last visitor left."""
    try:
        return 60 * max(0.0, float(os.environ.get(MINUTES_VARIABLE, MINUTES)))
    except ValueError:
        return 60 * MINUTES


class Lease:
    """One upload: its files, what was read from them, and who looks at it."""

    def __init__(self, name: str) -> None:
        self.id = PREFIX + secrets.token_urlsafe(ID_BYTES)
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="visit-", dir=server_folder()))  # mode 0700
        self.inputs: tuple[str, ...] = ()
        self.options: dict[str, Any] = {}
        self.dataset: Path | None = None
        self.receipt: dict[str, Any] | None = None
        self.failed: tuple[str, dict[str, Any] | None] | None = None
        """Why the last reading gave nothing, and its receipt."""
        self.added = 0
        """How often more was added to the dataset; the receipt is of what was read last."""
        self.progress: dict[str, Any] | None = None
        """Of the reading that runs; None where none does."""
        self.ended = False
        self._wanted = True
        self._holders: set[int] = set()
        self._contact = time.monotonic()

    def hold(self, holder: int) -> bool:
        """Somebody looks at it. False if it has ended."""
        with _lock:
            if not self.ended:
                self._holders.add(holder)
                self._contact = time.monotonic()
            return not self.ended

    def leave(self, holder: int) -> None:
        """That somebody's connection is gone."""
        with _lock:
            self._holders.discard(holder)
            self._contact = time.monotonic()

    def alone_s(self) -> float:
        """Seconds since the last contact; 0 while somebody is connected."""
        return 0.0 if self._holders else time.monotonic() - self._contact

    def read(self, inputs: tuple[str, ...], options: dict[str, Any], add: bool = False) -> None:
        """Read inputs in the background; `progress` says how far it is, then `receipt` or `failed` what it gave.

        Args:
            inputs: paths.
            options: fields of `traces.intake.ingest.Options`.
            add: to what the dataset holds; otherwise a new one takes its place.
        """
        with _lock:
            if self.progress is not None or self.ended:
                return
            self.progress, self._wanted = dict(reading.NOTHING_YET, stage="waiting for its turn"), True
            self.inputs, self.options, self.failed = (self.inputs + inputs if add else inputs), options, None
        threading.Thread(target=self._read, args=(inputs, options, add), daemon=True, name="reading").start()

    def _read(self, inputs: tuple[str, ...], options: dict[str, Any], add: bool) -> None:
        path = self.dataset if add and self.dataset is not None else self.folder / f"dataset-{secrets.token_hex(8)}"
        try:
            while not _turns.acquire(timeout=reading.TICK_S):
                self._watch(dict(reading.NOTHING_YET, stage="waiting for its turn"))
            try:
                receipt = reading.read(list(inputs), path, options, self._watch)
            finally:
                _turns.release()
            former, self.dataset, self.receipt = self.dataset, path, receipt
            self.added = self.added + 1 if add else 0
            if former is not None and former != path:
                shutil.rmtree(former, ignore_errors=True)
        except reading.NotRead as error:
            self.failed = str(error), error.receipt
        except _Cancelled:
            self.failed = "the reading was cancelled; what was sent is still here", None
        except Exception as error:  # a full disk, no more processes: said, and never waited for in vain
            self.failed = f"this server could not read it ({type(error).__name__}). Try again later", None
        finally:
            if self.dataset != path:
                shutil.rmtree(path, ignore_errors=True)
            if self.failed is not None and add:
                self.inputs = self.inputs[: -len(inputs)]
            self.progress = None
            if self.ended:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _watch(self, progress: dict[str, Any]) -> None:
        if not self._wanted:
            raise _Cancelled
        self.progress = progress

    def cancel(self) -> None:
        """End the reading and its process."""
        self._wanted = False

    def end(self) -> None:
        """Delete everything; the id leads nowhere from now on."""
        with _lock:
            self.ended, self._wanted = True, False
            if self in _leases:
                _leases.remove(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def used(self) -> int:
        """Bytes that it takes on the disk."""
        return used_bytes(self.folder)


def new(name: str) -> Lease:
    """A lease for what a visitor sends, called `name`."""
    lease = Lease(name)
    with _lock:
        if not any(thread.name == "leases" for thread in threading.enumerate()):
            threading.Thread(target=_watch_leases, daemon=True, name="leases").start()
        _leases.append(lease)
    return lease


def find(id: str) -> Lease | None:
    """The lease of that id; the time this takes says nothing about the ids there are."""
    found = None
    with _lock:
        for lease in _leases:
            if hmac.compare_digest(lease.id.encode(), id.encode("utf-8", "replace")):
                found = lease
    return found


def sweep() -> None:
    """End the leases that are over, and readings that nobody waits for."""
    with _lock:
        leases = list(_leases)
    for lease in leases:
        if lease.alone_s() > lease_s():
            lease.end()
        elif lease.progress is not None and lease.alone_s() > LEFT_S:
            lease.cancel()


def _watch_leases() -> None:
    while True:
        time.sleep(min(WATCH_S, max(0.1, lease_s() / 4)))
        sweep()
