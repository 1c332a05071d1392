"""Chat transcripts, one a row."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared

ROWS = SAMPLES / "openai_messages" / "rows.jsonl"
SYSTEM = len("You are an agent.")


def test_rows(tmp_path: Path) -> None:
    read = Read(tmp_path, ROWS)
    first = SYSTEM + len("Fix it.")
    call = len('bash{"c":"ls"}')
    other = len("You are XFix")
    assert read.column("input_tokens") == [
        first,
        first + call + len("a.py"),
        SYSTEM + len("Go."),
        other,
        other + len("lsa.py"),
    ]
    assert read.sessions.height == 3
    assert read.column("prompt_completeness") == ["structure"] * 5


def test_rows_share_what_they_start_with(tmp_path: Path) -> None:
    Read(tmp_path, ROWS)
    from traces.dataset.layout import Dataset

    tree = Dataset(tmp_path / "dataset").read("prefixes")
    system = tree.filter((pl.col("role") == "system") & (pl.col("end_token") - pl.col("start_token") > 0))
    # "You are " is shared by all three, "an agent." by two: a node each, and one for the third's own end.
    assert sorted((system["end_token"] - system["start_token"]).to_list()) == [1, len("You are "), len("an agent.")]


def test_parquet(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()][1:2]
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"instance_id": ["b"], "messages": [r["messages"] for r in rows]}).write_parquet(path)
    read = Read(tmp_path, path)
    assert read.receipt["formats"] == {"openai_messages": 1}
    assert read.column("input_tokens") == [SYSTEM + len("Go.")]


def test_shared(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("openai_messages_sft/swesmith_ft_xml.head2.jsonl"))
    assert (read.requests.height, read.sessions.height) == (81, 2)
