"""What-ifs of compactions and edits against the trace told again without them, to the token."""

from __future__ import annotations

import json
import random
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
from analysis.why.edited.undone import Undone, undone_workload
from analysis.why.edited.what_ifs import NOTES, what_if_table
from analysis.why.matches import longest_matches
from analysis.why.misses import misses
from tests.references import naive
from traces.intake.ingest import Options, ingest

HEAD = "".join(f"rule {i:03d}: as it was told\n" for i in range(30))


def figures(folder: Path, rows: list[dict[str, Any]], block: int) -> dict[str, tuple[int, int]]:
    """(hit, prefix tokens) of every what-if without a value."""
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    warehouse = open_dataset(folder / "ds")
    question = Question(block_size=block)
    frame = what_if_table(warehouse, question, misses(warehouse, question))
    assert frame["note"].to_list() == [NOTES[name] for name in frame["what_if"]]
    assert (frame["hit_rate"] * frame["prefix_tokens"]).round().to_list() == frame["hit_tokens"].to_list()
    kept = frame.filter(pl.col("what_if").is_in(["as_is", "without_compaction", "without_edits"]))
    return {name: (hit, prefix) for name, hit, prefix in kept.select("what_if", "hit_tokens", "prefix_tokens").rows()}


def text(rng: random.Random, lines: int) -> str:
    return "".join(f"{rng.getrandbits(64):016x} {rng.getrandbits(64):016x}\n" for _ in range(lines))


