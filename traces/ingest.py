"""Files to a dataset: detect, read, build the tree, write once; with a receipt that counts everything."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from traces import readers
from traces.builder import Builder
from traces.dataset import MANIFEST, SCHEMA_VERSION, Dataset, write_generation
from traces.records import Context, Record, Reject
from traces.sources import Limits, Refused, Source, expand
from traces.tables import finish, input_order, restore
from traces.tokens import Tokenizer, load_tokenizer

LISTED_REJECTS = 100
LISTED_WARNINGS = 50


class Options(NamedTuple):
    """How inputs are read; the command line's flags of the same names."""

    format: str | None = None
    mapping: dict[str, str] | None = None
    block_tokens: int | None = None
    tokenizer: str = "o200k_base"
    time_unit: str | None = None
    one_trace: bool = False
    limits: Limits = Limits()
    keep_excerpts: bool = False


class Progress(NamedTuple):
    """How far an ingest is: inputs done and known, bytes read, requests, seconds."""

    stage: str
    done: int
    total: int
    bytes_read: int
    requests: int
    seconds: float


Watcher = Callable[[Progress], None]


class NothingUsable(ValueError):
    """No request could be read; `receipt` says why."""

    def __init__(self, receipt: dict[str, Any]) -> None:
        first = receipt["rejects"][0]["reason"] if receipt["rejects"] else "no input held a request"
        super().__init__(f"nothing usable: {first}")
        self.receipt = receipt


class _LazyTokenizer:
    """Loads its ranks when the first text is counted: hash traces never pay for it."""

    def __init__(self, name: str) -> None:
        self._asked = name
        self._loaded: Tokenizer | None = None
        if name not in ("o200k_base", "cl100k_base", "bytes") and not Path(name).exists():
            load_tokenizer(name)

    @property
    def used(self) -> bool:
        return self._loaded is not None

    def __getattr__(self, attribute: str) -> Any:
        if self._loaded is None:
            self._loaded = load_tokenizer(self._asked)
        return getattr(self._loaded, attribute)


