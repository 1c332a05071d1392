"""Mutated files against a reader: nothing but data may come out of bad data.

By hand, on real files: `python -m tests.traces.formats.fuzz FORMAT FILE_OR_FOLDER... [--count N] [--seed N]`;
tests/RECORDS.md holds what was run.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.traces.formats.mutations import mutated, packed
from traces.dataset.building.builder import Builder
from traces.intake.ingest import NothingUsable, Options, ingest
from traces.intake.reading import LazyTokenizer, context_of, guarded
from traces.intake.registry import UnknownFormat, reader
from traces.source.inputs import expand
from traces.source.sources import Source

LONGEST_S = 10
"""CPU seconds that reading may take; what waits without computing may take a minute for each."""
WRITE_EVERY = 5


class Hang(BaseException):
    """Reading took longer than it may. No reader may take it for bad data."""


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise Hang after `seconds` of CPU time, as other jobs of the machine are no fault of a reader's."""

    def stop(*_: Any) -> None:
        raise Hang(f"more than {seconds} s")

    before = [signal.signal(name, stop) for name in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(60 * seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        for name, handler in zip((signal.SIGPROF, signal.SIGALRM), before, strict=True):
            signal.signal(name, handler)


class Figures(NamedTuple):
    """What a run took: mutations, failures (file, seed and error of each), worst CPU seconds, peak resident bytes."""

    mutations: int
    failures: list[str]
    worst_s: float
    peak_bytes: int


def fuzz(
    reader_name: str,
    files: Sequence[Path],
    n: int,
    first_seed: int = 0,
    named: bool = True,
    whole_every: int = 1,
    until: float | None = None,
    change: Callable[[str, bytes, int], tuple[str, bytes]] = mutated,
) -> Figures:
    """Ingest `n` mutations of `files` (files, or folders of which one file is changed).

    With `whole_every`, only so many mutations go all the way to a dataset's tables; the others are read into the tree.
    `until` (of time.monotonic()) ends the run early. `change` makes (name, content) of a file's (name, content, seed).
    """
    failures: list[str] = []
    worst, done = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        once(reader_name, files[0], Path(folder) / "warm")  # what is compiled and loaded once is no part of the figures
        for seed in range(first_seed, first_seed + n):
            if until is not None and time.monotonic() > until:
                break
            original = files[seed % len(files)]
            place = Path(folder) / str(seed)
            place.mkdir()
            target = _changed(original, place, seed, change)
            started = time.process_time()
            try:
                with _at_most(LONGEST_S * (4 if change is packed else 1)):  # damage may unpack to 100 MB
                    if seed % whole_every:
                        read_only(reader_name, target)
                    else:
                        written = place / "ds" if seed // whole_every % WRITE_EVERY == 0 else None
                        once(reader_name if named else None, target, written)
            except BaseException as error:  # a panic of a library is no Exception
                if isinstance(error, KeyboardInterrupt):
                    raise
                kept = Path(tempfile.gettempdir()) / f"fuzz-{reader_name}-{seed}{original.suffix}"
                if target.is_file():
                    shutil.copy(target, kept)
                failures.append(f"{reader_name}: seed {seed} of {original.name}, kept as {kept}: {error!r}"[:600])
            worst, done = max(worst, time.process_time() - started), done + 1
            shutil.rmtree(place)
    return Figures(done, failures, worst, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _changed(original: Path, place: Path, seed: int, change: Callable[[str, bytes, int], tuple[str, bytes]]) -> Path:
    target = place / original.name
    if original.is_file():
        name, data = change(original.name, original.read_bytes(), seed)
        (place / name).write_bytes(data)
        return place / name
    shutil.copytree(original, target)
    inner = sorted(p for p in target.rglob("*") if p.is_file())
    chosen = inner[random.Random(seed).randrange(len(inner))]
    name, data = change(chosen.name, chosen.read_bytes(), seed)
    chosen.unlink()
    chosen.with_name(name).write_bytes(data)
    return target


def once(format_name: str | None, target: Path, dataset: Path | None) -> None:
    """Ingest one input and check what must hold whatever it is."""
    try:
        receipt = ingest([str(target)], dataset, Options(format=format_name, tokenizer="bytes"))
    except NothingUsable as error:
        receipt = error.receipt
    except UnknownFormat:
        return
    records = receipt["records"]
    parts = [records[k] for k in ("used", "rejected", "duplicate", "ignored")]
    assert all(count >= 0 for count in parts), f"a negative count: {records}"
    assert records["read"] == sum(parts), f"counts do not add up: {records}"
    assert receipt["requests"] <= records["used"], f"{receipt['requests']} requests of {records['used']} used records"
    stopped = [r["reason"] for r in receipt["rejects"] if r["reason"].startswith("reading stopped")]
    assert not stopped, stopped[0]
    assert records["read"] or receipt["rejects"] or receipt["warnings"], "an input about which nothing is said"


def read_only(format_name: str, target: Path) -> None:
    """Read one input into a tree, without the tables of a dataset: what differs between mutations, and quick."""
    builder = Builder()
    module = reader(format_name)
    context = context_of(Options(), LazyTokenizer("bytes"), builder.digest, builder.texts)
    claimed: set[int] = set()
    for source in list(expand([str(target)])):
        if not isinstance(source, Source) or id(source) in claimed:
            continue
        builder.begin(source.name, format_name, getattr(module, "SESSION_SCOPE", "input"), tokenizer="bytes")
        try:
            builder.take(guarded(source, partial(module.read, source, context)))
        finally:
            claimed.update(id(source.siblings[name]) for name in source.claims)
            source.close()
        counts = builder.end()
        builder.flush()
        assert all(count >= 0 for count in counts.values()), f"a negative count: {dict(counts)}"
        assert counts["used"] >= sum(
            f.height for f in builder.requests.frames if f["input_label"][0] == builder.input.label
        )
    stopped = [reason for _, _, reason in builder.requests.rejects if reason.startswith("reading stopped")]
    assert not stopped, stopped[0]


def main(arguments: list[str]) -> int:
    """Fuzz one format from the command line; print the figures as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("format")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=None, help="stop after so long")
    parser.add_argument("--detect", action="store_true", help="tell the format by content instead")
    parser.add_argument("--packed", action="store_true", help="in containers, most of them damaged")
    parser.add_argument("--whole-every", type=int, default=10, help="how often a mutation becomes tables")
    options = parser.parse_args(arguments)
    until = None if options.seconds is None else time.monotonic() + options.seconds
    every, change = 1 if options.detect else options.whole_every, packed if options.packed else mutated
    found = fuzz(options.format, options.files, options.count, options.seed, not options.detect, every, until, change)
    told = {"format": options.format, "files": len(options.files), "first_seed": options.seed, **found._asdict()}
    print(json.dumps(told))
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
