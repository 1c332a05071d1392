"""Sessions one by one are the same figures as the misses of the whole: sums, exactly, on any trace."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.sessions.icicle import icicle
from analysis.sessions.session_table import session_table
from analysis.sessions.session_turns import session_turns
from analysis.sessions.tower import COLUMNS, MOST_RECTANGLES, STACK, shown_turns, tower
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from analysis.why.caches.cache import Cache
from analysis.why.causes import CAUSES
from analysis.why.misses import by_group, misses
from analysis.why.session_losses import REMEDIES, request_losses, session_losses
from tests.places import ROOT
from traces.intake.ingest import Options, ingest

BLOCK = 8
ROW = st.fixed_dictionaries(
    {
        "timestamp": st.integers(0, 5000),
        "ids": st.lists(st.integers(0, 3), min_size=1, max_size=6),
        "rest": st.integers(0, BLOCK - 1),
        "session_id": st.sampled_from(["a", "b", "c", None]),
    }
)
CACHES = (Cache(), Cache(5 * BLOCK), Cache(ttl_s=1.0), Cache(3 * BLOCK, None, 2, "session_hash"))
QUESTIONS = (
    Question(),
    Question(window="last:0.5"),
    Question(where=(("transition", "append"), ("transition", "edit"))),
)


def hashed(items: list[dict[str, Any]]) -> Warehouse:
    folder = Path(tempfile.mkdtemp())
    lines = []
    for i, item in enumerate(items):
        ids = [*item["ids"], *([10_000 + i] if item["rest"] else [])]
        row = {"timestamp": item["timestamp"], "input_length": len(item["ids"]) * BLOCK + item["rest"],
               "output_length": 3, "hash_ids": ids}  # fmt: skip
        lines.append(json.dumps(row | ({"session_id": item["session_id"]} if item["session_id"] else {})) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(block_tokens=BLOCK))
    return open_dataset(folder / "ds")


def check_sums(warehouse: Warehouse, question: Question, cache: Cache) -> None:
    """Turns sum to their session's row, and sessions to the misses of the requests that have one."""
    found = misses(warehouse, question, cache)
    losses = request_losses(warehouse, question, found)
    table = session_table(warehouse, question, found, losses)
    listed = session_losses(warehouse, question, losses)
    assert table.filter(pl.col("lost_tokens") > 0)["session_id"].to_list() == listed["session_id"].to_list()
    for row in table.to_dicts():
        turns = session_turns(warehouse, question, found, losses, row["session_id"])
        assert turns.height == row["turns"]
        for name in ("prefix_tokens", *CAUSES, "lost_tokens", *REMEDIES):
            assert turns[name].sum() == row[name], name
        assert (turns["prefix_tokens"] == turns.select(pl.sum_horizontal(*CAUSES)).to_series()).all()
        check_tower(turns)
        query = warehouse.query("session_turns", question, session=row["session_id"], causes=found.causes)
        assert query.select("turn", "request_id", *CAUSES).rows() == turns.select("turn", "request_id", *CAUSES).rows()
    groups = by_group(warehouse, question, found, "session")
    whole = {group["group"]: group for group in groups if group["group"] != "unknown"}
    assert {str(row["session_id"]): [row[c] for c in CAUSES] for row in table.to_dicts()} == {
        name: [group[c] for c in CAUSES] for name, group in whole.items()
    }


def check_tower(turns: pl.DataFrame) -> None:
    heights = (
        tower(shown_turns(turns))
        .group_by("turn")
        .agg((pl.col("y1") - pl.col("y0")).sum().alias("height"), pl.col("y1").max())
    )
    drawn = turns.filter(pl.col("prefix_tokens") > 0).select("turn", "prefix_tokens")
    assert heights.sort("turn").rows() == [(t, n, n) for t, n in drawn.rows()]


def check_icicle(warehouse: Warehouse, question: Question) -> None:
    """Areas are prompt tokens, also folded; unfolded heights are distinct tokens, and columns are prompts."""
    prompts = sorted(warehouse.grouped(question, "all")["prefix_tokens"].to_list())
    for given_shares in ({}, {"fold": 0.5, "small": 3}, {"fold": 2.0, "small": 0}):
        found = icicle(warehouse, question, **given_shares)  # type: ignore[arg-type]
        r = found.rectangles
        area = r.select(((pl.col("x1") - pl.col("x0")) * (pl.col("y1") - pl.col("y0"))).sum()).item()
        assert found.prompt_tokens == sum(prompts) == pytest.approx(area)
        assert found.distinct_tokens == r.unique(["node", "part"])["distinct_tokens"].sum()
        assert found.distinct_tokens == (warehouse.distinct_tokens(warehouse.prepare(question)) or 0)
        assert found.requests == len(prompts)
        for a, b in ((a, b) for i, a in enumerate(r.to_dicts()) for b in r.to_dicts()[:i]):
            apart = a["x1"] <= b["x0"] + 1e-9 or b["x1"] <= a["x0"] + 1e-9
            assert apart or a["y1"] <= b["y0"] + 1e-9 or b["y1"] <= a["y0"] + 1e-9, "rectangles overlap"
    assert r.select((pl.col("y1") - pl.col("y0")).sum()).item() == found.distinct_tokens
    columns = [
        r.filter(pl.col("x0") <= x, pl.col("x1") > x).select((pl.col("y1") - pl.col("y0")).sum()).item()
        for x in range(len(prompts))
    ]
    assert sorted(columns) == prompts


