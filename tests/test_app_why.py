"""The page Why on a tiny dataset of known answers, run without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from traces.ingest import Options, ingest

SCRIPT = str(Path(__file__).resolve().parents[1] / "app" / "streamlit_app.py")
RULES = "".join(f"rule {i:03d}: be ok\n" for i in range(1, 21))
TURNS = ("Q1: fix the bug\n", "A1: done thanks\nQ2: add a tests\n", "A2: added tests\nQ3: ship it now\n")
HEADERS = ("a1f3", "9c0e", "77d2")


def page(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setenv("TRACETOWER_DATASET", str(dataset))
    at = AppTest.from_file(SCRIPT, default_timeout=300)
    at.run()
    at.switch_page("views/why.py").run()
    return at


def test_a_volatile_header_is_named_and_what_its_removal_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"ts": i, "session_id": "v", "prompt": f"hdr: v=1; id={HEADERS[i]};\n{RULES}{''.join(TURNS[: i + 1])}"}
        for i in range(3)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds", Options(tokenizer="bytes"))
    at = page(tmp_path / "ds", monkeypatch)
    assert not at.exception
    assert not at.error
    tables = [frame.value for frame in at.dataframe]
    parted = next(t for t in tables if "What changes" in t)
    assert parted["What changes"].to_list() == ["random id or nonce"]
    assert parted["At token"].to_list() == [13]
    what_ifs = next(t for t in tables if "What if" in t)
    assert "Block size" in what_ifs["What if"].to_list()


def test_lengths_alone_say_why_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text('{"ts": 1, "input_tokens": 5, "output_tokens": 2}\n')
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds")
    at = page(tmp_path / "ds", monkeypatch)
    assert not at.exception
    assert any("no block identity" in info.value for info in at.info)
