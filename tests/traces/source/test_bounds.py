"""What a small file can ask for is bounded, for every way to pack one: steps and bytes are counted here, not time."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.traces.source.hostile import zipped
from traces.intake.ingest import NothingUsable, Options, ingest
from traces.source import containers, limits
from traces.source.database import BadDatabase, Database
from traces.source.inputs import Refused, expand
from traces.source.limits import Limits
from traces.source.rows import csv_rows
from traces.source.sources import Source

ROW = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}
ROWS = b"".join(json.dumps(ROW | {"timestamp": at}).encode() + b"\n" for at in range(5))
FILLER = b" " * 50 + b"\n"
SMALL = 10_000
"""The ratio is looked at above this many bytes here."""


def _lying_zip(data: bytes) -> bytes:
    """A zip that states a tenth of the size of what it holds."""
    size, packed = len(data).to_bytes(4, "little"), zipped({"a.jsonl": data})
    assert packed.count(size) == 2
    return packed.replace(size, (len(data) // 10).to_bytes(4, "little"))


def _parquet(_: bytes) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out, names = io.BytesIO(), ("timestamp", "input_tokens", "output_tokens")
    with pq.ParquetWriter(out, pa.schema([(name, pa.int64()) for name in names]), compression="zstd") as file:
        for rows in (5, 100_000):
            file.write_table(pa.table({name: [7] * rows for name in names}))
    return out.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "a.jsonl.gz": gzip.compress,
    "a.jsonl.zst": zstandard.ZstdCompressor().compress,
    "a.jsonl.bz2": bz2.compress,
    "a.jsonl.xz": lzma.compress,
    "a.jsonl.gz.gz": lambda data: gzip.compress(gzip.compress(data)),
    "a.jsonl.gz.zst": lambda data: zstandard.ZstdCompressor().compress(gzip.compress(data)),
    "a.zip": lambda data: zipped({"a.jsonl": data}),
    "nested.zip": lambda data: zipped({"b.zip": zipped({"a.jsonl": data})}),
    "a.parquet": _parquet,
}
LIMITS = {
    "times its size (unpack it yourself": Limits(ratio=20.0),
    "more than 100,000 bytes (split it)": Limits(total_bytes=100_000, ratio=1e9),
    "takes longer than -1 s to read (split it)": Limits(seconds=-1.0, ratio=1e9),
}


def _receipt(path: Path, options: Options) -> dict[str, Any]:
    try:
        return ingest([str(path)], None, options)
    except NothingUsable as error:
        return error.receipt


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", PACKED)
def test_a_limit_is_named_and_what_came_before_is_used(
    name: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RATIO_FROM_BYTES", SMALL)
    path = tmp_path / name
    path.write_bytes(PACKED[name](ROWS + FILLER * 100_000))
    receipt = _receipt(path, Options(limits=LIMITS[limit]))
    limited = [one for one in receipt["rejects"] if limit in one["reason"]]
    assert limited, receipt["rejects"]
    assert limited[0]["file"].startswith(name)
    refused_whole = name.endswith(".zip") or (name == "a.parquet" and "longer" in limit)
    assert receipt["requests"] == (0 if refused_whole else 5)
    counts = dict(receipt["records"])
    assert counts.pop("read") == sum(counts.values())


def test_an_entry_ends_where_the_zip_says(tmp_path: Path) -> None:
    path = tmp_path / "lying.zip"
    path.write_bytes(_lying_zip(ROWS + FILLER * 100_000))
    receipt = _receipt(path, Options())
    assert receipt["requests"] == 5
    assert "the zip's entry holds more than the zip says after" in receipt["rejects"][0]["reason"]


def test_a_database_is_read_within_the_same_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RATIO_FROM_BYTES", SMALL)
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE t (a TEXT, b TEXT GENERATED ALWAYS AS (a || a || a || a) VIRTUAL)")
        base.executemany("INSERT INTO t (a) VALUES (?)", [("x" * 1000,)] * 1000)
    base.close()
    for limit, words in zip((Limits(ratio=3.0), *list(LIMITS.values())[1:]), LIMITS, strict=True):
        with Database(Source("a.db", path, limits=limit)) as database:
            rows = database.rows("t")
            with pytest.raises(BadDatabase, match=words.split(" (")[0]):
                assert sum(1 for _ in rows) < 0
    with Database(Source("a.db", path)) as database:
        assert sum(len(row["b"]) for row in database.rows("t")) == 4_000_000


def test_an_honest_file_of_any_size_is_read_whole(tmp_path: Path) -> None:
    """Calls that repeat the conversation pack well: 40 MB in a few KB are below every limit, also that of uploads."""
    text = "".join(f"turn {at} says something else. " * 20 for at in range(100))
    rows = [{"timestamp": at, "input_tokens": at, "output_tokens": 1, "prompt": text} for at in range(700)]
    path = tmp_path / "calls.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b"\n".join(json.dumps(row).encode() for row in rows)))
    options = Options(tokenizer="bytes", limits=limits.UPLOAD_LIMITS)
    assert path.stat().st_size * 300 < 700 * len(text)
    assert _receipt(path, options)["requests"] == 700


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b" \n", b"\t \r\n"])
def test_blank_lines_are_passed_over_at_once(blank: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n' + blank * 1_000_000 + b'{"a": 2}')
    source = Source("a", path)
    lines = list(source.lines())
    assert [line for line in lines if line[1] and line[1].strip()] == [(1, b'{"a": 1}'), (1_000_002, b'{"a": 2}')]
    assert len(lines) < 5_000
    assert source.bytes_read == path.stat().st_size


def test_lists_in_a_record_are_passed_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: Counter[str] = Counter()
    for name in ("_open", "_close"):
        whole = getattr(containers._Cutter, name)
        monkeypatch.setattr(
            containers._Cutter, name, lambda self, whole=whole: (steps.update(["step"]), whole(self))[1]
        )
    record = b'{"a": [' + b'[], {"b": [1]},' * 5_000 + b"[]]}"
    found = list(containers.values(io.BytesIO(b"[" + b",".join([record] * 20) + b"]"), containers.Shape("array")))
    assert found == [record] * 20
    assert steps["step"] < 20 * 20


class _Little(io.BytesIO):
    """A stream that gives a KB at a time, as packed ones give less than is asked for."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(1024, 1024 if size is None or size < 0 else size))


