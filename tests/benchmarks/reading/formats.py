"""Reading speed of every format with real files: `python -m tests.benchmarks.reading.formats [FORMAT...]`.

CPU seconds of one process from bytes to the prefix tree (detection and the writing of tables apart), against
`orjson.loads` of the same bytes. Files are read again and again until at least 5 MB were; lengths without usage are
counted with o200k_base, as an ingest does. An input costs one to two milliseconds whatever it holds: formats of which
only files of a few KB are at hand are slower per byte than large files of theirs would be.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections import defaultdict
from pathlib import Path

import orjson

from traces.dataset.building.builder import Builder
from traces.intake.reading import LazyTokenizer, Options, context_of, guarded
from traces.intake.registry import READERS, UnknownFormat, detect, reader
from traces.source.sources import Source

TRACES = Path(__file__).resolve().parents[3].parent / "shared" / "traces"
LEAST_BYTES = 5_000_000
LARGEST_BYTES = 8_000_000


def files_by_format() -> dict[str, list[Path]]:
    """The real files of each format that can be read alone."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(p for p in TRACES.rglob("*") if p.is_file()):
        if "kv_cache_tester_100" in path.parts or "claude_code_message_samples" in path.parts:
            continue
        try:
            name, _ = detect(Source(path.name, path))
        except (UnknownFormat, ValueError):
            continue
        found[name].append(path)
    return found


def read_seconds(name: str, path: Path, tokenizer: LazyTokenizer) -> float:
    """CPU seconds from the file to the tree."""
    builder, module = Builder(), reader(name)
    source = Source(path.name, path)
    started = time.process_time()
    builder.begin(source.name, name, getattr(module, "SESSION_SCOPE", "input"))
    builder.take(guarded(module.read(source, context_of(Options(), tokenizer, builder.digest))))
    builder.end()
    builder.flush()
    return time.process_time() - started


def orjson_seconds(path: Path) -> float | None:
    """CPU seconds of orjson.loads, line by line or of the whole document; None where the file is no JSON."""
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    for parts in ([data], [line for line in data.split(b"\n") if line.strip()]):
        started = time.process_time()
        try:
            for part in parts:
                orjson.loads(part)
        except orjson.JSONDecodeError:
            continue
        return time.process_time() - started
    return None


def measure(name: str, paths: list[Path]) -> tuple[float, float | None]:
    """(MB/s, times orjson.loads) of a format."""
    paths = [p for p in paths if p.stat().st_size <= LARGEST_BYTES]
    tokenizer = LazyTokenizer("o200k_base")
    for path in paths[:2]:
        read_seconds(name, path, tokenizer)  # what is loaded and compiled once is no reading
    done, seconds, parsed, json_known = 0, 0.0, 0.0, True
    while done < LEAST_BYTES:
        for path in paths:
            seconds += read_seconds(name, path, tokenizer)
            alone = orjson_seconds(path)
            json_known = json_known and alone is not None
            parsed += alone or 0.0
            done += path.stat().st_size
            if seconds > 20:
                break
        if seconds > 20:
            break
    return done / 1e6 / seconds, seconds / parsed if json_known and parsed else None


def main(wanted: list[str]) -> None:
    """Print the table."""
    found = files_by_format()
    print("| format | files | KB a file | MB/s | × orjson.loads |\n|---|---:|---:|---:|---:|")
    for name in (n for n in READERS if n in found and (not wanted or n in wanted)):
        speed, ratio = measure(name, found[name])
        size = sum(p.stat().st_size for p in found[name]) / 1e3 / len(found[name])
        told = "–" if ratio is None else f"{ratio:.1f}"
        print(f"| {name} | {len(found[name])} | {size:,.1f} | {speed:.1f} | {told} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
