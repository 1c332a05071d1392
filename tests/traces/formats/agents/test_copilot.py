"""Copilot CLI sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, lines, shared


def test_output_is_counted_and_prompts_are_estimates(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "copilot" / "events.jsonl")
    assert read.column("output_tokens") == [12, 3, 3]
    assert read.column("input_tokens") == [None] * 3
    assert read.column("prefix_tokens") == [len("List"), None, len("ListI delegate.task{}a.py")]
    assert read.sessions["role"].to_list() == ["main", "subagent"]
    assert read.sessions["spawn_request_id"].to_list() == [None, 0]
    assert read.receipt["failed_attempts"] == 1
    assert any("input 9,000" in w for w in read.receipt["warnings"])


def _run(start: int, output: int, **totals: Any) -> list[dict[str, Any]]:
    """One run of a session: a question, an answer and a shutdown."""
    events = [
        ("user.message", {"content": "go"}),
        ("assistant.message", {"messageId": f"a{start}", "content": "ok", "outputTokens": output}),
        ("session.shutdown", totals),
    ]
    return [
        {"type": kind, "data": data, "id": f"{start}-{at}", "parentId": None} for at, (kind, data) in enumerate(events)
    ]


def _models(*counts: tuple[int, int, int]) -> dict[str, Any]:
    names = ("inputTokens", "outputTokens", "cacheReadTokens")
    return {f"model-{at}": {"usage": dict(zip(names, one, strict=True))} for at, one in enumerate(counts)}


def _details(*counts: int) -> dict[str, Any]:
    return {n: {"tokenCount": c} for n, c in zip(("input", "output", "cache_read"), counts, strict=True)}


RUNS = {
    "by model": [{"modelMetrics": _models((30000, 100, 14000))}, {"modelMetrics": _models((17000, 80, 15000))}],
    "by kind": [{"tokenDetails": _details(30000, 100, 14000)}, {"tokenDetails": _details(17000, 80, 15000)}],
    "both": [
        {"modelMetrics": _models((30000, 100, 14000)), "tokenDetails": _details(1, 2, 3)},
        {"modelMetrics": {"m": {"requests": {"count": 1}}}, "tokenDetails": _details(17000, 80, 15000)},
    ],
    "two models": [
        {"modelMetrics": _models((10000, 60, 4000), (20000, 40, 10000))},
        {"modelMetrics": _models((17000, 80, 15000))},
    ],
    "the second covers both runs": [
        {"modelMetrics": _models((30000, 100, 14000))},
        {"modelMetrics": _models((47000, 180, 29000))},
    ],
}


@pytest.mark.parametrize("kind", RUNS)
def test_totals_of_a_resumed_sessions_runs_are_added(kind: str, tmp_path: Path) -> None:
    first, second = RUNS[kind]
    start = {"type": "session.start", "data": {"sessionId": "s"}, "id": "0", "parentId": None}
    events = [start, *_run(1, 100, **first), *_run(2, 80, **second)]
    read = Read(tmp_path, lines(tmp_path, "events.jsonl", *events))
    own = "input 47,000, output 180, cache_read 29,000"
    assert [w for w in read.receipt["warnings"] if "own totals" in w] == [f"copilot: the session's own totals: {own}"]
    assert (read.total("output_tokens"), read.column("input_tokens")) == (180, [None, None])


def test_shared(tmp_path: Path) -> None:
    assert Read(tmp_path / "a", shared("other_agents/copilot/large.jsonl")).requests.height == 4
    assert Read(tmp_path / "b", shared("other_agents/copilot/small.jsonl")).requests.height == 5