def test_a_long_value_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    read_on = containers._Cutter._read_on
    monkeypatch.setattr(
        containers._Cutter, "_read_on", lambda self: (calls.append(len(self._buffer)), read_on(self))[1]
    )
    record = b'{"a": "' + b"x" * (8 << 20) + b'"}'
    assert list(containers.values(_Little(b"[" + record + b"]"), containers.Shape("array"))) == [record]
    assert sum(calls) < 4 * len(record)


def test_damaged_records_are_looked_at_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_AGAIN_BYTES", 0)
    again: list[int] = []
    restart = containers._Cutter._restart
    monkeypatch.setattr(
        containers._Cutter,
        "_restart",
        lambda self, value, start: (again.append(len(value)), restart(self, value, start))[1],
    )
    data = b"[\n" + b'{"a": [\n' * 20_000 + b"]"
    found = list(containers.values(io.BytesIO(data), containers.Shape("array")))
    assert sum(again) < 4 * len(data)
    assert sum(len(one or b"") for one in found) > len(data) * 0.9


def test_a_quote_that_is_never_closed_costs_one_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traces.source.rows.MAX_CELL_CHARS", 1000)
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n1,2\n3,"4\n' + b"5,6\n" * 10_000)
    source = Source("a.csv", path)
    rows = list(csv_rows(source))
    assert rows[:2] == [(2, {"a": "1", "b": "2"}), (3, "not valid CSV")]
    assert len(rows) > 9_000
    assert source.bytes_read == path.stat().st_size


def test_zips_in_a_zip_share_one_temporary_file_and_one_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    spool = tempfile.SpooledTemporaryFile
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", lambda **given: made.append(given) or spool(**given))
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({f"{n}.zip": zipped({"a.jsonl": b"%d" % n}) for n in range(50)}))
    found = list(expand([str(path)]))
    contents = {one.name: b"".join(line or b"" for _, line in one.lines()) for one in found if isinstance(one, Source)}
    assert contents == {f"a.zip/{n}.zip/a.jsonl": b"%d" % n for n in range(50)}
    assert len(made) == 1
    few = list(expand([str(path)], Limits(entries=60)))
    assert sum("holds more than 60 files" in one.reason for one in few if isinstance(one, Refused)) == 40


def test_rejects_without_end_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_REJECTS", 10)
    rows = ROWS + b"{\n" * 90
    for name, first in (("mooncake", b""), ("claude_code", b""), ("pi", b""), ("table", b"")):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(first + rows)
        receipt = _receipt(path, Options(format=name))
        counts = dict(receipt["records"])
        assert counts["rejected"] >= 90
        assert counts.pop("read") == sum(counts.values()) == 95
        assert sum(receipt["reject_reasons"].values()) <= 11
        assert any("counted and not listed" in text for text in receipt["warnings"])
