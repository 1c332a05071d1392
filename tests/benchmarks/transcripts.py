"""Ingest of transcripts against orjson.loads of the bytes plus tiktoken on the distinct text.

    python tests/benchmarks/transcripts.py FILE_OR_FOLDER [COPIES]

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

from analysis.executors import executor_for, workers_for
from traces.ingest import Options, ingest
from traces.tokens import load_tokenizer

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


def texts(value: Any, found: set[str]) -> None:
    """Every string of more than 40 characters under message content."""
    if isinstance(value, str):
        if len(value) > 40:
            found.add(value)
    elif isinstance(value, list):
        for item in value:
            texts(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            texts(item, found)


def main() -> None:
    """Print the ratio of one run."""
    root = Path(sys.argv[1])
    sources = [root] if root.is_file() else sorted(root.rglob("*.jsonl"))
    files = made(sources, int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    size = sum(f.stat().st_size for f in files) / 1e6
    tokenizer = load_tokenizer("o200k_base")
    ingest([str(files[0])], None, Options())
    start = time.perf_counter()
    found: set[str] = set()
    for file in files:
        for line in file.read_bytes().splitlines():
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(record, dict) and isinstance(record.get("message"), dict):
                texts(record["message"].get("content"), found)
    parsed = time.perf_counter()
    for text in found:
        tokenizer.count(text)
    counted = time.perf_counter()
    shutil.rmtree(FOLDER / "ds", ignore_errors=True)
    names = [str(f) for f in files]
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
