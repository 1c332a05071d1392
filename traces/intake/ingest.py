"""Files to a dataset: detect, read, build the tree, write once; with a receipt that counts everything."""

from __future__ import annotations

import gc
import hashlib
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from traces.dataset.building.appending import restore
from traces.dataset.building.builder import Builder
from traces.dataset.building.tables import Finished, finish, input_order
from traces.dataset.layout import Dataset
from traces.dataset.paths import remove
from traces.dataset.writing import is_unfinished, partial_of, spool_of, write_generation, writer
from traces.formats.table.columns import checked_mapping
from traces.intake import registry as readers
from traces.intake.inputs import NO_REQUEST, InputReader
from traces.intake.own_output import adopt, datasets_among, nothing_read, without_datasets
from traces.intake.progress import Progress, Reporter, Watcher, give_back
from traces.intake.reading import LazyTokenizer, Options
from traces.intake.receipt import Tally
from traces.intake.unfinished import SAVE_EVERY_S, resumed, save
from traces.source.inputs import Refused, expand
from traces.source.sources import Source

__all__ = ["NothingUsable", "Options", "Progress", "ingest"]


class NothingUsable(ValueError):
    """No request could be read; `receipt` says why."""

    def __init__(self, receipt: dict[str, Any]) -> None:
        reasons = [r["reason"] for r in receipt["rejects"]]
        reasons += [w for w in receipt["warnings"] if w.startswith(NO_REQUEST)]
        super().__init__(f"nothing usable: {reasons[0] if reasons else 'no input held a request'}")
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
        traces.dataset.layout.NotADataset: if `dataset` is a folder but not a dataset.
    """
    if dataset is None:
        return _ingest(inputs, None, _Ingest(options or Options(), watch, executor))
    with writer(Path(dataset), wait, heard) as path:
        return _ingest(inputs, path, _Ingest(options or Options(), watch, executor))


def _ingest(inputs: list[str], path: Path | None, reading: _Ingest) -> dict[str, Any]:
    """Open the dataset among the inputs as it is, then read the others into it."""
    datasets, others = datasets_among(inputs)
    receipt = adopt(datasets, path, reading.tally, reading.options) if datasets else None
    if others or not datasets:
        return reading.run(others, path)
    if receipt is None:
        receipt = nothing_read(path, reading.tally)
        if not reading.tally.repeats:
            raise NothingUsable(receipt)
    return receipt


class _Ingest:
    def __init__(self, options: Options, watch: Watcher | None, executor: Executor | None) -> None:
        self.options = options
        self.executor = executor
        self.reporter = Reporter(watch)
        self.saved = time.monotonic()
        self.tokenizer = LazyTokenizer(options.tokenizer)
        if options.format is not None:
            readers.reader(options.format)
        checked_mapping(options.mapping)
        self.tally = Tally()

    def _open_dataset(self) -> None:
        """A new builder, the dataset's, or the one that a killed ingest of the same dataset left."""
        self.base: str | None = None
        self.old_copies = self.old_fingerprints = self.old_inputs = 0
        self.builder, self.resumed = Builder(), False
        path = self.path
        if path is None:
            return
        if path.exists() and not is_unfinished(path):
            dataset = Dataset(path)
            self.base = dataset.key
            self.builder = restore(dataset)
            self.old_copies = int(dataset.manifest.get("copies", 0))
            self.old_fingerprints = int(dataset.manifest.get("copies_by_fingerprint", 0))
            self.old_inputs = len(self.builder.inputs)
        unfinished = resumed(path, self.base, self.plan)
        if unfinished is not None:
            self.builder, self.tally = unfinished
            self.resumed = True
        self.builder.keep_excerpts = self.options.keep_excerpts

    def run(self, inputs: list[str], path: Path | None) -> dict[str, Any]:
        """Read `inputs` into the dataset at `path`."""
        self.path = path
        sources = self._sources(inputs)
        self._open_dataset()
        self.reporter.total = len(sources)
        thresholds = gc.get_threshold()
        gc.set_threshold(200_000, 20, 20)  # records are many, short-lived and hold no cycles
        try:
            self._read(sources)
        finally:
            gc.set_threshold(*thresholds)
        return self._finish(len(sources))

    def _sources(self, inputs: list[str]) -> list[Source]:
        found: list[Source] = []
        spool = None if self.path is None else spool_of(self.path)
        if spool is not None:
            try:
                spool.mkdir(mode=0o700)
            except OSError:
                spool = None  # a folder whose neighbours belong to someone else
        for item in without_datasets(list(expand(inputs, self.options.limits, spool))):
            if isinstance(item, Refused):
                self.tally.refused(item.name, item.reason, item.skipped)
            else:
                found.append(item)
        plan = repr((self.options, sorted((source.name, source.size) for source in found)))
        self.plan = hashlib.sha256(plan.encode("utf-8", "surrogateescape")).hexdigest()
        return found

    def _read(self, sources: list[Source]) -> None:
        reader = InputReader(
            self.builder, self.options, self.tokenizer, self.tally, self.reporter, self.executor, self.resumed
        )
        for place in reader.read(sources):
            if self.path is not None and time.monotonic() - self.saved > SAVE_EVERY_S and place + 1 < len(sources):
                finished = finish(self.builder)
                self._take_late()
                manifest = self._manifest(finished, {})
                save(self.path, finished, manifest, self.base, self.plan, self.builder, self.tally)
                self.saved = time.monotonic()

    def _finish(self, total: int) -> dict[str, Any]:
        self.reporter.report("writing", total, self.builder.rows)
        give_back()
        finished = finish(self.builder)
        self._take_late()
        self.tally.copies(finished.copies - self.old_copies, finished.by_fingerprint - self.old_fingerprints)
        tables = finished.tables
        usage = self.builder.findings(self.old_inputs)
        receipt = self.tally.receipt(tables, self.builder.first_new_row, self.options, self.path, usage)
        receipt["warnings"] += finished.warnings
        new_inputs = len(self.builder.inputs) > self.old_inputs
        if self.options.keep_excerpts and not (new_inputs and self.builder.excerpts):
            why = "no two prompts with known text differ" if new_inputs else "no input is new"
            receipt["warnings"].append(f"no changed text was stored: {why}")
        if self.path is not None:
            nothing_new = not receipt["requests"] and not receipt["records"]["duplicate"] and not self.tally.repeats
            if tables["requests"].is_empty() or nothing_new:
                raise NothingUsable(receipt)
            if new_inputs:
                finished.private["receipt.json"] = receipt
                write_generation(self.path, tables, self._manifest(finished, receipt), finished.private)
            remove(partial_of(self.path))
        self.reporter.report("done", total, self.builder.rows)
        return receipt

    def _take_late(self) -> None:
        """Count requests that turned out to be unusable after their input's counts were taken."""
        names = {i.label: i.name for i in self.builder.inputs}
        requests = self.builder.requests
        self.tally.late([(names[label], ordinal, reason) for label, ordinal, reason in requests.late])
        requests.rejects += requests.late
        requests.late = []

    def _manifest(self, finished: Finished, receipt: dict[str, Any]) -> dict[str, Any]:
        inputs, tables = self.builder.inputs, finished.tables
        order = input_order(inputs)
        tokenizers = tables["sources"]["tokenizer"].drop_nulls().unique().to_list()
        return {
            "tokenizers": sorted(tokenizers),
            "tokenizer_digest": self.tokenizer.digest if self.tokenizer.used else None,
            "one_trace": self.options.one_trace,
            "rows": {name: table.height for name, table in tables.items()},
            "copies": finished.copies,
            "copies_by_fingerprint": finished.by_fingerprint,
            "inputs": [
                {"label": i.label, "order": order[i.label], "format": i.format, "digest": i.digest} for i in inputs
            ],
            "receipt": {k: v for k, v in receipt.items() if k not in ("dataset", "rejects")},
        }
