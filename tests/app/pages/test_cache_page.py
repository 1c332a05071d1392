"""The parts of the page Cache on a tiny dataset, run without a browser."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from app.cli import group
from app.visit.link.schema import SETTINGS
from tests.places import ROOT
from traces.intake.ingest import Options, ingest

SCRIPT = str(ROOT / "app" / "streamlit_app.py")
ZERO_S = 1_790_000_000


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """Three sessions of three growing prompts, in turns."""
    rows = [
        {"timestamp": ZERO_S + 100 * turn + s, "end": ZERO_S + 100 * turn + s + 5, "session_id": f"s{s}",
         "block_size": 4, "input_length": 4 * (3 + turn), "output_length": 2,
         "hash_ids": [1, *range(100 * (s + 1), 100 * (s + 1) + 2 + turn)]}
        for turn in range(3) for s in range(3)
    ]  # fmt: skip
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "r.jsonl")], tmp_path / "ds", Options(format="table"))
    return tmp_path / "ds"


def page(dataset: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> AppTest:
    monkeypatch.setenv("TRACETOWER_DATASET", str(dataset))
    at = AppTest.from_file(SCRIPT, default_timeout=300)
    at.run()
    at.switch_page("views/cache/cache.py").run()
    at.segmented_control(key="cache-part").set_value(part).run()
    assert not at.exception
    assert not at.error
    return at


def test_sessions_at_once_and_what_holds_them_back(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = page(dataset, monkeypatch, "sessions")
    at.session_state["once-admission"] = ["none", "footprint"]
    at.number_input(key="once-capacity").set_value(1000).run()
    assert not at.exception
    shown = at.dataframe[0].value
    assert shown["Sessions at once"].to_list() == [1, 2, 3, 1, 2, 3]
    assert shown["Which run"].unique().tolist() == ["all run", "what fits now"]
    assert any("Knee: 3." in text.value for text in at.markdown)


def test_eviction_says_how_far_lru_is_from_the_optimum(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = page(dataset, monkeypatch, "eviction")
    assert any("LRU" in text.value for text in at.markdown)
    assert any(text.value.startswith("**belady**") for text in at.caption)


def test_every_command_of_the_page_runs(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(dataset.parent)
    commands = []
    for part in SETTINGS["cache-part"].choices():  # type: ignore[misc]
        at = page(dataset, monkeypatch, part)
        commands += [code.value for code in at.code if code.language == "bash"]
    assert len(commands) >= 5
    for command in commands:
        result = CliRunner().invoke(group, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)
