"""Reported against achievable, what-ifs, transitions in detail, time, intervals: small answers, and usage records."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.kernel.chains import STEPS, chain_steps
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from analysis.why.edited.what_ifs import what_if_table
from analysis.why.misses import misses
from analysis.why.provider.gap import provider_gap, provider_losses
from analysis.why.transition_losses import detailed, transition_losses
from tests.references import naive
from traces.intake.ingest import Options, ingest

CLAUDE = naive.SHARED / "traces" / "claude_code"


def opened(folder: Path, rows: list[dict[str, Any]]) -> Warehouse:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    return open_dataset(folder / "ds")


def call(at: float, session: str, prompt: str, read: int | None = None, write: int = 0, **more: Any) -> dict[str, Any]:
    usage = None if read is None else {
        "input_tokens": len(prompt) - read - write, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write, "output_tokens": 1,
    }  # fmt: skip
    return {"ts": 1_790_000_000 + at, "session_id": session, "prompt": prompt, "usage": usage, **more}


TEXT = "".join(f"{i:07d}\n" for i in range(1000))


def test_every_loss_of_the_providers_cache_has_one_cause(tmp_path: Path) -> None:
    warehouse = opened(
        tmp_path,
        [
            call(0, "s", TEXT[:4000], 0, 4000),
            call(100, "s", TEXT[:5000], 4000, 1000),  # all that could be read
            call(200, "s", TEXT[:6000], 4900, 1100),  # short of it by less than a step of the provider's
            call(800, "s", TEXT[:6500], 0, 6500),  # after ten minutes
            call(9000, "s", TEXT[:7000], 0, 7000),  # after two hours
            call(9100, "s", TEXT[:7500], 0, 7500),  # no reason
            call(9200, "t", TEXT[4000:7000], 2999, 0),  # read what nobody had sent
            call(9300, "s", TEXT[:7600], 100, 0, end_time=1_790_009_300 + 60),
            call(9310, "s", TEXT[:7600] + "and", 0, 0),  # while the one before was running
        ],
    )
    found = misses(warehouse, Question())
    losses = provider_losses(warehouse, Question(), found)
    assert losses["cause"].to_list() == [
        None, None, "rounding", "ttl_5m", "ttl_1h", "unexplained", "above ceiling", "unexplained", "concurrent",
    ]  # fmt: skip
    (row,) = provider_gap(warehouse, Question(), found)
    assert sum(row["lost_by_cause"].values()) == losses.filter(pl.col("gap") > 0)["gap"].sum()
    assert row["above_ceiling_requests"] == 1
    assert row["gap_rate"] == pytest.approx(row["achievable_rate"] - row["reported_rate"])
    assert row["gap_tokens"] == sum(row["lost_by_cause"].values()) - row["above_tokens"]
    assert row["above_by_reason"] == {"unlogged": 2995}  # four are alike by chance


def usage_of(file: Path) -> list[tuple[str, float, int, int]]:
    """(session, first time of the input before it, read, written) of the calls of a transcript without side chains."""
    from datetime import datetime

    calls: dict[str, list[Any]] = {}
    last_input = None
    for line in file.read_text("utf-8", "replace").splitlines():
        try:
            entry = json.loads(line)
            when = datetime.fromisoformat(entry["timestamp"].replace("Z", "+00:00")).timestamp()
            message = entry["message"]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if entry["type"] == "user":
            last_input = when
        elif message.get("usage") and message.get("model") != "<synthetic>":
            usage = message["usage"]
            counts = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
            known = calls.setdefault(message["id"], [last_input if last_input is not None else when, 0, 0])
            known[1:] = counts
    return [("s", when, read, written) for when, read, written in calls.values()]


def test_survival_of_the_cache_is_that_of_the_usage_records(tmp_path: Path) -> None:
    file = next(iter(sorted(CLAUDE.rglob("d3ad*.jsonl"))), None)
    calls = sorted(usage_of(file), key=lambda c: c[1])
    want: dict[str, list[int]] = {}
    for (_, before, read, written), (_, now, read_now, _) in pairwise(calls):
        gap = "up to 300 s" if now - before <= 300 else "up to 1 h" if now - before <= 3600 else "longer"
        row = want.setdefault(gap, [0, 0])
        row[0] += 1
        row[1] += read_now >= 0.9 * (read + written)
    ingest([str(file)], tmp_path / "ds")
    got = open_dataset(tmp_path / "ds").query("cache_survival", Question())
    assert {row[0]: list(row[1:3]) for row in got.select("gap", "pairs", "survived").rows()} == want


def test_what_ifs_of_a_small_trace(tmp_path: Path) -> None:
    warehouse = opened(
        tmp_path, [call(0, "s", TEXT[:100]), call(400, "s", TEXT[:150]), call(410, "s", TEXT[:50] + "x" * 100)]
    )
    question = Question(block_size=16)
    frame = what_if_table(warehouse, question, misses(warehouse, question))
    rates = {(row["what_if"], row["value"]): row["hit_tokens"] for row in frame.to_dicts()}
    assert rates["as_is", 16.0] == 96 + 48
    assert rates["block_size", 1.0] == 150
    assert rates["block_size", 64.0] == 64
    assert rates["ttl", 300.0] == 48
    assert rates["without_edits", None] == 96 + 144
    assert frame["difference"].is_null().sum() == 0


def test_a_cap_on_the_context_cuts_hits_and_prompts(tmp_path: Path) -> None:
    text = "".join(f"{i:07d}\n" for i in range(5000))
    warehouse = opened(tmp_path, [call(0, "s", text[:35_000]), call(10, "s", text[:40_000])])
    question = Question(block_size=16)
    frame = what_if_table(warehouse, question, misses(warehouse, question))
    (row,) = frame.filter(what_if="context_cap").to_dicts()
    assert (row["value"], row["hit_tokens"], row["prefix_tokens"]) == (32_000.0, 32_000, 64_000)


def test_transitions_in_detail(tmp_path: Path) -> None:
    warehouse = opened(
        tmp_path,
        [
            call(0, "a", TEXT[:6000], model="m"),
            call(5, "b", TEXT[:6000] + "b", model="m"),
            call(6, "c", TEXT[:5600], model="m", parent_session_id="a"),
            call(7, "d", "title?", 0),
            call(9, "a", TEXT[:7000], model="n"),
            call(10, "a", "y" * 5000 + TEXT, model="n"),
            call(11, "b", TEXT[:6100], model="m"),
        ],
    )
    assert detailed(warehouse).to_list() == [
        "cold_start", "warm_start", "subagent_start", "side_request", "model_switch", "unrelated", "append",
    ]  # fmt: skip
    found = transition_losses(warehouse, Question(), misses(warehouse, Question()))
    assert found.row(0, named=True)["transition"] == "unrelated"
    assert found.row(0, named=True)["lost_tokens"] == 7000


def test_chains_inside_a_session() -> None:
    # 0 starts; 1 continues it; 2 holds none of them while 1 goes on with 3; 4 continues 2; 5 branches off 1 (3 had
    # continued it); 6 replaces all.
    prefix = np.array([100, 200, 150, 300, 250, 260, 400])
    previous = np.array([-1, 0, 1, 2, 3, 4, 5])
    deepest = np.array([-1, 0, 1, 1, 2, 1, 3])
    shared = np.array([-1, 100, 40, 200, 150, 200, 90])
    step = chain_steps(prefix, np.zeros(7), np.arange(7), previous, deepest, shared, np.full(7, 16))
    assert [STEPS[s] for s in step] == ["start", "continue", "new_chain", "continue", "continue", "branch", "replace"]


def test_time_queries_by_hand(tmp_path: Path) -> None:
    warehouse = opened(tmp_path, [call(0, "s", TEXT[:64]), call(50, "s", TEXT[:96]), call(100, "s", TEXT[:128])])
    question = Question(block_size=16)
    rates = warehouse.query("hit_rate_over_time", question, bins=2)
    assert rates["hit_rate"].to_list() == [0.0, (64 + 96) / (96 + 128)]
    assert rates["warming_up"].to_list() == [True, False]
    sets = warehouse.query("working_set", question, block=16, bins=2)
    assert sets["touched_tokens"].to_list() == [64, 128]
    assert sets["new_tokens"].to_list() == [64, 64]
    ages = warehouse.query("reuse_age", question, block=16)
    assert ages["tokens"].sum() == 160
    assert ages["age_s_p50"].to_list() == [50.0] * ages.height
