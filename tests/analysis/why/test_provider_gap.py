"""What the provider's cache did not give, by cause, and what it gave beyond what is known: small answers, and laws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.headline.report import report
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from analysis.why.misses import misses
from analysis.why.provider.caches import RULES, UNKNOWN, rule_of
from analysis.why.provider.gap import ABOVE, ABOVE_REASONS, CAUSES, provider_gap, provider_losses
from tests.places import SHARED
from traces.intake.ingest import Options, ingest

TEXT = "".join(f"{i:07d}\n" for i in range(4000))


def call(at: float, prompt: str, read: int, write: int | None, model: str, **more: Any) -> dict[str, Any]:
    details = {"cached_tokens": read}
    usage: dict[str, Any] = {"input_tokens": len(prompt), "input_tokens_details": details, "output_tokens": 1}
    if write is not None:
        usage = {
            "input_tokens": len(prompt) - read - write, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": write, "output_tokens": 1,
        }  # fmt: skip
    return {"ts": 1_790_000_000 + at, "session_id": "s", "prompt": prompt, "usage": usage, "model": model, **more}


def causes(folder: Path, rows: list[dict[str, Any]]) -> list[str | None]:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    warehouse = open_dataset(folder / "ds")
    found: list[str | None] = provider_losses(warehouse, Question(), misses(warehouse, Question()))["cause"].to_list()
    check_sums(warehouse)
    return found


def check_sums(warehouse: Warehouse) -> None:
    """On every axis: achievable − reported is the sum of the causes less what was read above, to the token."""
    for axis in ("all", "session", "model", "day", "transition"):
        for row in provider_gap(warehouse, Question(), misses(warehouse, Question()), axis):
            gap = row["achievable_tokens"] - row["reported_tokens"]
            assert row["gap_tokens"] == gap == sum(row["lost_by_cause"].values()) - row["above_tokens"]
            assert sum(row["above_by_reason"].values()) == row["above_tokens"]
            assert set(row["lost_by_cause"]) <= set(CAUSES)
            assert set(row["above_by_reason"]) <= set(ABOVE_REASONS)


def test_a_cache_by_steps_loses_to_its_minimum_and_to_rounding(tmp_path: Path) -> None:
    rows = [
        call(0, TEXT[:900], 0, None, "gpt-5"),
        call(10, TEXT[:1000], 0, None, "gpt-5"),  # what it shares is below 1,024
        call(20, TEXT[:3000], 0, None, "gpt-5"),  # 1,000 shared
        call(30, TEXT[:4000], 2944, None, "gpt-5"),  # 23 steps of 128
        call(40, TEXT[:5000], 2944, None, "gpt-5"),  # eight steps short, soon after
        call(350, TEXT[:6000], 0, None, "gpt-5"),
    ]
    assert causes(tmp_path, rows) == [None, "minimum", "minimum", "rounding", "unexplained", "ttl_5m"]


def test_a_cache_up_to_marks_loses_what_lies_behind_the_last_one(tmp_path: Path) -> None:
    model = "claude-sonnet-4-5"
    rows = [
        call(0, TEXT[:4000], 0, 3000, model),
        call(10, TEXT[:5000], 3000, 1500, model),  # the first call's last mark was at 3,000
        call(20, TEXT[:6000], 4500, 1500, model),
        call(30, TEXT[:7000], 5990, 1000, model),  # ten short of a mark: no rounding in this cache
        call(40, TEXT[:2500] + "x" * 5000, 2000, 5000, model),  # parts behind 2,500: the only mark before lay at 2,000
        call(41, "another prompt", 0, 0, model),
        call(50, "another prompt, longer", 0, 0, model),
    ]
    assert causes(tmp_path, rows) == [None, "breakpoint", "breakpoint", "unexplained", "divergence", None,
                                      "minimum"]  # fmt: skip


def test_what_was_read_above_is_told_apart(tmp_path: Path) -> None:
    rows = [
        call(0, TEXT[:4000], 0, None, "gpt-5"),
        call(10, TEXT[:5000], 5500, None, "gpt-5", session_id="t"),  # more than the prompt holds
        call(20, TEXT[:6000], 5600, None, "gpt-5"),  # 600 more than is shared, by a tokenizer's count
        call(30, TEXT[9000:12000], 2944, None, "gpt-5", session_id="u"),  # read what no file holds, but for "000"
    ]
    # Where few of many calls read more than their input, that is a fault; where many do, the input excludes reads.
    rows += [call(40 + i, TEXT[:4000], 3968, None, "gpt-5", session_id="v") for i in range(20)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds", Options(tokenizer="bytes"))
    warehouse = open_dataset(tmp_path / "ds")
    losses = provider_losses(warehouse, Question(), misses(warehouse, Question()))
    assert losses["cause"].to_list() == [None, ABOVE, ABOVE, ABOVE, *["rounding"] * 20]
    assert losses["above_reason"].to_list() == [None, "counting", "estimate", "unlogged", *[None] * 20]
    assert losses["above"].to_list() == [0, 1500, 600, 2941, *[0] * 20]
    check_sums(warehouse)


def test_models_have_the_cache_of_their_provider() -> None:
    steps = {"gpt-4o-mini": (1024, 128), "kimi-k2": (256, 256), "devstral-2": (32, 32), "o3": (1024, 128)}
    assert {name: (rule_of(name).minimum_tokens, rule_of(name).step_tokens) for name in steps} == steps
    minima = {
        "claude-sonnet-4-20250514": 1024, "us.anthropic.claude-haiku-4-5-20251001-v1:0": 4096,
        "anthropic/claude-opus-4.5": 4096, "claude-opus-4-1-20250805": 1024, "claude-3-5-haiku-20241022": 2048,
    }  # fmt: skip
    assert {name: rule_of(name).minimum_tokens for name in minima} == minima
    assert rule_of(None) == rule_of("glm-4.6") == UNKNOWN
    assert all(rule.minimum_tokens >= rule.step_tokens for rule in RULES)


def test_transcripts_lose_to_one_cause_each_and_agree_with_the_report(tmp_path: Path) -> None:
    folder = SHARED / "traces" / "claude_code"
    ingest([str(folder)], tmp_path / "ds")
    warehouse = open_dataset(tmp_path / "ds")
    question = Question()
    found = misses(warehouse, question)
    losses = provider_losses(warehouse, question, found)
    assert losses.filter(pl.col("gap") > 0)["cause"].is_in(list(CAUSES)).all()
    assert losses.filter(pl.col("gap") < 0)["above_reason"].is_in(list(ABOVE_REASONS)).all()
    # the usage alone: what this call read is what the session's last one had read and written
    kinds, requests = warehouse.kinds(), warehouse.loaded().requests
    before = kinds["previous_row"].gather(losses["row"])
    left = (requests["cache_read_tokens"] + requests["cache_write_tokens"]).gather(before.clip(0).cast(pl.UInt32))
    whole = losses.filter((losses["read"] == left).fill_null(False) & (before >= 0) & (losses["read"] > 0))
    assert whole.filter(pl.col("gap") > 0)["cause"].unique().to_list() == ["breakpoint"]
    check_sums(warehouse)
    (row,) = provider_gap(warehouse, question, found)
    known = "SELECT row FROM selected WHERE cache_read_tokens IS NOT NULL AND prefix_tokens IS NOT NULL"
    assert row["requests"] == warehouse.sql(known, question).height
    everywhere = report(warehouse, question)["hit_rate"]
    assert row["ceiling_rate"] - row["reported_rate"] == pytest.approx(everywhere["gap"], abs=1e-12)
    (own,) = warehouse.query("reported_ceiling", question, axis="all", block=64).to_dicts()
    assert own["ceiling_low"] <= own["ceiling"] <= own["ceiling_high"]


def test_bounds_of_the_head_are_those_of_the_report(tmp_path: Path) -> None:
    """Where every request reports its reads, both say the same."""
    file = next(iter(sorted((SHARED / "traces" / "claude_code").rglob("d3ad*.jsonl"))), None)
    ingest([str(file)], tmp_path / "ds")
    warehouse = open_dataset(tmp_path / "ds")
    (row,) = provider_gap(warehouse, Question(), misses(warehouse, Question()))
    rates = report(warehouse, Question())["hit_rate"]
    assert warehouse.loaded().requests["cache_read_tokens"].null_count() == 0
    for mine, theirs in (("ceiling_rate", "ceiling"), ("ceiling_low_rate", "ceiling_low"),
                         ("ceiling_high_rate", "ceiling_high")):  # fmt: skip
        assert row[mine] == pytest.approx(rates[theirs], abs=1e-12)