def compacted(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Sessions of one head that are compacted now and then, as they were and with everything kept."""
    rng = random.Random(seed)
    was, kept = [], []
    at = 1_790_000_000.0
    for session in range(4):
        now = whole = HEAD + text(rng, 20)
        for _ in range(rng.randint(6, 14)):
            at += 10
            was.append({"ts": at, "session_id": f"s{session}", "prompt": now})
            kept.append({"ts": at, "session_id": f"s{session}", "prompt": whole})
            if len(now) > 3000 and rng.random() < 0.4:
                fresh = text(rng, rng.randint(1, 6))
                now, whole = HEAD + fresh, whole + fresh
            else:
                fresh = text(rng, rng.randint(3, 30))
                now, whole = now + fresh, whole + fresh
    return was, kept


@pytest.mark.parametrize(("seed", "block"), [(1, 1), (2, 16), (3, 64)])
def test_without_compaction_is_the_trace_that_keeps_everything(tmp_path: Path, seed: int, block: int) -> None:
    was, kept = compacted(seed)
    assert was != kept
    told = figures(tmp_path / "was", was, block)
    again = figures(tmp_path / "kept", kept, block)
    assert told["without_compaction"] == again["as_is"] == again["without_compaction"]
    assert told["as_is"][1] < again["as_is"][1]


def test_what_was_kept_is_sent_again_behind_a_change_of_the_head(tmp_path: Path) -> None:
    rng = random.Random(4)
    turns = [text(rng, 12) for _ in range(16)]

    def rows(compact: bool) -> list[dict[str, Any]]:
        return [
            {
                "ts": 1_790_000_000 + 10 * k,
                "session_id": "s",
                "prompt": ("mode: plan\n" if k < 12 else "mode: code\n")
                + HEAD
                + "".join(turns[6 if compact and k > 6 else 0 : k]),
            }
            for k in range(1, 17)
        ]

    told, kept = figures(tmp_path / "was", rows(True), 1), figures(tmp_path / "kept", rows(False), 1)
    assert told["without_compaction"] == kept["as_is"]


def mixed(seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Sessions with compactions, changed heads and lines: as they were, without compactions, without changes."""
    rng = random.Random(seed)
    was, kept, clean = [], [], []
    at = 1_790_000_000.0
    for session in range(3):
        head, parts = HEAD, [text(rng, 10)]
        whole, plain = list(parts), list(parts)
        for turn in range(14):
            at += 10
            for rows, prompt in ((was, head + "".join(parts)), (kept, head + "".join(whole)),
                                 (clean, HEAD + "".join(plain))):  # fmt: skip
                rows.append({"ts": at, "session_id": f"s{session}", "prompt": prompt})
            what, fresh = rng.random(), text(rng, rng.randint(3, 12))
            if what < 0.12 and sum(map(len, parts)) > 3000:
                parts, plain, whole = [fresh], [fresh], [*whole, fresh]
                continue
            if what < 0.24:
                head = f"mode: {rng.choice('ab')}{turn}\n{HEAD}"
            elif what < 0.36 and len(parts) > 2:
                i = rng.randrange(len(parts) - 1)
                other = text(rng, 1) + parts[i][34:]
                whole[whole.index(parts[i])] = parts[i] = other
            for turns in (parts, whole, plain):
                turns.append(fresh)
    return was, kept, clean


@pytest.mark.parametrize("seed", [101, 102, 103])
def test_each_kind_of_change_is_undone_among_others(tmp_path: Path, seed: int) -> None:
    was, kept, clean = mixed(seed)
    told = figures(tmp_path / "was", was, 1)
    assert told["without_compaction"] == figures(tmp_path / "kept", kept, 1)["as_is"] != told["as_is"]
    assert told["without_edits"] == figures(tmp_path / "clean", clean, 1)["as_is"] != told["as_is"]


def test_a_summary_that_the_source_names_is_left_out(tmp_path: Path) -> None:
    rng = random.Random(5)
    turns = [text(rng, 20) for _ in range(12)]

    def prompt(first: int, last: int, summary: str | None) -> list[dict[str, Any]]:
        parts = [{"type": "text", "text": part} for part in turns[first:last]]
        told = [] if summary is None else [{"type": "compaction", "content": summary}]
        return [{"role": "system", "content": HEAD}, {"role": "user", "content": [*told, *parts]}]

    was = [prompt(0, k, None) for k in range(1, 7)] + [prompt(6, k, text(rng, 0) + "sum\n") for k in range(7, 13)]
    kept = [prompt(0, k, None) for k in range(1, 13)]
    rows = [
        [{"ts": 1_790_000_000 + 10 * i, "session_id": "s", "messages": m} for i, m in enumerate(prompts)]
        for prompts in (was, kept)
    ]
    assert (
        figures(tmp_path / "was", rows[0], 1)["without_compaction"] == figures(tmp_path / "kept", rows[1], 1)["as_is"]
    )


@pytest.mark.parametrize("block", [1, 16])
@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("branch: main, 3 files changed\n", "branch: next, 7 files changed\n"),
        ("branch: main\n", "branch: main, 17 files changed, 2 of them untracked\n"),
        ("branch: main, 17 files changed, 2 of them untracked\n", "branch: main\n"),
        ("", "a line that was put in\n"),
        ("a line that was taken out\n", ""),
    ],
)
def test_without_edits_is_the_trace_of_the_unedited_history(
    tmp_path: Path, line: str, instead: str, block: int
) -> None:
    rng = random.Random(len(line))
    turns = [text(rng, 8) for _ in range(10)]

    def rows(edited: bool) -> list[dict[str, Any]]:
        return [
            {
                "ts": 1_790_000_000 + 10 * k,
                "session_id": "s",
                "prompt": HEAD + turns[0] + (instead if edited and k >= 5 else line) + "".join(turns[1 : k + 1]),
            }
            for k in range(1, 10)
        ]

    told, clean = figures(tmp_path / "edited", rows(True), block), figures(tmp_path / "clean", rows(False), block)
    assert told["without_edits"] == clean["as_is"] == clean["without_edits"]
    assert told["without_edits"][0] > told["as_is"][0]


