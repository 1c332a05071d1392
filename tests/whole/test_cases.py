"""Small inputs with the right answers (the shared cases), through ingest and report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.headline.curves import curve
from analysis.headline.report import report
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from tests.places import SHARED
from traces.dataset.layout import Dataset
from traces.intake.ingest import Options, ingest


def case(number: str) -> Path:
    return next((SHARED / "cases").glob(f"{number}-*"))


def expected(number: str) -> dict[str, Any]:
    return json.loads((case(number) / "expected.json").read_text("utf-8"))


def inputs(number: str) -> list[str]:
    return sorted(str(p) for p in case(number).iterdir() if p.name.startswith("input"))


def read(number: str, tmp_path: Path, **options: Any) -> tuple[Warehouse, dict[str, Any]]:
    receipt = ingest(inputs(number), tmp_path / "ds", Options(**options))
    counts = receipt["records"]
    assert counts["read"] == counts["used"] + counts["rejected"] + counts["duplicate"] + counts["ignored"]
    return open_dataset(tmp_path / "ds"), receipt


def per_request_hits(warehouse: Warehouse, question: Question) -> list[int]:
    return warehouse.sql("SELECT hit_tokens FROM selected ORDER BY rank", question)["hit_tokens"].to_list()


@pytest.mark.parametrize("number", ["01", "04", "13", "14"])
def test_hits_of_block_traces(number: str, tmp_path: Path) -> None:
    want = expected(number)
    warehouse, receipt = read(number, tmp_path, block_tokens=want["block_size"])
    question = Question(block_size=want["block_size"])
    figures = report(warehouse, question)
    assert figures["workload"]["input_tokens"] == want["input_tokens"]
    assert figures["hit_rate"]["ceiling_hit_tokens"] == want["hit_tokens"]
    assert figures["hit_rate"]["ceiling"] == pytest.approx(want["hit_rate"], rel=1e-12)
    if "per_request_hit_tokens" in want:
        assert per_request_hits(warehouse, question) == want["per_request_hit_tokens"]
    if "bad_line_numbers" in want:
        assert [r["line"] for r in receipt["rejects"]] == want["bad_line_numbers"]
    if "rows_ok" in want:
        assert receipt["records"]["used"] == want["rows_ok"]


def test_02_milliseconds(tmp_path: Path) -> None:
    want = expected("02")["mooncake"]
    ingest([str(case("02") / "input.mooncake.jsonl")], tmp_path / "ds")
    workload = report(open_dataset(tmp_path / "ds"), Question())["workload"]
    assert workload["duration_s"] == want["duration_s"]
    assert workload["requests_per_s"] == want["arrival_rate_per_s"]


def test_03_a_wrong_block_size_is_never_silent(tmp_path: Path) -> None:
    warehouse, receipt = read("03", tmp_path)
    assert report(warehouse, Question())["hit_rate"]["ceiling"] is None
    assert any("3 rows" in w and "from 60 to 74" in w for w in receipt["warnings"])
    want = expected("03")["at_block_size_64"]
    ingest(inputs("03"), tmp_path / "64", Options(block_tokens=64))
    figures = report(open_dataset(tmp_path / "64"), Question(block_size=64))
    assert figures["hit_rate"]["ceiling_hit_tokens"] == want["hit_tokens"]
    assert figures["hit_rate"]["ceiling"] == pytest.approx(want["hit_rate"])


@pytest.mark.parametrize("number", ["05", "06", "07", "08", "09", "10", "15"])
def test_counting(number: str, tmp_path: Path) -> None:
    want = expected(number)
    warehouse, receipt = read(number, tmp_path)
    figures = report(warehouse, Question(), ("session", "model"))
    assert figures["workload"]["requests"] == want["requests"]
    assert figures["workload"]["input_tokens"] == want["input_tokens"]
    if "output_tokens" in want:
        assert figures["workload"]["output_tokens"] == want["output_tokens"]
    if "cached_input_tokens" in want:
        assert figures["hit_rate"]["reported_cache_read_tokens"] == want["cached_input_tokens"]
        assert figures["hit_rate"]["reported"] == pytest.approx(want["hit_rate"])
    if "requests_by_session" in want:
        got = sorted(r["requests"] for r in figures["by"]["session"])
        assert got == sorted(want["requests_by_session"].values())
    if "requests_usage_unknown" in want:
        assert receipt["unknown_usage_requests"] == want["requests_usage_unknown"]
        assert {r["group"]: r["requests"] for r in figures["by"]["model"]} == want["requests_by_model"]


def test_07_whatever_the_order_of_files(tmp_path: Path) -> None:
    ingest(list(reversed(inputs("07"))), tmp_path / "reverse")
    ingest(inputs("07")[:1], tmp_path / "apart")
    ingest(inputs("07")[1:], tmp_path / "apart")
    for name in ("reverse", "apart"):
        rows = report(open_dataset(tmp_path / name), Question(), ("session",))["by"]["session"]
        assert sorted(r["requests"] for r in rows) == [2, 3]
        sessions = Dataset(tmp_path / name).read("sessions")
        fork = sessions.filter(pl.col("forked_from").is_not_null())
        assert fork.height == 1, "the resumed session copied the other's history"
        assert fork["forked_from"][0] != fork["session_id"][0]


def test_08_roles_of_sidechains(tmp_path: Path) -> None:
    want = expected("08")
    warehouse, _ = read("08", tmp_path)
    figures = report(warehouse, Question(), ("role",))
    assert figures["workload"]["sessions"] == want["trajectories"]
    main = next(r for r in figures["by"]["role"] if r["group"] == "main")
    assert main["requests"] == want["main"]["requests"]
    assert main["input_tokens"] == want["main"]["input_tokens"]


def test_16_days_are_days_of_a_zone(tmp_path: Path) -> None:
    warehouse, _ = read("16", tmp_path)
    for zone, days in expected("16")["by_day"].items():
        rows = report(warehouse, Question(timezone=zone), ("day",))["by"]["day"]
        assert {r["group"]: r["input_tokens"] for r in rows} == days


def test_18_lru_by_hand(tmp_path: Path) -> None:
    want = expected("18")["hit_tokens_by_capacity_blocks"]
    warehouse, _ = read("18", tmp_path, block_tokens=16)
    question = Question(block_size=16)
    rows = curve(warehouse, question, capacity_blocks=[int(c) for c in want])
    assert dict(zip(want, rows["hit_tokens"].to_list(), strict=True)) == want


def test_20_larger_blocks(tmp_path: Path) -> None:
    warehouse, _ = read("20", tmp_path, block_tokens=16)
    for block, hits in expected("20")["hit_tokens_by_block_size"].items():
        figures = report(warehouse, Question(block_size=int(block)))
        assert figures["hit_rate"]["ceiling_hit_tokens"] == hits


def test_21_nothing_names_anything(tmp_path: Path) -> None:
    want = expected("21")
    _, receipt = read("21", tmp_path)
    path = tmp_path / "ds"
    texts = [(path / "manifest.json").read_text("utf-8")]
    for parquet in path.rglob("*.parquet"):
        if "private" not in parquet.parts:
            texts += [pl.read_parquet(parquet).write_json(), parquet.read_bytes().decode("latin-1"), parquet.name]
    texts += [json.dumps({k: v for k, v in receipt.items() if k not in ("dataset", "rejects")})]
    for canary in (
        *want["canaries_that_must_not_occur"],
        *want["unsalted_digest_prefixes_that_must_not_occur"].values(),
    ):
        assert not [t[:80] for t in texts if canary in t], canary


def test_22_any_text_is_plain_text(tmp_path: Path) -> None:
    want = expected("22")
    warehouse, receipt = read("22", tmp_path)
    rows = warehouse.dataset.read("requests")
    assert rows.height == want["requests"]
    assert receipt["records"]["rejected"] == 0
    for tokens, size in zip(rows["input_tokens"].to_list(), want["utf8_bytes"], strict=True):
        assert 1 <= tokens <= size


def test_a_killed_writer_leaves_no_half(tmp_path: Path) -> None:
    ingest(inputs("01"), tmp_path / "ds")
    before = Dataset(tmp_path / "ds")
    (tmp_path / "ds" / "tables-dead").mkdir()
    (tmp_path / "ds" / ".manifest.json.dead").write_text("{")
    assert Dataset(tmp_path / "ds").key == before.key
    ingest(inputs("04"), tmp_path / "ds")
    assert not (tmp_path / "ds" / "tables-dead").exists()
    assert Dataset(tmp_path / "ds").read("requests").height == 13


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def test_a_type_that_cannot_be_told_is_unknown(tmp_path: Path) -> None:
    """Several requests of which no step is known: neither single nor append."""
    rows = [{"ts": i, "session_id": "a", "usage": {"input_tokens": None, "output_tokens": 1}} for i in range(3)]
    rows[0]["usage"] = {"input_tokens": 10, "output_tokens": 1}
    ingest([write(tmp_path / "a.jsonl", rows)], tmp_path / "ds", Options(tokenizer="bytes"))
    groups = report(open_dataset(tmp_path / "ds"), Question())["by"]["trajectory_type"]
    assert [(g["group"], g["requests"]) for g in groups] == [("unknown", 3)]


def test_usage_alone_shares_the_shorter_within_a_session(tmp_path: Path) -> None:
    lengths = [100, 160, 90, 200]
    rows = [{"ts": i, "session_id": "a", "input_tokens": n, "output_tokens": 1} for i, n in enumerate(lengths)]
    rows += [{"ts": 9, "session_id": "b", "input_tokens": 500, "output_tokens": 1}]
    ingest([write(tmp_path / "a.jsonl", rows)], tmp_path / "ds", Options(tokenizer="bytes"))
    figures = report(open_dataset(tmp_path / "ds"), Question(block_size=10))
    assert figures["hit_rate"]["ceiling_hit_tokens"] == 100 + 90 + 90
    assert figures["overlap"]["cross_session_hit_tokens"] == 0
    assert "upper bound" in figures["definition"]["assumed"]
