"""Files to a dataset: detect, read, build the tree, write once; with a receipt that counts everything."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from traces.dataset.building.builder import Builder
from traces.dataset.building.tables import finish, input_order, restore
from traces.dataset.layout import Dataset
from traces.dataset.paths import remove
from traces.dataset.writing import is_unfinished, partial_of, spool_of, write_generation, writer
from traces.formats.table.columns import checked_mapping
from traces.intake import registry as readers
from traces.intake.own_output import adopt, datasets_among, without_datasets
from traces.intake.reading import LazyTokenizer, Options, ReadAhead, context_of, guarded, readings, started
from traces.intake.receipt import Tally
from traces.records import Record, Reject
from traces.source.inputs import Refused, expand
from traces.source.sources import Source

__all__ = ["NothingUsable", "Options", "Progress", "ingest"]

SAVE_EVERY_S = 60.0
"""A long ingest keeps what it has read this often, between inputs."""
READ_AHEAD_FILES = 32
OPEN_BESIDE, OPEN_BESIDE_BYTES = 64, 16 << 20
"""So many files, of so many bytes together, are held while their texts are being counted."""
NO_REQUEST = "an input held no request"


class Progress(NamedTuple):
    """How far an ingest is: inputs done and known, bytes read, requests, seconds."""

    stage: str
    done: int
    total: int
    bytes_read: int
    requests: int
    seconds: float


class _Opened(NamedTuple):
    """A source whose format is known.

    `beside`: its texts are being counted, and others may be opened meanwhile. `claims`: it may take other sources.
    """

    source: Source
    format: str
    size: int
    records: Iterable[Record]
    beside: bool
    claims: bool


Watcher = Callable[[Progress], None]


class NothingUsable(ValueError):
    """No request could be read; `receipt` says why."""

    def __init__(self, receipt: dict[str, Any]) -> None:
        told = [r["reason"] for r in receipt["rejects"]] + [w for w in receipt["warnings"] if w.startswith(NO_REQUEST)]
        first = told[0] if told else "no input held a request"
        super().__init__(f"nothing usable: {first}")
        self.receipt = receipt


def ingest(
    inputs: list[str],
    dataset: str | Path | None,
    options: Options | None = None,
    watch: Watcher | None = None,
    executor: Executor | None = None,
    wait: bool = True,
    heard: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Read `inputs` into the dataset at `dataset` (made, or appended to) and return the receipt.

    Args:
        inputs: files, folders, zips, or "-".
        dataset: the folder to write; None only checks (the receipt's dataset is then "").
        options: how to read.
        watch: called with progress, at most a few times a second.
        executor: where files are read; None reads here.
        wait: wait for another process that writes the dataset; else raise.
        heard: called with a sentence when there is one to wait for.

    Raises:
        traces.dataset.locks.Busy: if another process writes the dataset and `wait` is off.
        OSError: where the dataset cannot be written; it is then what it was before.
        NothingUsable: if no request could be read and the dataset would be empty; nothing is written.
        traces.intake.registry.UnknownFormat, ValueError: for options that name nothing.
        traces.dataset.layout.NotADataset: if `dataset` is a folder that is no dataset.
    """
    if dataset is None:
        return _ingest(inputs, None, _Ingest(options or Options(), watch, executor))
    with writer(Path(dataset), wait, heard) as path:
        return _ingest(inputs, path, _Ingest(options or Options(), watch, executor))


def _ingest(inputs: list[str], path: Path | None, reading: _Ingest) -> dict[str, Any]:
    """Open the dataset among the inputs as it is, then read the others into it."""
    datasets, others = datasets_among(inputs)
    receipt = adopt(datasets, path, reading.tally) if datasets else None
    if receipt is not None and not others:
        return receipt
    return reading.run(others, path)


