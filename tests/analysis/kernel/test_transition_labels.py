"""Transitions told from prompts alone against labels read from the raw files' own marks, and against planted ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.transitions import marked_pairs, planted_pairs, table, wilson
from tests.places import SAMPLES
from tests.references.transition_labels import claude_code, codex_labels, weka


def _claude(path: Path, *calls: dict[str, object]) -> Path:
    lines = [json.dumps({"type": "assistant", "message": {"id": c["uuid"], "model": "m"}, **c}) for c in calls]
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_claude_code_marks(tmp_path: Path) -> None:
    """Parent links, side chains and summaries give the names; a circle of parents ends."""
    file = _claude(
        tmp_path / "a.jsonl",
        {"uuid": "a"},
        {"uuid": "u", "type": "user", "parentUuid": "a"},
        {"uuid": "b", "parentUuid": "u"},
        {"uuid": "c", "parentUuid": "u"},
        {"uuid": "v", "type": "user", "parentUuid": "a"},
        {"uuid": "d", "parentUuid": "v"},
        {"uuid": "s", "isSidechain": True},
        {"uuid": "w", "type": "user", "isCompactSummary": True, "parentUuid": "w"},
        {"uuid": "e", "parentUuid": "w"},
    )
    assert claude_code(file) == {
        1: "session start",
        3: "append",
        4: "retry",
        6: "fork or rewind",
        7: "sub-agent start",
        9: "compaction",
    }


def test_codex_marks(tmp_path: Path) -> None:
    """A compaction counts for the next call; a rollout without items tells nothing."""
    lines = [{"type": "session_meta", "payload": {}}, {"type": "response_item"}, {}, {"type": "compacted"}, {}, {}]
    file = tmp_path / "r.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert codex_labels(file, [3, 5, 6]) == {3: "session start", 5: "compaction", 6: "append"}
    file.write_text(json.dumps(lines[0]), "utf-8")
    assert codex_labels(file, [1]) == {}


def test_weka_marks(tmp_path: Path) -> None:
    """Sub-agents and heads are marks; a change behind the head is none."""
    calls = [
        {"in": 40, "out": 1, "hash_ids": [1, 2, 3, 4]},
        {"in": 50, "out": 1, "hash_ids": [1, 2, 3, 4, 5]},
        {"type": "subagent", "tool_tokens": 5, "system_tokens": 5, "requests": [{"in": 9, "out": 1, "hash_ids": []}]},
        {"in": 60, "out": 1, "hash_ids": [1, 9, 3, 4, 5, 6]},
        {"in": 61, "out": 1, "hash_ids": [1, 9, 3, 7, 5, 6]},
    ]
    file = tmp_path / "w.json"
    file.write_text(json.dumps({"block_size": 10, "tool_tokens": 10, "system_tokens": 10, "requests": calls}), "utf-8")
    labels = [label for _, _, label in weka(file)]
    assert labels == ["session start", "append", "sub-agent start", "system change", ""]


@pytest.mark.parametrize(("right", "of", "low", "high"), [(0, 10, 0.0, 0.27753), (81, 263, 0.25530, 0.36618)])
def test_wilson(right: int, of: int, low: float, high: float) -> None:
    """Newcombe 1998, table I, method 3."""
    assert wilson(right, of) == pytest.approx((low, high), abs=6e-5)


def test_bundled_samples(tmp_path: Path) -> None:
    """(class, labelled, told, right) of the bundled files, marks hidden."""
    pairs = []
    for name in ("claude_code/linear.jsonl", "claude_code/09.jsonl", "claude_code/21.jsonl", "weka/session.json"):
        pairs += marked_pairs(SAMPLES / name, tmp_path)
    assert table(pairs) == [
        ("append", 7, 7, 7),
        ("fork or rewind", 0, 1, 0),
        ("session start", 4, 4, 4),
        ("sub-agent start", 1, 0, 0),
    ]


def test_planted(tmp_path: Path) -> None:
    """(class, labelled, told, right) of one seed."""
    talk = [{"role": "assistant" if i % 2 else "user", "content": f"{i}: " + "told and done " * 120} for i in range(40)]
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps({"messages": talk}), "utf-8")
    told, read = planted_pairs([file], 3, 20, tmp_path, 0.3)
    assert table(told) == [
        ("append", 255, 257, 255),
        ("cold start", 11, 11, 11),
        ("compaction", 8, 8, 8),
        ("edit", 8, 7, 1),
        ("fork", 5, 5, 5),
        ("model switch", 7, 7, 7),
        ("retry", 5, 5, 5),
        ("rewind", 7, 15, 5),
        ("side request", 8, 8, 8),
        ("sub-agent start", 6, 6, 6),
        ("system change", 6, 0, 0),
        ("tail", 3, 0, 0),
        ("warm start", 9, 9, 9),
    ]
    # texts and roles tell changes of a prompt from branches
    sharper = {name: numbers for name, *numbers in table(read)}
    assert (sharper["edit"], sharper["system change"], sharper["compaction"]) == ([8, 8, 8], [6, 6, 6], [8, 9, 8])
