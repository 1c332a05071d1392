"""Where prompts part: the place, the kind, and the what-ifs against prompts that were really changed."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.kernel.heavy_paths import heavy_paths
from analysis.kernel.reuse import reuse
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from analysis.why.divergences import divergences
from analysis.why.edited.marks import Change
from analysis.why.edited.tree import changed_tree
from analysis.why.matches import longest_matches
from tests.references import naive
from traces.dataset.layout import NotADataset
from traces.divergence.kinds import name_kind
from traces.divergence.shapes import Shape, Side
from traces.intake.ingest import Options, ingest

CASE = naive.SHARED / "cases" / "23-volatile-header-diagnosis"


def told(folder: Path, prompts: list[str], block: int, session: Any = None) -> list[dict[str, Any]]:
    rows = [
        {"ts": i, "session_id": "s" if session is None else session[i], "prompt": text}
        for i, text in enumerate(prompts)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    return divergences(open_dataset(folder / "ds"), Question(block_size=block))


def ceiling(prompts: list[str], block: int) -> float:
    hits = sum(
        max((naive.lcp(o, p) for o in prompts[:i]), default=0) // block * block for i, p in enumerate(prompts)
    )  # fmt: skip
    return hits / sum(map(len, prompts))


def test_the_volatile_header_of_case_23(tmp_path: Path) -> None:
    prompts = [json.loads(line)["prompt"] for line in (CASE / "input.jsonl").read_text().splitlines()]
    (row,) = told(tmp_path, prompts, 16)
    assert (row["kind"], row["start_token_p50"], row["requests"], row["same_place_requests"]) == ("nonce", 13, 2, 2)
    assert row["what_if_removed"] == pytest.approx(704 / 1104)
    assert row["what_if_constant"] == pytest.approx(736 / 1161)
    assert row["what_if_moved_to_end"] == pytest.approx(704 / 1161)


@pytest.mark.parametrize("seed", range(4))
def test_what_ifs_equal_prompts_that_were_really_changed(tmp_path: Path, seed: int) -> None:
    # A line of one length changes now and then; what comes before and behind it only grows.
    rng = random.Random(seed)
    head = "".join(f"rule {rng.randint(100, 999)}: {rng.random():.6f} and so on\n" for _ in range(rng.randint(0, 6)))
    body = "".join(f"fact {i} {rng.random():.8f}\n" for i in range(12))
    lines, bodies = [], []
    value = f"{rng.getrandbits(32):08x}"
    for turn in range(8):
        if turn and rng.random() < 0.6:
            value = f"{rng.getrandbits(32):08x}"
        lines.append(f"request-id: {value};\n")
        bodies.append(body + "".join(f"turn {i} said {i * 7919 % 1000}\n" for i in range(3 * turn)))
    prompts = [head + line + text for line, text in zip(lines, bodies, strict=True)]
    (row,) = told(tmp_path, prompts, 8)
    assert row["kind"] == "nonce"
    assert row["what_if_removed"] == pytest.approx(ceiling([head + text for text in bodies], 8))
    assert row["what_if_constant"] == pytest.approx(ceiling([head + lines[0] + text for text in bodies], 8))
    moved = [head + text + line for line, text in zip(lines, bodies, strict=True)]
    assert row["what_if_moved_to_end"] == pytest.approx(ceiling(moved, 8))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=10), min_size=1, max_size=10), st.integers(1, 3))
def test_without_changes_the_changed_tree_is_the_tree(prompts: list[str], block: int) -> None:
    tree = naive.build_tree(prompts)
    order, times = np.arange(len(prompts)), np.arange(len(prompts), dtype=np.float64)
    paths = heavy_paths(tree.parent, tree.start)
    match = longest_matches(tree.parent, tree.start, tree.end, tree.leaf, order, times, paths)
    none = Change(*(np.empty(0, np.int64) for _ in Change._fields))
    session = np.zeros(len(prompts), np.int64)
    for constant in (False, True):
        made = changed_tree(
            tree.parent, tree.start, tree.end, tree.leaf, order, session, match.row, match.tokens, none, constant
        )  # fmt: skip
        assert made.end[made.leaf].tolist() == [len(p) for p in prompts]
        again = reuse(made.parent, made.start, made.end, made.leaf, order, times, block)
        before = reuse(tree.parent, tree.start, tree.end, tree.leaf, order, times, block)
        assert again.hit_blocks.tolist() == before.hit_blocks.tolist()
        assert made.moved.tolist() == made.leaf.tolist()


def test_no_divergence_where_prompts_grow_or_a_turn_is_taken_back(tmp_path: Path) -> None:
    base = "a line that is long enough to be one\n" * 4
    assert told(tmp_path, [base, base + "one more\n" * 6, base, base + "another\n" * 9], 8) == []


def test_an_appended_dataset_keeps_its_divergences(tmp_path: Path) -> None:
    text = "".join(f"rule {i}: be ok\n" for i in range(20))
    for name, ids in (("a", ("a1f3", "9c0e")), ("b", ("77d2", "12ab"))):
        rows = [{"ts": i, "session_id": name, "prompt": f"id={v};\n{text}{'more ' * i}"} for i, v in enumerate(ids)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        ingest([str(tmp_path / f"{name}.jsonl")], tmp_path / "ds", Options(tokenizer="bytes"))
    table = open_dataset(tmp_path / "ds").dataset.read("divergences")
    assert table["kind"].to_list() == ["nonce", "nonce"]
    assert table["start_token"].to_list() == [3, 3]


LINES = [
    ("Current time: 2026-01-02T10:00:00Z\n", "Current time: 2026-01-02T10:05:31Z\n", "clock"),
    ("Today is Friday, January 2, 2026.\n", "Today is Saturday, January 3, 2026.\n", "clock"),
    ("now=1767225600\n", "now=1767229999\n", "clock"),
    ("x-request-id: 7f3a91c2\n", "x-request-id: 00be1d44\n", "nonce"),
    ("cwd: /home/a/project\n", "cwd: /home/b/other\n", "working_directory"),
    ("Current branch: main\n", "Current branch: feature\n", "working_directory"),
    ("<system-reminder>Keep the list.</system-reminder>\n", "Fix the bug now, please.\n", "reminder"),
    ('{"a": 1, "b": [1, 2]}\n', '{"a":1,"b":[1,2]}\n', "whitespace"),
    ("<think>First I look.</think>ok\n", "ok\n", "stripped_reasoning"),
    ("add a test for the parser\n", "remove the old parser entirely\n", "edit"),
]


@pytest.mark.parametrize(("before", "after", "kind"), LINES)
def test_kinds_of_lines(before: str, after: str, kind: str | None) -> None:
    sides = (Side("user", text, text, text) for text in (before, after))
    assert name_kind(*sides, Shape(resumed=True)) == kind


def test_kinds_by_role() -> None:
    alike, other = Shape(resumed=True), Shape(resumed=False)
    assert name_kind(Side("reasoning", None), Side("assistant", None), alike) == "stripped_reasoning"
    assert name_kind(Side("image", None), Side("image", None), alike) == "image"
    assert name_kind(Side("tools", "x", "x"), Side("tools", "y", "y"), other) == "tool_schema"
    assert name_kind(Side("user", "x", "x"), Side("summary", "y", "y"), other) == "summary"
    assert name_kind(Side("user", "x", "x"), Side("user", "y", "y"), Shape(False, compaction=True)) == "summary"


def test_the_table_holds_no_text(tmp_path: Path) -> None:
    secret = "hunter2hunter2"
    told(tmp_path, [f"id={secret}{i};\n" + "the rest of it is the same here\n" * 5 for i in range(3)], 8)
    frame = open_dataset(tmp_path / "ds").dataset.read("divergences")
    assert frame.height == 2
    for column in frame.get_columns():
        if column.dtype == pl.String:
            assert not any(secret in str(value) for value in column)


def test_lengths_that_fit_no_prompt_are_left_out_or_refused(tmp_path: Path) -> None:
    text = "".join(f"rule {i}: be ok\n" for i in range(20))
    assert told(tmp_path, [f"id={v};\n{text}" for v in ("a1f3", "9c0e")], 8) != []
    dataset = open_dataset(tmp_path / "ds").dataset
    path = dataset.table_path("divergences")
    whole = pl.read_parquet(path)
    for name, value in (("resumed_tokens", 1 << 40), ("line_token", -5), ("line_tokens", 10_000), ("keeps_end", None)):
        whole.with_columns(pl.lit(value, dtype=whole.schema[name]).alias(name)).write_parquet(path)
        with suppress(NotADataset):
            assert divergences(open_dataset(tmp_path / "ds"), Question(block_size=8)) == []