def ingest(
    inputs: list[str],
    dataset: str | Path | None,
    options: Options | None = None,
    watch: Watcher | None = None,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Read `inputs` into the dataset at `dataset` (made, or appended to) and return the receipt.

    Args:
        inputs: files, folders, zips, or "-".
        dataset: the folder to write; None only checks (the receipt's dataset is then "").
        options: how to read.
        watch: called with progress, at most a few times a second.
        executor: where files are read; None reads here.

    Raises:
        NothingUsable: if no request could be read and the dataset would be empty; nothing is written.
        traces.readers.UnknownFormat, ValueError: for options that name nothing.
        traces.dataset.NotADataset: if `dataset` is a folder that is no dataset.
    """
    return _Ingest(options or Options(), watch, executor).run(inputs, None if dataset is None else Path(dataset))


class _Ingest:
    def __init__(self, options: Options, watch: Watcher | None, executor: Executor | None) -> None:
        self.options = options
        self.executor = executor
        self.watch = watch
        self.started = time.monotonic()
        self.told = 0.0
        self.tokenizer = _LazyTokenizer(options.tokenizer)
        if options.format is not None:
            readers.reader(options.format)
        self.files: Counter[str] = Counter(read=0, skipped=0, failed=0)
        self.formats: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self.rejects: list[dict[str, Any]] = []
        self.warnings: list[str] = []
        self.bytes = 0

    def run(self, inputs: list[str], path: Path | None) -> dict[str, Any]:
        builder = self._builder(path)
        known = {i.digest for i in builder.inputs}
        before = len(builder.inputs)
        sources = self._sources(inputs)
        thresholds = gc.get_threshold()
        gc.set_threshold(200_000, 20, 20)  # records are many, short-lived and hold no cycles
        try:
            self._read_all(builder, sources, known)
        finally:
            gc.set_threshold(*thresholds)
        return self._finish(builder, path, before, len(sources))

    def _read_all(self, builder: Builder, sources: list[Source], known: set[str]) -> None:
        claimed: set[int] = set()
        for place, source in enumerate(sources):
            self._tell("reading", place, len(sources), builder.rows)
            if id(source) in claimed:
                self.files["read"] += 1
                continue
            try:
                self._one(builder, source, known, partial(self._reading, place, len(sources), builder))
            finally:
                claimed.update(id(source.siblings[name]) for name in source.claims)
                source.close()
                self.bytes += source.bytes_read

    def _finish(self, builder: Builder, path: Path | None, before: int, total: int) -> dict[str, Any]:
        self._tell("writing", total, total, builder.rows)
        tables, private, copies = finish(builder)
        new_copies = copies - self._old_copies if path is not None else copies
        self.records["duplicate"] += max(0, new_copies)
        self.records["used"] -= max(0, new_copies)
        receipt = self._receipt(builder, tables, path)
        if path is not None:
            if tables["requests"].is_empty():
                raise NothingUsable(receipt)
            if len(builder.inputs) > before:
                manifest = self._manifest(builder, tables, receipt)
                private["receipt.json"] = receipt
                write_generation(path, tables, manifest, private)
        self._tell("done", total, total, builder.rows)
        return receipt

    def _reading(self, place: int, total: int, builder: Builder) -> None:
        self._tell("reading", place, total, builder.rows)

    def _builder(self, path: Path | None) -> Builder:
        self._old_copies = 0
        if path is None or not path.exists() or (path.is_dir() and not any(path.iterdir())):
            if path is not None and path.exists():
                path.rmdir()
            return Builder()
        dataset = Dataset(path)
        builder = restore(dataset)
        self._old_copies = int(dataset.manifest.get("copies", 0))
        return builder

    def _sources(self, inputs: list[str]) -> list[Source]:
        found: list[Source] = []
        for item in expand(inputs, self.options.limits):
            if isinstance(item, Refused):
                self.files["skipped" if item.skipped else "failed"] += 1
                self._reject(item.name, 0, item.reason, listed=not item.skipped)
                if item.skipped:
                    self.warnings.append(f"skipped a file: {item.reason}")
            else:
                found.append(item)
        self._single = len(found) == 1
        return found

    def _one(self, builder: Builder, source: Source, known: set[str], tell: Callable[[], None]) -> None:
        name = self.options.format
        try:
            if self._single and not known:
                source.hash_while_reading()
            elif builder.digest.hex(source.digest()) in known:
                self.files["skipped"] += 1
                self.warnings.append("an input was skipped: its content is already in the dataset")
                return
            if name is None:
                name, _ = readers.detect(source)
        except readers.UnknownFormat as error:
            self.files["failed" if self._single else "skipped"] += 1
            self._reject(source.name, 0, str(error), listed=True)
            return
        except (OSError, ValueError) as error:
            self.files["failed"] += 1
            self._reject(source.name, 0, f"cannot be read: {type(error).__name__}", listed=True)
            return
        reader = readers.reader(name)
        scope = getattr(reader, "SESSION_SCOPE", "input")
        unit = self.options.time_unit or getattr(reader, "TIME_UNIT", None)
        builder.begin(source.name, name, scope, self.options.one_trace, self.options.tokenizer, unit)
        rejected = len(builder.rejects)
        context = Context(
            tokenizer=self.tokenizer,  # type: ignore[arg-type]  # stands in for one until it is used
            digest=builder.digest,
            block_tokens=self.options.block_tokens,
            time_unit=self.options.time_unit,
            mapping=self.options.mapping,
            options={"keep_excerpts": self.options.keep_excerpts},
        )
        builder.take(self._watched(reader.read(source, context), tell))
        if source.truncated:
            builder.take([Reject(0, "the compressed stream is cut off or damaged; what could be unpacked was used")])
        digest = builder.digest.hex(source.digest())
        counts = builder.end(digest)
        self.records.update(counts)
        known.add(digest)
        self.formats[name] += 1
        self.files["read"] += 1
        for _, ordinal, reason in builder.rejects[rejected:]:
            self._reject(source.name, ordinal, reason, listed=True, counted=True)
        builder.notes, notes = Counter(), builder.notes
        for text in notes:
            self.warnings.append(text)

    def _watched(self, records: Iterator[Record], tell: Callable[[], None]) -> Iterator[Record]:
        seen = 0
        try:
            for record in records:
                seen += 1
                if not seen & 0x3FF:
                    tell()
                yield record
        except (
            RecursionError,
            MemoryError,
            UnicodeError,
            LookupError,
            TypeError,
            ValueError,
            OSError,
            EOFError,
        ) as error:
            yield Reject(0, f"reading stopped here ({type(error).__name__}); what came before was used")

    def _reject(self, name: str, ordinal: int, reason: str, listed: bool, counted: bool = False) -> None:
        if listed and len(self.rejects) < LISTED_REJECTS:
            self.rejects.append({"file": name, "line": ordinal, "reason": reason})

    def _tell(self, stage: str, done: int, total: int, requests: int) -> None:
        now = time.monotonic()
        if self.watch is not None and (now - self.told > 0.2 or stage != "reading"):
            self.told = now
            self.watch(Progress(stage, done, total, self.bytes, requests, now - self.started))

    def _receipt(self, builder: Builder, tables: dict[str, Any], path: Path | None) -> dict[str, Any]:
        import polars as pl

        requests, sources = tables["requests"], tables["sources"]
        new = requests.filter(pl.col("request_id") >= builder.first_new_row)
        counts = {k: self.records[k] for k in ("used", "rejected", "duplicate", "ignored")}
        used = sources.filter(pl.col("source_id").is_in(new["source_id"].unique().to_list()))
        blocks = used["native_block_tokens"].max()
        basis = used["time_basis"].unique().to_list() or ["none"]
        units = [u for u in used["time_unit"].unique().to_list() if u]
        tokenized = bool(used["tokenizer"].drop_nulls().len())
        incomplete = new.filter(pl.col("output_complete").eq(False)).height
        unknown = new.filter(pl.col("input_tokens").is_null()).height
        warnings = [*dict.fromkeys(self.warnings)]
        if tokenized and used.filter(pl.col("lengths") == "tokenizer").height:
            warnings.append(
                f"lengths counted with {self.options.tokenizer} are estimates where the model's own tokenizer differs"
            )
        return {
            "dataset": "" if path is None else str(path),
            "formats": dict(sorted(self.formats.items())),
            "files": dict(self.files),
            "records": {"read": sum(counts.values()), **counts},
            "requests": new.height,
            "sessions": new["session_id"].drop_nulls().n_unique(),
            "input_tokens": _known_sum(new["input_tokens"]),
            "output_tokens": _known_sum(new["output_tokens"]),
            "unknown_usage_requests": unknown,
            "incomplete_output_requests": incomplete,
            "failed_attempts": self.records["failed_attempt"],
            "block_size": blocks if blocks and blocks > 1 else None,
            "tokenizer": self.options.tokenizer if tokenized else None,
            "time_basis": basis[0] if len(basis) == 1 else "mixed",
            "time_unit": units[0] if len(units) == 1 else ("mixed" if units else None),
            "rejects": self.rejects,
            "warnings": warnings[:LISTED_WARNINGS],
        }

    def _manifest(self, builder: Builder, tables: dict[str, Any], receipt: dict[str, Any]) -> dict[str, Any]:
        order = input_order(builder.inputs)
        tokenizers = tables["sources"]["tokenizer"].drop_nulls().unique().to_list()
        nameless = {k: v for k, v in receipt.items() if k not in ("dataset", "rejects")}
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": "tracetower",
            "tool_version": _version(),
            "tokenizers": sorted(tokenizers),
            "tokenizer_digest": self.tokenizer.digest if self.tokenizer.used else None,
            "one_trace": self.options.one_trace,
            "rows": {name: table.height for name, table in tables.items()},
            "copies": int(self._old_copies + max(0, receipt["records"]["duplicate"])),
            "inputs": [
                {"label": i.label, "order": order[i.label], "format": i.format, "digest": i.digest}
                for i in builder.inputs
            ],
            "receipt": nameless,
        }


def _known_sum(series: Any) -> int | None:
    known = series.drop_nulls()
    return int(known.sum()) if known.len() else None


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tracetower")
    except PackageNotFoundError:
        return "0"


def is_dataset(path: Path) -> bool:
    """True where `path` holds a dataset."""
    return (path / MANIFEST).is_file()
