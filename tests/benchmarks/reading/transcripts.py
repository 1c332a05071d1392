"""Ingest of transcripts against orjson.loads of the bytes plus tiktoken on the distinct text.

    python tests/benchmarks/reading/transcripts.py FILE_OR_FOLDER [COPIES]

COPIES (default 40) repeats the files with fresh ids and texts, so that start-up is not what is measured.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from analysis.store.executors import executor_for, workers_for
from traces.intake.ingest import Options, ingest
from traces.text import tokens

IDS = {"id", "uuid", "parentUuid", "requestId", "sessionId", "tool_use_id", "agentId", "leafUuid"}
FOLDER = Path(tempfile.gettempdir()) / "tracetower-bench" / "transcripts"


def changed(value: Any, n: int) -> Any:
    """`value` with another start to every longer text and other ids, so that no copy is a duplicate of another."""
    if isinstance(value, list):
        return [changed(v, n) for v in value]
    if isinstance(value, dict):
        return {
            k: f"{v}-{n}" if k in IDS and isinstance(v, str) else f"{n} {v}" if isinstance(v, str) and len(v) > 40
            else changed(v, n) for k, v in value.items()
        }  # fmt: skip
    return value


def made(sources: list[Path], copies: int) -> list[Path]:
    """Copies of transcripts, each with its own ids and texts."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    out = []
    for source in sources:
        lines = []
        for line in source.read_bytes().splitlines():
            try:
                lines.append(orjson.loads(line))
            except orjson.JSONDecodeError:
                continue
        for n in range(copies):
            path = FOLDER / f"{n:04d}-{source.name}"
            path.write_bytes(b"\n".join(orjson.dumps(changed(line, n)) for line in lines))
            out.append(path)
    return sorted(out)


def counted_texts(names: list[str]) -> set[str]:
    """The distinct texts that an ingest counts, recorded in a run of its own that is not measured."""
    found: set[str] = set()
    count_all = tokens.Tokenizer.count_all

    def record(tokenizer: tokens.Tokenizer, texts: list[str]) -> list[int]:
        found.update(texts)
        return count_all(tokenizer, texts)

    tokens.Tokenizer.count_all = record  # type: ignore[method-assign]
    try:
        ingest(names, None, Options())
    finally:
        tokens.Tokenizer.count_all = count_all  # type: ignore[method-assign]
    return found


def main() -> None:
    """Print the ratio of one run."""
    root = Path(sys.argv[1])
    sources = [root] if root.is_file() else sorted(root.rglob("*.jsonl"))
    files = made(sources, int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    size = sum(f.stat().st_size for f in files) / 1e6
    names = [str(f) for f in files]
    tokenizer, found = tokens.load_tokenizer("o200k_base"), counted_texts(names)
    start = time.perf_counter()
    for file in files:
        for line in file.read_bytes().splitlines():
            orjson.loads(line)
    parsed = time.perf_counter()
    for text in found:
        tokenizer.count(text)
    counted = time.perf_counter()
    shutil.rmtree(FOLDER / "ds", ignore_errors=True)
    with executor_for("local", workers_for(names)) as executor:
        receipt = ingest(names, FOLDER / "ds", Options(), executor=executor)
    done = time.perf_counter()
    base = counted - start
    print(
        f"{workers_for(names)} process(es), {len(files)} files, {size:.0f} MB, {receipt['requests']:,} requests: "
        f"ingest {done - counted:.2f} s ({size / (done - counted):.0f} MB/s); orjson {parsed - start:.2f} s + tiktoken "
        f"on distinct text {counted - parsed:.2f} s: ratio {(done - counted) / base:.2f}"
    )


if __name__ == "__main__":
    main()
