"""Droid, Cursor, Grok, Hermes, Antigravity and tau-bench: logs without usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, refused, shared

LS = 'Execute{"command":"ls"}'
EXPECTED = {
    "droid/store.jsonl": [len("Step"), len("Step" + LS + "a.py")],
    "droid/stream.jsonl": [len("Step"), len("Step" + LS + '{"stdout":"a.py"}')],
    # Cursor does not send thinking back.
    "cursor/agent.jsonl": [len("What files?"), len('What files?Bash{"command":"ls"}a.py')],
    "grok/chat_history.jsonl": [
        len("You are Grok.Read a.py"),
        len("You are Grok.Read a.pyRead itread_file{}print(1)"),
    ],
    "hermes/session.json": [
        len('{"name":"shell"}You are Hermes.Where?'),
        len('{"name":"shell"}You are Hermes.Where?shell{}/home'),
    ],
    "antigravity/steps.jsonl": [len("List"), len('ListLooklist_dir{"p":"."}a.py'), len("Summary")],
    "tau_bench/result.json": [len("Policy.Book."), len("Policy.Book.book{}ok")],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_prompts_are_the_messages_before_an_answer(tmp_path: Path, name: str) -> None:
    read = Read(tmp_path, SAMPLES / name)
    assert read.receipt["formats"] == {name.split("/")[0]: 1}
    assert read.column("input_tokens") == EXPECTED[name]
    assert read.column("prefix_tokens") == EXPECTED[name]
    assert read.column("trigger")[:2] == ["user", "tool"]
    assert read.column("cache_read_tokens") == [None] * len(EXPECTED[name])


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        ("droid/session_store_large.jsonl", 4),
        ("droid/stream_json_large.jsonl", 2),
        ("cursor/large.jsonl", 5),
        ("cursor/subagent/parent.jsonl", 1),
        ("grok/chat_history.jsonl", 3),
        ("hermes/large.json", 2),
        ("antigravity/cli_small.jsonl", 3),
        ("../tau_bench/tb_airline.json", 20),
    ],
)
def test_shared(tmp_path: Path, name: str, requests: int) -> None:
    assert Read(tmp_path, shared(f"other_agents/{name}")).requests.height == requests


def test_a_summary_holds_no_calls(tmp_path: Path) -> None:
    receipt = refused(tmp_path, shared("other_agents/grok/summary.json"))
    assert receipt["records"]["ignored"] == 1