def test_a_change_that_comes_and_goes_is_undone_both_times(tmp_path: Path) -> None:
    rng = random.Random(9)
    turns = [text(rng, 8) for _ in range(8)]

    def rows(changed: tuple[int, ...]) -> list[dict[str, Any]]:
        return [
            {
                "ts": 1_790_000_000 + 10 * k,
                "session_id": "s",
                "prompt": HEAD + turns[0] + f"it is {'noon' if k in changed else 'dawn'}\n" + "".join(turns[1 : k + 1]),
            }
            for k in range(1, 8)
        ]

    told, clean = figures(tmp_path / "edited", rows((4,)), 1), figures(tmp_path / "clean", rows(()), 1)
    assert told["without_edits"] == clean["as_is"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text("ab", max_size=10)), min_size=1, max_size=10),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_nothing_undone_is_the_workload_as_it_was(prompts: list[str | None], block: int, random: Any) -> None:
    tree = naive.build_tree(prompts, cuts=[[random.randint(1, 10)] for _ in prompts])
    order = np.array(random.sample(range(len(prompts)), len(prompts)))
    times = np.zeros(len(prompts))
    paths = heavy_paths(tree.parent, tree.start)
    match = longest_matches(tree.parent, tree.start, tree.end, tree.leaf, order, times, paths)
    none = np.full(len(prompts), -1, np.int64)
    made = undone_workload(
        tree.parent, tree.start, tree.end, tree.leaf, order, match.row, match.tokens, Undone(*[none] * 7),
        np.zeros(len(tree.parent), np.bool_), np.zeros(len(prompts)), 0,
    )  # fmt: skip
    before = reuse(tree.parent, tree.start, tree.end, tree.leaf, order, times, block).hit_blocks
    after = reuse(made.parent, made.start, made.end, made.leaf, order, times, block).hit_blocks
    assert after.tolist() == before.tolist()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text("ab", max_size=10), min_size=2, max_size=10), st.integers(1, 3), st.randoms(use_true_random=False)
)
def test_undone_prompts_are_those_told_again(prompts: list[str], block: int, random: Any) -> None:
    """Any prompts, any changes: tokens are told by the path that they end, and inserted as the rule says."""
    tree = naive.build_tree(prompts, cuts=[[random.randint(1, 10)] for _ in prompts])
    order, times = np.arange(len(prompts)), np.zeros(len(prompts))
    paths = heavy_paths(tree.parent, tree.start)
    match = longest_matches(tree.parent, tree.start, tree.end, tree.leaf, order, times, paths)
    undone = Undone(*(np.full(len(prompts), -1, np.int64) for _ in range(7)))
    names = [[prompt[: i + 1] for i in range(len(prompt))] for prompt in prompts]  # a token is its path
    again: list[list[str]] = []
    where: list[list[int]] = []  # for every place of a prompt, how much of the new one lies before it
    for row, prompt in enumerate(prompts):
        base, shared = int(match.row[row]), int(match.tokens[row])
        keep, behind = shared, shared
        if row and random.random() < 0.4:
            base = random.randrange(row)
            shared = naive.lcp(prompts[base], prompt)
            behind = random.randint(shared, len(prompt))
            keep = random.randint(shared, len(prompts[base]))
            for column, value in zip(undone, (base, shared, shared, shared, keep, behind, -1), strict=True):
                column[row] = value
        start = where[base][keep] if base >= 0 else 0
        again.append((again[base][:start] if base >= 0 else []) + names[row][behind:])
        alike = where[base][: shared + 1] if base >= 0 else [0]
        between = [min(alike[-1] + i, start) for i in range(1, behind - shared + 1)]
        places = [*alike, *between]
        where.append([*places, *(start + i for i in range(1, len(prompt) - behind + 1))])
    made = undone_workload(
        tree.parent, tree.start, tree.end, tree.leaf, order, match.row, match.tokens, undone,
        np.zeros(len(tree.parent), np.bool_), np.zeros(len(prompts)), 0,
    )  # fmt: skip
    got = reuse(made.parent, made.start, made.end, made.leaf, order, times, block).hit_blocks
    want = naive.build_tree([tuple(prompt) for prompt in again])
    expected = reuse(want.parent, want.start, want.end, want.leaf, order, times, block).hit_blocks
    assert made.end[made.leaf].tolist() == [len(prompt) for prompt in again]
    assert got.tolist() == expected.tolist()
