"""Mutated files against a reader: nothing but data may come out of bad data.

By hand, on real files: `python -m tests.traces.formats.fuzz FORMAT FILE_OR_FOLDER... [--count N] [--seed N]`;
tests/RECORDS.md holds what was run.
"""

from __future__ import annotations

import argparse
import json
import random
import re
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

from traces.dataset.building.builder import Builder
from traces.intake.ingest import NothingUsable, Options, ingest
from traces.intake.reading import LazyTokenizer, context_of, guarded
from traces.intake.registry import UnknownFormat, reader
from traces.source.inputs import expand
from traces.source.sources import Source

LONGEST_S = 10
"""CPU seconds that reading may take; what waits without computing may take a minute for each."""
WRITE_EVERY = 5
WINDOW_BYTES = 2048

_JUNK = [
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"1.5",
    b"9223372036854775808",
    b"36893488147419103232",
    b"-9223372036854775809",
    b"1e15",
    b'""',
    b'"x"',
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"[[]]",
    b"[1.5]",
    b"[null]",
    b'{"a":{"a":{"a":1}}}',
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b",",
    b"\n",
    b"\r\n",
    b"[" * 3000,
    b"2026-13-45T99:99:99Z",
    b"0001-01-01T00:00:00+14:00",
    b"9999-12-31T23:59:59-14:00",
]
_VALUE = re.compile(rb'-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|"(?:[^"\\\n]|\\.){0,200}"|true|false|null')


def mutate(data: bytes, seed: int) -> bytes:
    """`data` with one to eight random changes; the same for the same seed."""
    rnd = random.Random(seed)
    for _ in range(rnd.randint(1, 8)):
        data = rnd.choice(_CHANGES)(data, rnd)
    return data


def _span(data: bytes, rnd: random.Random) -> tuple[int, int]:
    start = rnd.randrange(len(data) + 1)
    return start, min(len(data), start + int(rnd.expovariate(0.05)))


def _flip(data: bytes, rnd: random.Random) -> bytes:
    if not data:
        return data
    at = rnd.randrange(len(data))
    return data[:at] + bytes([rnd.randrange(256)]) + data[at + 1 :]


def _delete(data: bytes, rnd: random.Random) -> bytes:
    start, stop = _span(data, rnd)
    return data[:start] + data[stop:]


def _repeat(data: bytes, rnd: random.Random) -> bytes:
    start, stop = _span(data, rnd)
    return data[:stop] + data[start:stop] * rnd.randint(1, 3) + data[stop:]


def _insert(data: bytes, rnd: random.Random) -> bytes:
    at = rnd.randrange(len(data) + 1)
    return data[:at] + rnd.choice(_JUNK) + data[at:]


def _cut(data: bytes, rnd: random.Random) -> bytes:
    return data[: rnd.randrange(len(data) + 1)] if rnd.random() < 0.3 else data


def _value(data: bytes, rnd: random.Random) -> bytes:
    """Replace a value by another kind of value: what finds most of the errors."""
    start = max(0, rnd.randrange(len(data) + 1) - WINDOW_BYTES // 2)
    found = list(_VALUE.finditer(data, start, start + WINDOW_BYTES))
    if not found:
        return data
    one = rnd.choice(found)
    other = rnd.choice(_JUNK) if rnd.random() < 0.7 else rnd.choice(found).group()
    return data[: one.start()] + other + data[one.end() :]


def _lines(data: bytes, rnd: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = rnd.randrange(len(lines)), rnd.randrange(len(lines))
    if rnd.random() < 0.5:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines.insert(a, lines[b])
    return b"\n".join(lines)


_CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    _flip,
    _delete,
    _repeat,
    _insert,
    _cut,
    _value,
    _value,
    _value,
    _value,
    _lines,
]


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
) -> Figures:
    """Ingest `n` mutations of `files` (files, or folders of which one file is changed).

    With `whole_every`, only so many mutations go all the way to a dataset's tables; the others are read into the tree.
    `until` (of time.monotonic()) ends the run early.
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
            target = _mutated(original, place, seed)
            started = time.process_time()
            try:
                with _at_most(LONGEST_S):
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


def _mutated(original: Path, place: Path, seed: int) -> Path:
    target = place / original.name
    if original.is_file():
        target.write_bytes(mutate(original.read_bytes(), seed))
        return target
    shutil.copytree(original, target)
    inner = sorted(p for p in target.rglob("*") if p.is_file())
    chosen = inner[random.Random(seed).randrange(len(inner))]
    chosen.write_bytes(mutate(chosen.read_bytes(), seed))
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
    parser.add_argument("--whole-every", type=int, default=10, help="how often a mutation becomes tables")
    options = parser.parse_args(arguments)
    until = None if options.seconds is None else time.monotonic() + options.seconds
    found = fuzz(options.format, options.files, options.count, options.seed, not options.detect,
                 1 if options.detect else options.whole_every, until)  # fmt: skip
    told = {"format": options.format, "files": len(options.files), "first_seed": options.seed, **found._asdict()}
    print(json.dumps(told))
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
