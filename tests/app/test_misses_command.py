"""What `misses` says beside causes and divergences: remedies, reported, transitions, what-ifs, a row per request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from analysis.why.causes import CAUSES
from app.cli import group
from traces.intake.ingest import Options, ingest

TEXT = "".join(f"line {i:04d} of the prompt\n" for i in range(100))  # 2,400 tokens of a byte


def row(ts: float, session: str, prompt: str, read: int | None, model: str = "claude-sonnet-4") -> dict[str, Any]:
    said = {} if read is None else {"cache_read_tokens": read}
    return {"ts": ts, "session_id": session, "model": model, "prompt": prompt, "input_tokens": len(prompt)} | said


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("misses")
    rows = [
        row(0, "a", f"A{TEXT}", 0),
        row(400, "a", f"A{TEXT}and more\n", 0),  # 2,401 tokens were there, 400 s ago
        row(410, "a", f"A{TEXT}and more\nand more\n", 2410),
        row(0, "b", f"B{TEXT}", None),
        row(10, "b", f"B{TEXT[:1200]}other{TEXT[:600]}", None),  # 1,201 tokens shared of 1,806: 605 rewritten
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    return folder / "ds"


def said(*args: object) -> Any:
    result = CliRunner().invoke(group, ["misses", *map(str, args), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_providers_loss_is_a_sessions_loss_with_its_remedy(dataset: Path) -> None:
    found = said(dataset)
    assert {r["remedy"]: (r["lost_tokens"], r["requests"], r["sessions"]) for r in found["remedies"]} == {
        "longer_ttl": (2401, 1, 1),
        "keep_history": (605, 1, 1),
    }
    first, second = found["sessions"]
    assert (first["lost_tokens"], first["remedy"], first["longer_ttl"]) == (2401, "longer_ttl", 2401)
    assert (second["lost_tokens"], second["remedy"], second["reported_rate"]) == (605, "keep_history", None)
    assert first["input"].endswith("rows.jsonl")
    only = said(dataset, "--remedy", "keep_history")["sessions"]
    assert [r["lost_tokens"] for r in only] == [605]


def test_a_loss_in_both_caches_counts_once(dataset: Path) -> None:
    """The asked cache forgets after 300 s what the provider forgot too: 37 blocks, or 2,401 tokens."""
    both = {r["remedy"]: r["lost_tokens"] for r in said(dataset, "--ttl", 300)["remedies"]}
    assert both["longer_ttl"] == 2401


def test_reported_by_model_or_by_what_is_asked(dataset: Path) -> None:
    (row,) = said(dataset)["reported"]
    assert (row["axis"], row["group"], row["lost_by_cause"]) == ("model", "claude-sonnet-4", {"ttl_5m": 2401})
    assert row["gap_tokens"] == 2401
    by = said(dataset, "--by", "session", "--by", "day", "--show", "reported")["reported"]
    assert [r["axis"] for r in by] == ["session", "day"]
    assert all(r["lost_by_cause"] == {"ttl_5m": 2401} for r in by)


def test_transitions_in_detail_are_a_table_and_an_axis(dataset: Path) -> None:
    found = said(dataset, "--by", "transition_detail")
    kinds = {r["transition"]: (r["requests"], r["lost_tokens"]) for r in found["transitions"]}
    assert kinds["cold_start"] == (2, 0)
    assert kinds["append"] == (2, 0)
    assert sum(lost for _, lost in kinds.values()) == 605
    assert {r["group"]: r["requests"] for r in found["rows"]} == {name: n for name, (n, _) in kinds.items()}
    for r in found["rows"]:
        assert sum(r[cause] for cause in CAUSES) == r["prefix_tokens"]


def test_what_ifs_and_rates_carry_intervals(dataset: Path) -> None:
    found = said(dataset)
    kinds = {r["what_if"] for r in found["what_ifs"]}
    assert kinds >= {"as_is", "block_size", "ttl", "without_compaction", "without_edits"}
    as_is = found["what_ifs"][0]
    (rate,) = found["rates"]
    assert as_is["hit_rate"] == rate["rate"]
    assert as_is["low"] <= as_is["hit_rate"] <= as_is["high"]
    assert rate["small"]
    assert rate["rate_per_request"] != rate["rate"]


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_a_row_per_request_sums_to_its_prompt(dataset: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"requests.{suffix}"
    result = CliRunner().invoke(group, ["misses", str(dataset), "--per-request", "--out", str(file)])
    assert (result.exit_code, result.stdout) == (0, "")
    reading = {"parquet": pl.read_parquet, "csv": pl.read_csv, "jsonl": pl.read_ndjson}
    frame = reading[suffix](file)
    assert frame["prefix_tokens"].sort().to_list() == sorted([2401, 2410, 2419, 2401, 1806])
    assert (frame.select(pl.sum_horizontal(*CAUSES)).to_series() == frame["prefix_tokens"]).all()
    assert frame["reported_cause"].drop_nulls().to_list() == ["ttl_5m"]
    assert [r["prefix_tokens"] for r in said(dataset, "--per-request")["requests"]] == frame["prefix_tokens"].to_list()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--by", "request"), "--per-request"),
        (("--remedy", "prayer"), "longer_ttl"),
        (("--out", "x.xlsx"), ".parquet"),
        (("--show", "everything"), "what-ifs"),
    ],
)
def test_wrong_usage_names_the_choices(dataset: Path, args: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(group, ["misses", str(dataset), *args])
    assert result.exit_code == 2
    assert says in result.output


def test_sections_for_people(dataset: Path) -> None:
    text = CliRunner().invoke(group, ["misses", str(dataset)]).stdout
    for title in ("Where the input tokens went", "Sessions to look at first", "What happened between prompts",
                  "Reported by the provider", "Where consecutive prompts part", "What would change"):  # fmt: skip
        assert title in text
    only = CliRunner().invoke(group, ["misses", str(dataset), "--show", "what-ifs"]).stdout
    assert only.startswith("What would change the ceiling")
    assert "Sessions to look at first" not in only


def test_queries_over_causes_need_no_file(dataset: Path) -> None:
    result = CliRunner().invoke(group, ["query", str(dataset), "missing_sessions", "--json"])
    assert result.exit_code == 0, result.output
    assert [r["history"] for r in json.loads(result.stdout)["rows"]] == [605]


def test_without_prompts_it_says_what_is_needed(tmp_path: Path) -> None:
    trace = tmp_path / "lengths.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,100,5\n2023-11-16 18:17:04,200,5\n")
    ingest([str(trace)], tmp_path / "ds")
    result = CliRunner().invoke(group, ["misses", str(tmp_path / "ds")])
    assert result.exit_code == 0, result.output
    assert "no block identity" in result.stdout
    assert "(nothing)" not in result.stdout


def test_ages_at_eviction_are_of_this_programs_cache(dataset: Path) -> None:
    said = {}
    for name in ("tracetower", "vllm"):
        asked = ["misses", str(dataset), "--show", "ages", "--definition", name, "--json"]
        result = CliRunner().invoke(group, asked)
        assert result.exit_code == 0, result.output
        said[name] = json.loads(result.stdout)["eviction_age"]
    assert said["vllm"] is None
    assert said["tracetower"] is not None


@pytest.mark.parametrize(
    "options",
    [
        "--show causes --remedy longer_ttl", "--show causes --most 3", "--json --show what-ifs --most 3",
        "--show sessions --by day", "--show divergences --capacity-tokens 1M", "--show what-ifs --ttl 60",
        "--show ages --insert finish", "--show reported --replicas 2 --policy session_hash",
        "--per-request --show sessions", "--per-request --by day", "--per-request --remedy longer_ttl",
        "--show reported --by transition_detail", "--show reported --by all",
        "--definition vllm --ttl 60", "--replicas 2", "--policy session_hash",
    ],
)  # fmt: skip
def test_an_option_that_would_change_nothing_is_refused(dataset: Path, options: str) -> None:
    result = CliRunner().invoke(group, ["misses", str(dataset), *options.split(" ")])
    assert result.exit_code == 2, result.output
    assert len(result.stderr.strip().splitlines()[-1]) > 20


@pytest.mark.parametrize(
    "options",
    ["--json --show sessions --by day --ttl 60", "--per-request --ttl 60", "--show transitions --ttl 60",
     "--show causes --by transition_detail --by day", "--per-request --json --show sessions --most 1"],
)  # fmt: skip
def test_options_that_change_something_are_answered(dataset: Path, options: str) -> None:
    result = CliRunner().invoke(group, ["misses", str(dataset), *options.split(" ")])
    assert result.exit_code == 0, result.output


def test_the_query_of_causes_has_the_columns_of_the_table_of_causes(dataset: Path) -> None:
    result = CliRunner().invoke(group, ["query", str(dataset), "misses", "axis=all", "--json"])
    assert result.exit_code == 0, result.output
    assert [name for name in json.loads(result.stdout)["rows"][0] if name in CAUSES] == list(CAUSES)
