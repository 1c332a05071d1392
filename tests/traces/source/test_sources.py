"""Inputs that lie, end early, or attack."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest
import zstandard

from tests.traces.source.hostile import zipped
from traces.intake.ingest import NothingUsable, Options, ingest
from traces.source import limits
from traces.source.inputs import Refused, expand
from traces.source.limits import Limits
from traces.source.sources import Source, parse_json

ROW = b'{"timestamp": %d, "input_length": 512, "output_length": 1, "hash_ids": [%d]}'
ROWS = b"\n".join(ROW % (i, i % 3) for i in range(5))
MORE_ROWS = b"\n".join(ROW % (i, i % 3) for i in range(5, 10))


def lines(path: Path) -> list[bytes | None]:
    return [line for _, line in Source("x", path).lines()]


def test_line_ends_and_marks(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\ntwo\nthree")
    assert lines(path) == [b"one", b"", b"two", b"three"]


def test_a_line_too_long_to_hold_is_told_and_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LINE_BYTES", 100)
    path = tmp_path / "a"
    path.write_bytes(b"short\n" + b"x" * 5_000_000 + b"\nnext\n" + b"y" * 200)
    assert lines(path) == [b"short", None, b"next", None]


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "a.bin"
    path.write_bytes(pack(ROWS))
    assert b"\n".join(line or b"" for line in lines(path)) == ROWS


def test_a_cut_off_stream_keeps_its_good_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    rows = b"\n".join(ROW % (i, i) for i in range(20_000))
    path.write_bytes(gzip.compress(rows)[:-2000])
    receipt = ingest([str(path)], tmp_path / "ds")
    assert 10_000 < receipt["records"]["used"] < 20_000
    assert any("cut off" in r["reason"] for r in receipt["rejects"])


def test_zips_in_zips(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"one.jsonl": ROWS, "deep/inner.zip": zipped({"two.jsonl": MORE_ROWS})}))
    receipt = ingest([str(path)], tmp_path / "ds")
    assert receipt["requests"] == 10
    assert receipt["files"] == {"read": 2, "skipped": 0, "failed": 0}


def test_hostile_zip_entries_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.jsonl")
    link.external_attr = 0o120777 << 16
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("../up.jsonl", ROWS)
        file.writestr("/root.jsonl", ROWS)
        file.writestr(link, b"/etc/passwd")
        file.writestr("good.jsonl", ROWS)
    path = tmp_path / "a.zip"
    path.write_bytes(out.getvalue())
    receipt = ingest([str(path)], tmp_path / "ds")
    assert receipt["requests"] == 5
    assert receipt["files"]["failed"] == 3
    assert not (tmp_path / "up.jsonl").exists()


def test_bombs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(zipped({"zeros.jsonl": bytes(80 << 20)}))
    (found,) = expand([str(path)], Limits(ratio=300))
    assert isinstance(found, Refused)
    assert "unpacks to more than" in found.reason
    (found,) = expand([str(path)], Limits(total_bytes=1 << 20))
    assert isinstance(found, Refused)


def test_symlinks_in_folders_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(ROWS)
    (tmp_path / "in" / "link.jsonl").symlink_to("/etc/hostname")
    receipt = ingest([str(tmp_path / "in")], tmp_path / "ds")
    assert receipt["files"] == {"read": 1, "skipped": 1, "failed": 0}


def test_a_pickle_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "dump.pkl"
    path.write_bytes(pickle.dumps({"requests": []}))
    with pytest.raises(NothingUsable, match=r"pickle.*JSONL"):
        ingest([str(path)], tmp_path / "ds")
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello\nworld\n", b"{}\n", b"[]", b'{"a": 1}\n', b"\x00" * 100])
def test_what_is_no_trace_is_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(data)
    with pytest.raises(NothingUsable):
        ingest([str(path)], tmp_path / "ds")


def test_json_reasons_quote_nothing() -> None:
    for text in (b'{"secret-name": ', b'{"a": NaN}', b'{"\\ud83d": NaN}', b'["\\u00"]', b"[" * 100_000):
        with pytest.raises(ValueError, match=r".+") as error:
            parse_json(text)
        assert "secret" not in str(error.value)


def test_lone_surrogates_become_replacement_characters() -> None:
    value = parse_json(b'{"a": "x\\ud83d", "b": ["\\udc00", 1e3], "c": 12345678901234567890123}')
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    assert value["c"] == 12345678901234567890123


def test_unknown_names_list_the_known(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(ROWS)
    with pytest.raises(ValueError, match="mooncake"):
        ingest([str(path)], None, Options(format="nonsense"))
    with pytest.raises(ValueError, match="o200k_base"):
        ingest([str(path)], None, Options(tokenizer="nonsense"))


@pytest.mark.parametrize("packed", [False, True])
def test_one_pass_is_enough_for_lines_and_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    content = b"".join(b'{"n": %d}\n' % n for n in range(50_000))
    path = tmp_path / ("rows.jsonl.gz" if packed else "rows.jsonl")
    path.write_bytes(gzip.compress(content) if packed else content)
    twice = Source("rows", path).digest()
    source = Source("rows", path)
    assert sum(1 for _ in source.lines()) == 50_000
    monkeypatch.setattr(Source, "_raw", None)  # nothing is read again
    assert source.digest() == twice


@pytest.mark.parametrize("blank", [b"\n", b" \r\n", b" "], ids=["lines", "lines of spaces", "spaces"])
@pytest.mark.parametrize("arranged", [ROWS, b"[" + ROWS.replace(b"\n", b",") + b"]"], ids=["lines", "array"])
def test_blank_space_before_the_content_changes_nothing(tmp_path: Path, blank: bytes, arranged: bytes) -> None:
    """Also more of it than is looked at to recognise a format."""
    (tmp_path / "late.jsonl").write_bytes(blank * (100_000 // len(blank)) + arranged)
    receipt = ingest([str(tmp_path / "late.jsonl")], None)
    assert (receipt["requests"], receipt["rejects"], receipt["formats"]) == (5, [], {"mooncake": 1})


def test_what_is_packed_too_often_says_so(tmp_path: Path) -> None:
    data = ROWS
    for times in range(1, 7):
        data = gzip.compress(data)
        path = tmp_path / f"{times}.gz"
        path.write_bytes(data)
        receipt = ingest([str(path)], None)
        if times <= 5:
            assert (receipt["requests"], receipt["rejects"]) == (5, [])
    assert receipt["requests"] == 0
    assert "packed more than 5 times over" in receipt["rejects"][0]["reason"]
