"""Ingest of transcripts against orjson.loads of the bytes plus tiktoken on the distinct text.

    python tests/benchmarks/transcripts.py FILE_OR_FOLDER [COPIES]

COPIES (default 40) repeats the files with fresh ids and text, so that start-up is not what is measured.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from traces.ingest import Options, ingest
from traces.tokens import load_tokenizer

FOLDER = Path(tempfile.gettempdir()) / "tracetower-bench" / "transcripts"


def made(sources: list[Path], copies: int) -> list[Path]:
    """Copies of transcripts whose ids and words differ, so that nothing is a duplicate."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    out = []
    for n in range(copies):
        for source in sources:
            data = source.read_bytes()
            data = re.sub(rb'"(id|uuid|parentUuid|requestId|sessionId)": ?"([^"]+)"', rb'"\1":"\2-%d"' % n, data)
            data = data.replace(b"the ", b"the%d " % n)
            path = FOLDER / f"{n:04d}-{source.name}"
            path.write_bytes(data)
            out.append(path)
    return out


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
    start = time.process_time()
    found: set[str] = set()
    for file in files:
        for line in file.read_bytes().splitlines():
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(record, dict) and isinstance(record.get("message"), dict):
                texts(record["message"].get("content"), found)
    parsed = time.process_time()
    for text in found:
        tokenizer.count(text)
    counted = time.process_time()
    shutil.rmtree(FOLDER / "ds", ignore_errors=True)
    receipt = ingest([str(f) for f in files], FOLDER / "ds", Options())
    done = time.process_time()
    base = counted - start
    print(
        f"{len(files)} files, {size:.0f} MB, {receipt['requests']:,} requests: ingest {done - counted:.2f} s CPU "
        f"({size / (done - counted):.0f} MB/s); orjson {parsed - start:.2f} s + tiktoken on distinct text "
        f"{counted - parsed:.2f} s: ratio {(done - counted) / base:.2f}"
    )


if __name__ == "__main__":
    main()