class _Ingest:
    def __init__(self, options: Options, watch: Watcher | None, executor: Executor | None) -> None:
        self.options = options
        self.executor = executor
        self.watch = watch
        self.started = self.saved = time.monotonic()
        self.told = 0.0
        self.tokenizer = LazyTokenizer(options.tokenizer)
        if options.format is not None:
            readers.reader(options.format)
        checked_mapping(options.mapping)
        self.tally = Tally()
        self.bytes = 0
        self.resumed = False

    def run(self, inputs: list[str], path: Path | None) -> dict[str, Any]:
        sources = self._sources(inputs, path)
        builder = self._builder(path)
        thresholds = gc.get_threshold()
        gc.set_threshold(200_000, 20, 20)  # records are many, short-lived and hold no cycles
        try:
            self._read_all(builder, sources, path)
        finally:
            gc.set_threshold(*thresholds)
        return self._finish(builder, path, len(sources))

    # before and after ------------------------------------------------------------------------------------------

    def _builder(self, path: Path | None) -> Builder:
        """A new builder, the dataset's, or the one a killed ingest of the same dataset left."""
        self.old_copies = self.old_inputs = 0
        self.base: str | None = None
        builder = Builder()
        if path is not None and path.exists() and not is_unfinished(path):
            dataset = Dataset(path)
            self.base = dataset.key
            builder = restore(dataset)
            self.old_copies = int(dataset.manifest.get("copies", 0))
            self.old_inputs = len(builder.inputs)
        kept = None if path is None else partial_of(path)
        if kept is not None and kept.is_dir():
            found = self._resumed(kept)
            if found is not None:
                return found
        return builder

    def _resumed(self, kept: Path) -> Builder | None:
        try:
            dataset = Dataset(kept)
            state = dataset.manifest["resume"]
            if state["base"] != self.base or state["plan"] != self.plan:
                return None
            builder = restore(dataset)
        except (ValueError, KeyError, OSError):
            return None
        builder.first_new_row = state["first_new_row"]
        self.tally = Tally.restored(state["tally"])
        self.resumed = True
        return builder

    def _save(self, builder: Builder, path: Path) -> None:
        """Keep what was read so far beside the dataset, so that a killed ingest can go on from there."""
        tables, private, _ = finish(builder)
        self._take_late(builder)
        manifest = self._manifest(builder, tables, {})
        manifest["resume"] = {
            "base": self.base,
            "plan": self.plan,
            "first_new_row": builder.first_new_row,
            "tally": self.tally.state(),
        }
        write_generation(partial_of(path), tables, manifest, private)
        self.saved = time.monotonic()

    def _finish(self, builder: Builder, path: Path | None, total: int) -> dict[str, Any]:
        self._tell("writing", total, total, builder.rows)
        give_back()
        tables, private, copies = finish(builder)
        self._take_late(builder)
        self.tally.copies(copies - self.old_copies)
        receipt = self.tally.receipt(tables, builder.first_new_row, self.options.tokenizer, path)
        if path is not None:
            nothing_new = not receipt["requests"] and not receipt["records"]["duplicate"] and not self.tally.repeats
            if tables["requests"].is_empty() or nothing_new:
                raise NothingUsable(receipt)
            if len(builder.inputs) > self.old_inputs:
                private["receipt.json"] = receipt
                write_generation(path, tables, self._manifest(builder, tables, receipt), private)
            remove(partial_of(path))
        self._tell("done", total, total, builder.rows)
        return receipt

    def _take_late(self, builder: Builder) -> None:
        names = {i.label: i.name for i in builder.inputs}
        self.tally.late([(names[label], ordinal, reason) for label, ordinal, reason in builder.requests.late])
        builder.requests.rejects += builder.requests.late
        builder.requests.late = []

    def _manifest(self, builder: Builder, tables: dict[str, Any], receipt: dict[str, Any]) -> dict[str, Any]:
        order = input_order(builder.inputs)
        tokenizers = tables["sources"]["tokenizer"].drop_nulls().unique().to_list()
        return {
            "tokenizers": sorted(tokenizers),
            "tokenizer_digest": self.tokenizer.digest if self.tokenizer.used else None,
            "one_trace": self.options.one_trace,
            "rows": {name: table.height for name, table in tables.items()},
            "copies": int(self.old_copies + self.tally.records["duplicate_copies"]),
            "inputs": [
                {"label": i.label, "order": order[i.label], "format": i.format, "digest": i.digest}
                for i in builder.inputs
            ],
            "receipt": {k: v for k, v in receipt.items() if k not in ("dataset", "rejects")},
        }

    # reading ---------------------------------------------------------------------------------------------------

    def _sources(self, inputs: list[str], path: Path | None) -> list[Source]:
        found: list[Source] = []
        spool = None if path is None else spool_of(path)
        if spool is not None:
            try:
                spool.mkdir(mode=0o700)
            except OSError:
                spool = None  # a folder whose neighbours belong to someone else
        items = without_datasets(list(expand(inputs, self.options.limits, spool)))
        for item in items:
            if isinstance(item, Refused):
                self.tally.refused(item.name, item.reason, item.skipped)
            else:
                found.append(item)
        self.single = len(found) == 1
        self.sizes = Counter(source.size for source in found)
        self.plan = repr((self.options, sorted((source.name, source.size) for source in found)))
        self.plan = hashlib.sha256(self.plan.encode("utf-8", "surrogateescape")).hexdigest()
        return found

    def _read_all(self, builder: Builder, sources: list[Source], path: Path | None) -> None:
        known = {i.digest for i in builder.inputs}
        self.had_inputs = bool(known)
        old = set(known) if self.resumed else set()
        claimed: set[int] = set()
        ahead = ReadAhead(self.executor, self.options, builder.digest.key)
        waiting: deque[_Opened] = deque()
        for place, source in enumerate(sources):
            if place % READ_AHEAD_FILES == 0:
                ahead.start(sources[place : place + 2 * READ_AHEAD_FILES])
            self._tell("reading", place, len(sources), builder.rows)
            source.heard = partial(self._reading, place, len(sources), builder, source)
            if id(source) in claimed:
                self.tally.files["read"] += 1
                continue
            opened = self._open(builder, source, known, old, ahead)
            if opened is not None:
                waiting.append(opened)
            while waiting and not _may_wait(waiting):
                self._close(builder, waiting.popleft(), claimed)
            if path is not None and time.monotonic() - self.saved > SAVE_EVERY_S and place + 1 < len(sources):
                self._save(builder, path)
        for opened in waiting:
            self._close(builder, opened, claimed)

    def _open(
        self, builder: Builder, source: Source, known: set[str], old: set[str], ahead: ReadAhead
    ) -> _Opened | None:
        """Tell the format of a source and start to read it; None for one that is not to be read."""
        digest = None
        try:
            if self.sizes[source.size] == 1 and not self.had_inputs:  # no copy of another, so one pass is enough
                source.hash_while_reading()
            else:
                digest = builder.digest.hex(source.digest())
                if digest in known:
                    if digest not in old:  # else a killed ingest read it, and its receipt already counts it
                        self.tally.repeated()
                    source.close()
                    return None
            name = self.options.format or readers.detect(source, self.options.mapping)[0]
        except readers.UnknownFormat as error:
            self.tally.refused(source.name, str(error), skipped=not self.single, listed=True)
            source.close()
            return None
        except (OSError, ValueError) as error:
            self.tally.refused(source.name, f"cannot be read: {type(error).__name__}")
            source.close()
            return None
        if digest is not None:
            known.add(digest)
        source.bytes_read = 0  # what telling the format took does not count
        reader = readers.reader(name)
        records: Iterable[Record] | None = ahead.take(source, name, builder.texts)
        size = source.size
        beside = getattr(reader, "COUNTS_BESIDE", False) and size <= OPEN_BESIDE_BYTES
        if records is None:
            context = context_of(self.options, self.tokenizer, builder.digest, builder.texts)
            records = guarded(readings(reader, source, context))
            if beside:
                records = started(records)
        return _Opened(source, name, size, records, beside, getattr(reader, "SIBLINGS", False))

    def _close(self, builder: Builder, opened: _Opened, claimed: set[int]) -> None:
        """Take the records of a source to the end."""
        source, name = opened.source, opened.format
        try:
            self._take(builder, source, name, opened.records)
        finally:
            claimed.update(id(source.siblings[name]) for name in source.claims)
            source.close()
            source.heard = None
            self.bytes += source.bytes_read

    def _take(self, builder: Builder, source: Source, name: str, records: Iterable[Record]) -> None:
        reader = readers.reader(name)
        scope = getattr(reader, "SESSION_SCOPE", "input")
        unit = self.options.time_unit or getattr(reader, "TIME_UNIT", None)
        builder.begin(source.name, name, scope, self.options.one_trace, self.options.tokenizer, unit)
        rejected, rows = len(builder.requests.rejects), builder.rows
        builder.take(_counted(records, source))
        if source.damage is not None:
            reason = f"{source.damage.reason} after {source.damage.after_bytes:,} bytes; every record before was read"
            builder.take([Reject(source.last_line, reason)])
        builder.notes.update(source.remarks)
        counts = builder.end(builder.digest.hex(source.digest()))
        if builder.rows == rows and len(builder.requests.rejects) == rejected:
            most = builder.skipped.most_common(1)
            builder.notes[f"{NO_REQUEST}: {most[0][0] or 'other records' if most else 'it is empty'}"] += 1
        self.tally.read(source.name, name, counts, builder.requests.rejects[rejected:], builder.notes)
        for one in builder.evidence:
            self.tally.usage.add(name, one)
        builder.notes = Counter()

    def _reading(self, place: int, total: int, builder: Builder, source: Source) -> None:
        self._tell("reading", place, total, builder.rows, source.bytes_read)

    def _tell(self, stage: str, done: int, total: int, requests: int, more_bytes: int = 0) -> None:
        now = time.monotonic()
        if self.watch is not None and (now - self.told > 0.2 or stage != "reading"):
            self.told = now
            self.watch(Progress(stage, done, total, self.bytes + more_bytes, requests, now - self.started))


def _may_wait(opened: deque[_Opened]) -> bool:
    """Whether the oldest still has something to wait for, and the newest may stand behind it."""
    if not opened[0].beside or opened[-1].claims or len(opened) > OPEN_BESIDE:
        return False
    return sum(one.size for one in opened) <= OPEN_BESIDE_BYTES


def give_back() -> None:
    """Give what reading took back to the system, where the C library keeps what is freed (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _counted(records: Iterable[Record], source: Source) -> Iterator[Record]:
    """Pass records on, telling how far it is now and then."""
    for seen, record in enumerate(records):
        if not seen & 0x3FF and source.heard is not None:
            source.heard()
        if seen and not seen & 0xFFFF:
            give_back()
        yield record
