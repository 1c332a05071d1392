"""Laws of the whole pipeline, from lines of a trace to figures."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analysis.headline.curves import curve, hit_tokens_at
from analysis.headline.report import report
from analysis.store.axes import AXES
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from traces.intake.ingest import Options, ingest

BLOCK = 8

rows = st.lists(
    st.fixed_dictionaries(
        {
            "timestamp": st.integers(0, 5000),
            "ids": st.lists(st.integers(0, 3), min_size=1, max_size=6),
            "rest": st.integers(0, BLOCK - 1),
            "output_length": st.integers(0, 50),
            "session_id": st.sampled_from(["a", "b", "c", None]),
        }
    ),
    min_size=1,
    max_size=25,
)


def trace(items: list[dict[str, Any]], start: int = 0) -> str:
    lines = []
    for i, item in enumerate(items):
        ids = [*item["ids"], *([10_000 + start + i] if item["rest"] else [])]
        row = {
            "timestamp": item["timestamp"],
            "input_length": len(item["ids"]) * BLOCK + item["rest"],
            "output_length": item["output_length"],
            "hash_ids": ids,
        }
        if item["session_id"]:
            row["session_id"] = item["session_id"]
        lines.append(json.dumps(row) + "\n")
    return "".join(lines)


def opened(parts: list[str]) -> Warehouse:
    folder = Path(tempfile.mkdtemp())
    for i, part in enumerate(parts):
        (folder / f"{i}.jsonl").write_text(part)
        ingest([str(folder / f"{i}.jsonl")], folder / "ds", Options(block_tokens=BLOCK, one_trace=True))
    return open_dataset(folder / "ds")


def naive_hits(items: list[dict[str, Any]], capacity: int | None) -> int:
    """Per-block LRU with whole look-ups and tail-first touches, design definition."""
    order = sorted(range(len(items)), key=lambda i: (items[i]["timestamp"], i))
    cache: dict[tuple[int, ...], None] = {}
    hits = 0
    for i in order:
        blocks = [tuple(items[i]["ids"][: k + 1]) for k in range(len(items[i]["ids"]))]
        for block in blocks:
            if block not in cache:
                break
            hits += 1
        for block in reversed(blocks):
            cache.pop(block, None)
            cache[block] = None
        while capacity is not None and len(cache) > capacity:
            del cache[next(iter(cache))]
    return hits


@given(rows)
@settings(max_examples=15, deadline=None)
def test_the_curve_equals_a_naive_lru_at_every_capacity(items: list[dict[str, Any]]) -> None:
    warehouse = opened([trace(items)])
    question = Question(block_size=BLOCK)
    distinct = len({tuple(i["ids"][: k + 1]) for i in items for k in range(len(i["ids"]))})
    capacities = list(range(1, distinct + 3))
    got = curve(warehouse, question, capacity_blocks=capacities)
    assert got["hit_tokens"].to_list() == [naive_hits(items, c) * BLOCK for c in capacities]
    assert got["hit_tokens"].to_list() == sorted(got["hit_tokens"].to_list()), "never falls with capacity"
    assert all(
        hit_tokens_at(warehouse, question, c)[0] == h for c, h in zip(capacities, got["hit_tokens"], strict=True)
    )
    figures = report(warehouse, question, ())
    full = sum(len(i["ids"]) for i in items)
    assert figures["hit_rate"]["ceiling_hit_tokens"] == BLOCK * (full - distinct) == naive_hits(items, None) * BLOCK
    assert got["hit_tokens"][-1] == figures["hit_rate"]["ceiling_hit_tokens"], "flat from distinct blocks on"
    ttl = curve(warehouse, question, ttl_s=[0.0, 0.5, 1.0, 2.0, 6.0])["hit_tokens"].to_list()
    assert ttl == sorted(ttl), "never falls with TTL"
    assert ttl[-1] == figures["hit_rate"]["ceiling_hit_tokens"]


@given(rows)
@settings(max_examples=6, deadline=None)
def test_groups_sum_to_the_whole(items: list[dict[str, Any]]) -> None:
    warehouse = opened([trace(items)])
    question = Question(block_size=BLOCK)
    figures = report(warehouse, question, AXES)
    for axis in AXES:
        groups = figures["by"][axis]
        for name in ("requests", "input_tokens", "output_tokens", "prefix_tokens"):
            assert sum(g[name] for g in groups) == (
                figures["workload"].get(name) or figures["overlap"].get(name) or 0
            ), (axis, name)
        assert sum(g["ceiling_hit_tokens"] for g in groups) == figures["hit_rate"]["ceiling_hit_tokens"], axis
    by = curve(warehouse, question, "trajectory_type", capacity_blocks=[3])
    assert by["hit_tokens"].sum() == curve(warehouse, question, capacity_blocks=[3])["hit_tokens"][0]


@given(rows, rows)
@settings(max_examples=6, deadline=None)
def test_ingest_of_a_then_b_is_ingest_of_both(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> None:
    one, two = trace(a), trace(b, 1000)
    assume(one != two)  # an input whose content is there already changes nothing
    apart, together, swapped = opened([one, two]), opened([one + two]), opened([two, one])
    question = Question(block_size=BLOCK)
    want = report(together, question, ())
    for part in ("workload", "overlap", "hit_rate"):
        got = report(apart, question, ())[part]
        assert {k: v for k, v in got.items() if v != want[part][k]} == {}, part
    # another file order changes ties between equal times, never totals
    assert report(swapped, question, ())["hit_rate"]["ceiling_hit_tokens"] == want["hit_rate"]["ceiling_hit_tokens"]


@given(rows)
@settings(max_examples=6, deadline=None)
def test_windows_and_filters_partition(items: list[dict[str, Any]]) -> None:
    warehouse = opened([trace(items)])
    whole = report(warehouse, Question(block_size=BLOCK), ())["hit_rate"]["ceiling_hit_tokens"]
    early = report(warehouse, Question(block_size=BLOCK, window="from:0,to:2.5"), ())["hit_rate"]
    late = report(warehouse, Question(block_size=BLOCK, window="from:2.5"), ())["hit_rate"]
    assert (early["ceiling_hit_tokens"] or 0) + (late["ceiling_hit_tokens"] or 0) == whole
    groups = [g["group"] for g in report(warehouse, Question(block_size=BLOCK), ("turn",))["by"]["turn"]]
    parts = [
        report(warehouse, Question(block_size=BLOCK, where=(("turn", g),)), ())["hit_rate"]["ceiling_hit_tokens"]
        for g in groups
    ]
    assert sum(parts) == whole
