"""Figures of whole traces, from first principles: `golden.json` comes out exactly, in any order of files."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.headline.curves import curve
from analysis.headline.report import report
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from tests.places import SHARED
from traces.intake.ingest import Options, ingest

WEKA = SHARED / "traces" / "kv_cache_tester_100"


def golden(key: str) -> dict[str, Any]:
    return json.loads((SHARED / "golden.json").read_text("utf-8"))[key]


def check(warehouse: Warehouse, key: str, block: int, arrivals: str) -> None:
    want = golden(key)
    question = Question(block_size=block, arrivals=arrivals)
    figures = report(warehouse, question, ("trajectory_type", "transition"))
    workload, overlap, rates = figures["workload"], figures["overlap"], figures["hit_rate"]
    for name in ("requests", "sessions", "input_tokens", "output_tokens", "input_output_ratio"):
        if name in want:
            assert workload[name] == want[name], name
    if "inferred_sessions" in want:
        assert workload["sessions"] == want["inferred_sessions"]
    assert rates["ceiling_hit_tokens"] == want["ceiling_hit_tokens"]
    assert rates["ceiling"] == pytest.approx(want["ceiling_hit_rate"], rel=1e-12)
    assert rates["ceiling_mean_per_request"] == pytest.approx(want["ceiling_mean_per_request"], rel=1e-12)
    for name in ("same_session_hit_tokens", "cross_session_hit_tokens"):
        if name in want:
            assert overlap[name] == want[name]
    full = warehouse.sql("SELECT sum(full_blocks)::BIGINT AS n FROM selected", question)["n"][0]
    assert full == want["full_blocks"]
    assert full - want["ceiling_hit_tokens"] // block == want["unique_prefix_blocks"]
    lru = want["lru_hit_tokens_by_capacity_blocks"]
    rows = curve(warehouse, question, capacity_blocks=[int(c) for c in lru])
    assert rows["hit_tokens"].to_list() == list(lru.values())
    by_sql = warehouse.query("lru_curve", question, axis="all", block=block, capacities=[int(c) for c in lru])
    assert by_sql["hit_tokens"].to_list() == [lru[str(c)] for c in by_sql["capacity_blocks"].to_list()]
    ttl = want["ttl_hit_tokens_by_seconds"]
    rows = curve(warehouse, question, ttl_s=[float(t) for t in ttl])
    assert rows["hit_tokens"].to_list() == list(ttl.values())
    if "transitions" in want:
        got = {r["group"]: r["requests"] for r in figures["by"]["transition"]}
        got["rewind_or_fork"] = got.pop("rewind", 0) + got.pop("fork", 0)
        assert got == want["transitions"]
        for row in figures["by"]["trajectory_type"]:
            expected = want["by_trajectory_type"][row["group"]]
            assert {k: row[k] for k in expected} == expected


@pytest.fixture(scope="module")
def weka(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    out = tmp_path_factory.mktemp("weka") / "ds"
    ingest([str(WEKA)], out)
    return open_dataset(out)


@pytest.mark.parametrize("block", [64, 256])
def test_weka(weka: Warehouse, block: int) -> None:
    check(weka, f"kv_cache_tester_100, staggered:600, block {block}", block, "staggered:600")


def test_weka_in_reverse_in_halves_and_twice(tmp_path: Path) -> None:
    files = sorted(str(p) for p in WEKA.glob("*.gz"))
    ingest(files[:49:-1], tmp_path / "ds")
    ingest(files[:50], tmp_path / "ds")
    again = ingest(files, tmp_path / "ds")
    assert again["requests"] == 0
    assert again["files"] == {"read": 0, "skipped": 100, "failed": 0}
    check(open_dataset(tmp_path / "ds"), "kv_cache_tester_100, staggered:600, block 64", 64, "staggered:600")


@pytest.mark.parametrize("name", ["conversation_trace.head6000", "synthetic_trace"])
def test_mooncake(tmp_path: Path, name: str) -> None:
    ingest([str(SHARED / "traces" / "mooncake" / f"{name}.jsonl")], tmp_path / "ds")
    check(open_dataset(tmp_path / "ds"), f"mooncake/{name}, recorded, block 512", 512, "recorded")


def test_mooncake_in_two_halves(tmp_path: Path) -> None:
    lines = (SHARED / "traces" / "mooncake" / "synthetic_trace.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines[:2000]))
    (tmp_path / "b.jsonl").write_bytes(b"".join(lines[2000:]))
    for half in ("b.jsonl", "a.jsonl"):
        ingest([str(tmp_path / half)], tmp_path / "ds", Options(one_trace=True))
    check(open_dataset(tmp_path / "ds"), "mooncake/synthetic_trace, recorded, block 512", 512, "recorded")


def test_generated_agent_trace_with_sessions(tmp_path: Path) -> None:
    path = tmp_path / "agent.jsonl"
    tool = SHARED / "tools" / "gen_traces.py"
    subprocess.run([sys.executable, tool, "agent", path, "200", "--sid"], check=True, capture_output=True)
    ingest([str(path)], tmp_path / "ds", Options(block_tokens=64))
    warehouse = open_dataset(tmp_path / "ds")
    check(warehouse, "gen_traces agent 200 --sid, recorded, block 64", 64, "recorded")
    # kvcache-simulator 0.1.3 and AIPerf 0.13 on the same trace (last half of the requests; mean per request in blocks)
    question = Question(block_size=64, definition="kvcache-simulator")
    caps = [2048, 8192, 16384, 32768, 65536, 131072]
    rates = curve(warehouse, question, capacity_blocks=caps)["hit_rate"].to_list()
    assert [round(r, 6) for r in rates[:-1]] == [0.213249, 0.753061, 0.938427, 0.956470, 0.962276]
    assert round(report(warehouse, question, ())["hit_rate"]["ceiling"], 6) == 0.962697
    # hit tokens where prompts of up to 2,330 blocks do not fit
    known = {
        1: 0,
        2: 105728,
        7: 634368,
        64: 6660864,
        181: 18233344,
        1000: 29498816,
        1500: 39034560,
        2000: 48541376,
        2048: 49491712,
        2500: 58753920,
    }
    assert curve(warehouse, question, capacity_blocks=list(known))["hit_tokens"].to_list() == list(known.values())
    aiperf = report(warehouse, question._replace(definition="aiperf"), ())["hit_rate"]["ceiling"]
    assert aiperf == pytest.approx(0.9483014811594062, rel=1e-12)


def test_generated_chat_trace_as_peers_see_it(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    subprocess.run([sys.executable, SHARED / "tools" / "gen_traces.py", "chat", path], check=True, capture_output=True)
    ingest([str(path)], tmp_path / "ds")
    warehouse = open_dataset(tmp_path / "ds")
    question = Question(definition="kvcache-simulator")
    caps = [256, 1024, 2048, 4096, 8192, 16384, 32768]
    rates = curve(warehouse, question, capacity_blocks=caps)["hit_rate"].to_list()
    known = [0.036844, 0.101782, 0.214507, 0.421549, 0.616054, 0.672670, 0.683804]
    assert [round(r, 6) for r in rates] == known
    # hit tokens where prompts of up to 260 blocks do not fit
    hits = {1: 0, 2: 201216, 3: 283648, 7: 345600, 16: 504832, 45: 993280, 100: 1621504, 256: 2944512, 362: 3657728}
    assert curve(warehouse, question, capacity_blocks=list(hits))["hit_tokens"].to_list() == list(hits.values())
    assert round(report(warehouse, question, ())["hit_rate"]["ceiling"], 6) == 0.684689
    aiperf = report(warehouse, question._replace(definition="aiperf"), ())["hit_rate"]["ceiling"]
    assert aiperf == pytest.approx(0.5532809592767863, rel=1e-12)


def test_previous_request_overlap_of_published_sessions(tmp_path: Path) -> None:
    table = (SHARED / "traces" / "kv_cache_tester_oracle_share.tsv").read_text("utf-8").splitlines()
    names = table[0].split("\t")
    for line in table[1:]:
        row = dict(zip(names, line.split("\t"), strict=True))
        name = Path(row["trace"]).name
        source = SHARED / "traces" / "kv_cache_tester" / name
        out = tmp_path / name
        ingest([str(source)], out)
        figures = report(open_dataset(out), Question(), ())
        assert figures["overlap"]["previous_request_overlap_rate"] == pytest.approx(
            float(row["hit_consecutive_prefix"]), rel=1e-12
        ), name
        assert figures["workload"]["requests"] == int(row["requests_incl_subagents"])
        shutil.rmtree(out)


def test_hits_do_not_depend_on_arrivals(weka: Warehouse) -> None:
    """Σ hits = B × (full blocks − distinct blocks), whatever the order."""
    want = golden("kv_cache_tester_100, staggered:600, block 64")["ceiling_hit_tokens"]
    for arrivals in ("recorded", "poisson:60:3", "closed:4", "staggered:1"):
        figures = report(weka, Question(64, arrivals), ())
        assert figures["hit_rate"]["ceiling_hit_tokens"] == want


def test_compressed_and_plain_are_the_same(tmp_path: Path) -> None:
    file = sorted(WEKA.glob("*.gz"))[0]
    (tmp_path / "plain.json").write_bytes(gzip.decompress(file.read_bytes()))
    a, b = ingest([str(file)], None), ingest([str(tmp_path / "plain.json")], None)
    assert {k: a[k] for k in ("requests", "input_tokens", "records")} == {
        k: b[k] for k in ("requests", "input_tokens", "records")
    }
