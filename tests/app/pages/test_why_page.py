"""The page Why on a tiny dataset of known answers, run without a browser."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from app.cli import group
from app.visit.link.schema import SETTINGS
from tests.places import ROOT
from traces.intake.ingest import Options, ingest

SCRIPT = str(ROOT / "app" / "streamlit_app.py")
RULES = "".join(f"rule {i:03d}: be ok\n" for i in range(1, 21))
TURNS = ("Q1: fix the bug\n", "A1: done thanks\nQ2: add a tests\n", "A2: added tests\nQ3: ship it now\n")
PARTS = tuple(SETTINGS["why-part"].choices())  # type: ignore[misc]
HEADERS = ("a1f3", "9c0e", "77d2")


def page(dataset: Path, monkeypatch: pytest.MonkeyPatch, part: str = "causes") -> AppTest:
    monkeypatch.setenv("TRACETOWER_DATASET", str(dataset))
    at = AppTest.from_file(SCRIPT, default_timeout=300)
    at.run()
    at.switch_page("views/why/why.py").run()
    return at if part == "causes" else turn(at, part)


def turn(at: AppTest, part: str) -> AppTest:
    """Go to a part of the page."""
    return at.segmented_control(key="why-part").set_value(part).run()


def test_a_volatile_header_is_named_and_what_its_removal_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"ts": i, "session_id": "v", "prompt": f"hdr: v=1; id={HEADERS[i]};\n{RULES}{''.join(TURNS[: i + 1])}"}
        for i in range(3)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds", Options(tokenizer="bytes"))
    at = page(tmp_path / "ds", monkeypatch, "what-if")
    assert not at.exception
    assert not at.error
    tables = [frame.value for frame in at.dataframe]
    parted = next(t for t in tables if "What changes" in t)
    assert parted["What changes"].to_list() == ["random id or nonce"]
    assert parted["At token"].to_list() == [13]
    assert parted["If removed"].to_list()[0] > 0.5  # what it adds to the ceiling
    what_ifs = next(t for t in tables if "What if" in t)
    assert "Block size" in what_ifs["What if"].to_list()


def test_lengths_alone_say_why_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text('{"ts": 1, "input_tokens": 5, "output_tokens": 2}\n')
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds")
    at = page(tmp_path / "ds", monkeypatch)
    assert not at.exception
    assert any("no block identity" in info.value for info in at.info)


TEXT = "".join(f"line {i:04d} of the prompt\n" for i in range(100))


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions; the provider forgot 2,401 tokens of one after 400 s, the other rewrote 605 of its 1,806."""
    folder = tmp_path_factory.mktemp("why")
    prompts = (
        (0, "a", f"A{TEXT}", 0),
        (400, "a", f"A{TEXT}and more\n", 0),
        (0, "b", f"B{TEXT}", None),
        (10, "b", f"B{TEXT[:1200]}other{TEXT[:600]}", None),
    )
    lines = []
    for ts, session, prompt, read in prompts:
        row = {"ts": ts, "end": ts + 5, "session_id": session, "model": "claude-sonnet-4", "prompt": prompt,
               "input_tokens": len(prompt), "output_tokens": 9}  # fmt: skip
        lines.append(json.dumps(row | ({} if read is None else {"cache_read_tokens": read})) + "\n")
    (folder / "rows.jsonl").write_text("".join(lines))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    return folder / "ds"


def table(at: AppTest, column: str) -> Any:
    return next(frame.value for frame in at.dataframe if column in frame.value)


def test_sessions_are_listed_by_the_tokens_that_a_remedy_brings_back(
    reported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = page(reported, monkeypatch, "sessions")
    assert not at.exception
    assert not at.error
    totals = table(at, "Remedy")
    assert dict(zip(totals["Remedy"], totals["Tokens lost"], strict=True)) == {
        "Longer TTL": 2401,
        "Keep the history": 605,
    }
    listed = table(at, "Most comes back by")
    assert listed["Tokens lost"].to_list() == [2401, 605]  # numbers, so that they sort as numbers
    assert listed["TTL"].to_list() == [2401, 0]
    at.session_state["why-remedy"] = "keep_history"
    at.run()
    assert table(at, "Most comes back by")["History"].to_list() == [605]
    lost = table(turn(at, "provider"), "TTL, over 5 min")
    assert lost["TTL, over 5 min"].to_list() == [2401]


def test_every_command_on_the_page_runs(reported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = page(reported, monkeypatch)
    at.selectbox(key="why-by").set_value("transition_detail")
    at.selectbox(key="why-capacity").set_value(250_000)
    at.selectbox(key="why-replicas").set_value(2)
    at.selectbox(key="why-insert").set_value("finish")
    at.selectbox(key="why-ttl").set_value(300.0).run()
    commands = []
    for part in PARTS:
        turn(at, part)
        assert not at.exception
        assert not at.error
        commands += [code.value for code in at.code if code.language == "bash"]
    assert len(commands) >= 12
    assert any("--replicas 2 --policy session_hash --insert finish" in command for command in commands)
    monkeypatch.chdir(reported.parent)
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "tracetower"
        result = CliRunner().invoke(group, arguments)
        assert result.exit_code == 0, (command, result.output)


def test_costs_say_the_price_and_its_date(reported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = page(reported, monkeypatch, "cost")
    assert not at.exception
    assert not at.error
    cases = table(at, "Case")
    assert cases["Requests"].to_list() == [4, 2, 4, 4, 4]  # two calls do not say what was read
    assert table(at, "Cause")["Cause"].to_list() == ["TTL, over 5 min"]
    assert table(at, "Read on")["Source"].str.startswith("https://").all()
    at.selectbox(key="cost-as").set_value("gpt-4o").run()
    assert table(at, "Read on")["Model"].to_list() == ["gpt-4o"]


def test_groups_that_are_not_drawn_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"ts": i, "session_id": f"s{i}", "prompt": f"{i} {RULES}"} for i in range(14)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "rows.jsonl")], tmp_path / "ds", Options(tokenizer="bytes"))
    at = page(tmp_path / "ds", monkeypatch)
    at.selectbox(key="why-by").set_value("session").run()
    assert not at.exception
    assert any("the 12 of 14 groups" in caption.value for caption in at.caption)
