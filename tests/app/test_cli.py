"""The command-line contract: names, keys, exit codes, what goes where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from app.cli import COMMANDS, group
from traces.intake.demo import demo_inputs
from traces.intake.ingest import ingest

ROW = '{"timestamp": %d, "input_length": 1024, "output_length": 10, "hash_ids": [%d, %d], "session_id": "%s"}\n'


def run(*args: object, ok: int = 0, stdin: bytes | None = None) -> Result:
    result = CliRunner().invoke(group, [str(a) for a in args], input=stdin)
    assert result.exit_code == ok, (args, result.output, result.exception)
    return result


def as_json(*args: object, ok: int = 0, stdin: bytes | None = None) -> Any:
    return json.loads(run(*args, "--json", ok=ok, stdin=stdin).stdout)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("t") / "trace.jsonl"
    path.write_text("".join(ROW % (i * 1000, i % 3, 10 + i % 6, "ab"[i % 2]) for i in range(12)))
    return path


@pytest.fixture(scope="module")
def dataset(trace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("d") / "ds"
    ingest([str(trace)], out)
    return out


@pytest.fixture(scope="module")
def weka(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("w") / "ds"
    ingest(demo_inputs()[:3], out)
    return out


def test_every_command_has_help_with_an_example() -> None:
    for name in COMMANDS:
        text = run(name, "--help").stdout
        assert "tracetower " + name in text, name
    for name in COMMANDS:
        assert name in run("--help").stdout


def test_the_receipt(trace: Path, tmp_path: Path) -> None:
    receipt = as_json("ingest", trace, "-o", tmp_path / "ds")
    assert receipt["formats"] == {"mooncake": 1}
    assert receipt["files"] == {"read": 1, "skipped": 0, "failed": 0}
    assert receipt["records"] == {"read": 12, "used": 12, "rejected": 0, "duplicate": 0, "ignored": 0}
    assert (receipt["requests"], receipt["sessions"], receipt["input_tokens"]) == (12, 2, 12288)
    assert receipt["block_size"] == 512
    assert receipt["time_unit"] == "ms"
    keys = "dataset formats files records requests sessions input_tokens output_tokens unknown_usage_requests "
    keys += "incomplete_output_requests failed_attempts block_size tokenizer time_basis time_unit evidence rejects "
    keys += "reject_reasons unrecognised_files warnings"
    assert list(receipt) == keys.split()
    again = as_json("validate", trace)
    assert again["records"] == receipt["records"]


def test_stdin(trace: Path, tmp_path: Path) -> None:
    assert as_json("ingest", "-", "-o", tmp_path / "ds", stdin=trace.read_bytes())["requests"] == 12


def test_report_keys(dataset: Path) -> None:
    found = as_json("report", dataset, "--by", "session", "--by", "turn")
    assert list(found) == ["definition", "workload", "overlap", "hit_rate", "by", "findings"]
    assert list(found["by"]) == ["session", "turn"]
    row = "group requests sessions input_tokens output_tokens input_output_ratio turns_mean prefix_tokens "
    row += "ceiling_hit_tokens ceiling reported"
    assert list(found["by"]["session"][0]) == row.split()
    assert {"requests", "main_sessions", "input_tokens_p50", "turns_p99", "gap_s_p90", "requests_per_s"} <= set(
        found["workload"]
    )
    rates = "ceiling ceiling_low ceiling_high ceiling_hit_tokens ceiling_coverage ceiling_mean_per_request "
    rates += "ceiling_block_weighted ceiling_with_output nines reported reported_cache_read_tokens "
    rates += "reported_cache_write_tokens reported_input_tokens reported_requests reported_token_coverage gap"
    assert list(found["hit_rate"]) == rates.split()
    assert found["hit_rate"]["reported"] is None


def test_curve_rows(dataset: Path) -> None:
    rows = as_json("curve", dataset, "--capacity-tokens", "1k,4k", "--ttl", "1,5")["rows"]
    assert [r["capacity_blocks"] for r in rows] == [1, 7, None, None]
    assert [r["ttl_s"] for r in rows] == [None, None, 1.0, 5.0]
    crossed = as_json("curve", dataset, "--capacity-blocks", "2,8", "--ttl", "1,5", "--cross")["rows"]
    assert len(crossed) == 4
    keys = "group capacity_blocks capacity_tokens capacity_bytes ttl_s tier hit_tokens prefix_tokens hit_rate "
    assert list(rows[0]) == (keys + "unschedulable_requests").split()
    grid = as_json("curve", dataset)["rows"]
    assert grid[-1]["hit_tokens"] == as_json("report", dataset)["hit_rate"]["ceiling_hit_tokens"]
    sized = as_json("curve", dataset, "--capacity-bytes", "1GiB", "--model", "llama-3.1-70b")["rows"]
    assert sized[0]["capacity_tokens"] == (1 << 30) // 327680 // 512 * 512
    tiers = as_json("curve", dataset, "--tiers", "4,4")["rows"]
    whole = as_json("curve", dataset, "--capacity-blocks", "8")["rows"]
    assert sum(r["hit_tokens"] for r in tiers) == whole[0]["hit_tokens"]


def test_groups_and_filters(dataset: Path) -> None:
    rows = as_json("curve", dataset, "--capacity-blocks", "4", "--by", "session")["rows"]
    whole = as_json("curve", dataset, "--capacity-blocks", "4")["rows"][0]
    assert sum(r["hit_tokens"] for r in rows) == whole["hit_tokens"]
    some = as_json("report", dataset, "--where", "turn=0")["workload"]
    assert some["requests"] == 2
    none = as_json("report", dataset, "--where", "model=nobody")
    assert none["workload"]["requests"] == 0
    assert none["hit_rate"]["ceiling"] is None


def test_relative_times_ask_for_an_arrival_model(weka: Path) -> None:
    found = as_json("report", weka)
    assert found["workload"]["duration_s"] is None
    assert found["hit_rate"]["ceiling"] > 0.5
    for args in (["--capacity-blocks", "10"], ["--ttl", "60"], []):
        result = run("curve", weka, *args, ok=2)
        assert "staggered:600" in result.stderr
    assert as_json("curve", weka, "--arrivals", "closed:2", "--capacity-blocks", "10")["rows"]


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["report", "{d}", "--by", "colour"], "trajectory_type"),
        (["report", "{d}", "--block-size", "100"], "multiples of 512"),
        (["report", "{d}", "--arrivals", "sometimes"], "staggered"),
        (["report", "{d}", "--window", "half"], "last:0.5"),
        (["report", "{d}", "--where", "model"], "AXIS=VALUE"),
        (["report", "{d}", "--timezone", "Mars/Olympus"], "UTC"),
        (["report", "{d}", "--definition", "mine"], "tracetower"),
        (["curve", "{d}", "--capacity-tokens", "big"], "16k"),
        (["curve", "{d}", "--capacity-bytes", "1GiB"], "--model"),
        (["query", "{d}", "nothing"], "workload"),
        (["query", "{d}", "--sql", "DROP VIEW facts"], "SELECT"),
        (["query", "{d}", "--sql", "SELECT * FROM read_csv('/etc/passwd')"], ""),
        (["ingest", "x.jsonl", "-o", "{d}", "--format", "nonsense"], "mooncake"),
    ],
)
def test_wrong_usage_exits_2_and_helps(dataset: Path, args: list[str], hint: str) -> None:
    result = run(*[a.replace("{d}", str(dataset)) for a in args], ok=2)
    assert hint in result.stderr
    assert "Traceback" not in result.output


def test_bad_data_exits_1(tmp_path: Path, trace: Path) -> None:
    assert "ingest INPUT -o DATASET" in run("report", tmp_path / "none", ok=1).stderr
    (tmp_path / "bad.jsonl").write_text("nothing\n")
    assert run("ingest", tmp_path / "bad.jsonl", "-o", tmp_path / "ds", ok=1).stderr
    (tmp_path / "half.jsonl").write_bytes(trace.read_bytes() + b"{\n")
    assert run("ingest", tmp_path / "half.jsonl", "-o", tmp_path / "ok").exit_code == 0
    assert run("validate", tmp_path / "half.jsonl", "--strict", ok=1)


def test_queries(dataset: Path) -> None:
    listed = run("query", dataset, "--list").stdout
    assert "workload" in listed
    assert "The size and pace of the workload" in listed
    rows = as_json("query", dataset, "lru_curve", "axis=session", "block=512", "capacities=2,8")["rows"]
    assert len(rows) == 4
    rows = as_json("query", dataset, "--sql", "SELECT count(*)::INT AS n FROM requests")["rows"]
    assert rows == [{"n": 12}]


def test_html_report(dataset: Path, tmp_path: Path) -> None:
    run("report", dataset, "--html", tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "hit tokens / prefix tokens" in text


def test_formats_say_what_can_be_computed() -> None:
    from traces.intake.registry import READERS

    found = as_json("formats")
    assert set(found) == set(READERS)
    assert all({"carries", "computes"} <= set(summary) for summary in found.values())


def test_demo(tmp_path: Path) -> None:
    text = run("demo", "-o", tmp_path / "demo").stdout
    assert "95.55 %" in text
    assert "tracetower app" in text
    assert as_json("demo", "-o", tmp_path / "demo")["hit_rate"]["ceiling"] == pytest.approx(0.9555001676619589)


def test_query_prints_values_of_every_type(dataset: Path) -> None:
    sql = (
        "SELECT 1.5::DECIMAL(9, 2) d, 2::HUGEINT h, 'ab'::BLOB b, 1 / 0 z, 'inf'::DOUBLE i, DATE '2026-01-02' t, [1] l"
    )
    row = {"d": 1.5, "h": 2, "b": "6162", "z": None, "i": None, "t": "2026-01-02", "l": [1]}
    assert as_json("query", dataset, "--sql", sql)["rows"] == [row]
    assert "2026-01-02" in run("query", dataset, "--sql", sql).stdout


def test_several_sizes_of_a_replica_are_the_same_as_each_alone() -> None:
    line = ["kv-budget", "--model", "llama-3.1-70b", "--gpu", "h200", "--json", "--tp"]
    rows = json.loads(CliRunner().invoke(group, [*line, "2,4"]).stdout)["rows"]
    alone = [json.loads(CliRunner().invoke(group, [*line, tp]).stdout) for tp in "24"]
    assert rows == [{"tp": tp, **out} for tp, out in zip((2, 4), alone, strict=True)]


def test_a_range_without_a_number_is_refused() -> None:
    words = ("kv-budget", "--model", "llama-3.1-70b", "--gpu", "h200", "--tp")
    assert "no list of whole numbers" in run(*words, "8..1", ok=2).output
