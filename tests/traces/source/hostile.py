"""Small files that ask for much time or memory, and what reading each of them takes.

    python -m tests.traces.source.hostile [NAME...]

reads each file in a process of its own, as the app reads an upload, and prints its size, the seconds and the peak
memory above that of the imports. tests/RECORDS.md holds what was measured.
"""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import zstandard

MIB = 1 << 20
LONGEST_S = 180
READ = """
import json, pathlib, resource, sys, tempfile, time
from traces.intake.ingest import NothingUsable, Options, ingest
from traces.intake.registry import READERS, reader
from traces.source.limits import UPLOAD_LIMITS
import pyarrow.parquet, pyarrow.compute, traces.source.database
for name in READERS:
    reader(name)
with tempfile.TemporaryDirectory() as folder:  # compiled code is loaded
    warm = pathlib.Path(folder) / "warm.jsonl"
    warm.write_text('{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}')
    ingest([str(warm)], None)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before, started = peak(), time.process_time()
try:
    receipt = ingest([sys.argv[1]], None, Options(tokenizer="bytes", limits=UPLOAD_LIMITS))
except NothingUsable as error:
    receipt = error.receipt
reasons = [one["reason"] for one in receipt["rejects"]][:1]
print(json.dumps([time.process_time() - started, peak() - before, receipt["records"], reasons]))
"""
CALL = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}
CLINE = {"ts": 1772359200000, "type": "say", "say": "api_req_started", "text": "{}"}


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=19).compress(data)


def _of_lists(count: int) -> bytes:
    """A record that is a few bytes a value, and much more in memory."""
    return b'{"type": "user", "say": "text", "ts": 1, "message": [' + b"[]," * count + b"[]]}"


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of entries by name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, compresslevel=9) as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return out.getvalue()


def _nested() -> bytes:
    inner = zipped({f"{n}.jsonl": json.dumps(CALL).encode() + b"\n" * MIB for n in range(20)})
    for depth in range(3):
        inner = zipped({f"{n}-{depth}.zip": inner for n in range(12)})
    return inner


def _parquet(rows: int, text_bytes: int) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * text_bytes]))
    table = pa.table({"prompt": texts, "input_tokens": [1] * rows, "other": texts})
    pq.write_table(table, out, compression="zstd", use_dictionary=["prompt", "other"])
    return out.getvalue()


def _plain_parquet(rows: int, text_bytes: int) -> bytes:
    """Texts that are not kept as a dictionary, each written out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    schema = pa.schema([("input_tokens", pa.int64()), ("prompt", pa.large_string()), ("ids", pa.list_(pa.int64()))])
    with pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=False, write_statistics=False) as file:
        batch = {"input_tokens": [1] * rows, "prompt": ["x" * text_bytes] * rows, "ids": [[0] * text_bytes] * rows}
        file.write_table(pa.table(batch, schema))
    return out.getvalue()


def _sglang(middle: str) -> bytes:
    return f"[2026-01-01 00:00:00] Receive: obj=GenerateReqInput(rid='a', text={middle})\n".encode()


FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "newlines.zst": ("newlines.jsonl.zst", lambda: _zstd(json.dumps(CALL).encode() + b"\n" * (512 * MIB))),
    "blank lines.zst": ("blank.jsonl.zst", lambda: _zstd(json.dumps(CALL).encode() + b" \n" * (256 * MIB))),
    "lists.json.gz": ("lists.jsonl.gz", lambda: gzip.compress(_of_lists(20 * MIB))),
    "array of lists.zst": ("ui_messages.json.zst", lambda: _zstd(
        b"[" + b",".join([json.dumps(CLINE).encode(), *[_of_lists(1000)] * 40_000]) + b"]")),
    "small records.zst": ("ui_messages.json.zst", lambda: _zstd(
        b"[" + b",".join([json.dumps(CLINE).encode()] * 1_000_000) + b"]")),
    "open quote.csv.zst": ("rows.csv.zst", lambda: _zstd(
        b"timestamp,input_tokens,output_tokens\n1,2,3\n1,\"2,3\n" + b"1,2,3\n" * (20 * MIB))),
    "open quotes.csv.zst": ("rows.csv.zst", lambda: _zstd(
        b"timestamp,input_tokens,output_tokens\n1,2,3\n" + b"1,\"2,3\n\n" * (16 * MIB))),
    "quotes.csv.zst": ("rows.csv.zst", lambda: _zstd(
        b"timestamp,input_tokens,output_tokens\n1,2,3\n1," + b'""' * (64 * MIB))),
    "zips in zips": ("nested.zip", _nested),
    "dictionary.parquet": ("rows.parquet", lambda: _parquet(4_000_000, 4000)),
    "plain.parquet": ("rows.parquet", lambda: _plain_parquet(512, MIB // 2)),
    "sample.eval": ("log.eval", lambda: zipped(
        {"_journal/start.json": b"{}", "samples/1_epoch_1.json": b'{"events": [' + b"{}," * (40 * MIB) + b"{}]}"})),
    "sglang quotes": ("sglang.log", lambda: _sglang("\"" + "\\'" * 20_000)),
    "sglang halves": ("sglang.log", lambda: _sglang("'" + "' ... '" * 6_000)),
    "sglang fields": ("sglang.log", lambda: _sglang("a=" + "'" * 40_000)),
    "sglang spaces": ("sglang.log", lambda: _sglang(" " * 40_000 + "x," * 10)),
    "sglang brackets": ("sglang.log", lambda: _sglang("[" * 20_000 + "{'a': " * 5_000)),
    "sglang receives": ("sglang.log", lambda: b"Receive: obj=" * 3_000 + b"\n"),
}  # fmt: skip


def write(name: str, folder: Path) -> Path:
    """The file of that name in a folder."""
    file, make = FILES[name]
    path = folder / file
    path.write_bytes(make())
    return path


def main(names: list[str]) -> int:
    """Read each file and print what it took."""
    print("| file | KB | s | MB | records read | first reason |\n|---|---|---|---|---|---|")
    for name in names or FILES:
        with tempfile.TemporaryDirectory() as folder:
            path = write(name, Path(folder))
            size = path.stat().st_size / 1024
            try:
                done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, timeout=LONGEST_S)
            except subprocess.TimeoutExpired:
                print(f"| {name} | {size:,.1f} | over {LONGEST_S} | | | |", flush=True)
                continue
            if done.returncode:
                print(f"| {name} | {size:,.1f} | exit {done.returncode}: {done.stderr[-200:]!r} | | | |", flush=True)
                continue
            seconds, megabytes, records, reasons = json.loads(done.stdout)
            reason = reasons[0] if reasons else ""
            figures = f"{size:,.1f} | {seconds:.1f} | {megabytes:,} | {records['read']:,}"
            print(f"| {name} | {figures} | {reason} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