@settings(max_examples=8, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=14), st.sampled_from(CACHES), st.sampled_from(QUESTIONS))
def test_any_trace_adds_up(items: list[dict[str, Any]], cache: Cache, question: Question) -> None:
    warehouse = hashed(items)
    check_sums(warehouse, question, cache)
    check_icicle(warehouse, question)


@pytest.mark.parametrize("sample", ["claude_code", "weka"])
def test_a_sample_adds_up(sample: str, tmp_path: Path) -> None:
    ingest([str(ROOT / "tests" / "samples" / sample)], tmp_path / "ds", Options(tokenizer="bytes"))
    warehouse = open_dataset(tmp_path / "ds")
    check_sums(warehouse, Question(arrivals="staggered:600"), Cache(20_000))
    check_icicle(warehouse, Question())


def long_session(turns: int) -> pl.DataFrame:
    """A session whose prompt grows by 10 tokens a turn, and is rewritten from token 5 on at turn 7001."""
    turn = pl.int_range(turns, eager=True)
    broken = pl.Series(turn == 7001)
    prefix = turn * 10 + 10
    hit = pl.select(pl.when(broken).then(5).otherwise(turn * 10)).to_series()
    empty = {name: pl.lit(0, pl.Int64) for name in STACK}
    about = {"gap_s": pl.Series([1.0] * (turns - 1) + [9.0]), "sub_agents": pl.Series([0] * (turns - 1) + [2])}
    return pl.DataFrame({"turn": turn, "prefix_tokens": prefix, **about}).with_columns(**empty).with_columns(
        hit=hit, rewritten=pl.when(broken).then(prefix - 15).otherwise(0), first_seen=10
    )  # fmt: skip


def test_ten_thousand_turns_become_four_hundred_columns_that_hide_no_break() -> None:
    turns = long_session(10_000)
    shown = shown_turns(turns)
    assert shown.height == COLUMNS
    assert (shown["x1"] - shown["x0"]).to_list() == [25] * COLUMNS
    assert 7001 in shown["turn"]
    assert shown.select(pl.col("longest_gap_s", "started").last()).row(0) == (9.0, 2)
    # every other column shows the longest prompt of its turns
    assert shown.filter(pl.col("rewritten") == 0)["turn"].to_list() == [t for t in range(24, 10_000, 25) if t != 7024]
    assert tower(shown).height <= MOST_RECTANGLES
    zoomed = shown_turns(turns, 6990, 7010)
    assert zoomed["turn"].to_list() == list(range(6990, 7011))
    assert tower(zoomed).filter(pl.col("cause") == "rewritten").select("x0", "x1", "y0", "y1").rows() == [
        (7001, 7002, 5, 70_010)
    ]


def test_a_prefix_that_two_sessions_share_by_hand() -> None:
    """Blocks 0 1 shared by two sessions; then 2 (twice), and 3. Widths are requests, depths are tokens."""
    rows = [("a", [0, 1]), ("a", [0, 1, 2]), ("a", [0, 1, 2, 2]), ("b", [0, 1, 3])]
    warehouse = hashed([{"timestamp": i, "ids": ids, "rest": 0, "session_id": s} for i, (s, ids) in enumerate(rows)])
    found = icicle(warehouse, Question(), fold=2.0, small=0)
    place = found.rectangles.sort("y0", "x0").select("x0", "x1", "y0", "y1", "requests").rows()
    assert place == [(0, 4, 0, 16, 4), (0, 2, 16, 24, 2), (2, 3, 16, 24, 1), (0, 1, 24, 32, 1)]
    assert found.rectangles.sort("y0", "x0")["session_id"].is_null().to_list() == [True, False, False, False]
    assert (found.prompt_tokens, found.distinct_tokens, found.requests) == (16 + 24 + 32 + 24, 40, 4)
    below = icicle(warehouse, Question(), int(found.rectangles.filter(pl.col("requests") == 2)["node"][0]))
    assert (below.prompt_tokens, below.distinct_tokens, below.requests) == (24, 16, 2)


def test_a_tower_stacks_every_cause_once() -> None:
    assert sorted(STACK) == sorted(CAUSES)
