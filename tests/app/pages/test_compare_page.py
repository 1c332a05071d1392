"""The page Compare: two datasets of a visit, the same digits as the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

from app.cli import group
from tests.places import ROOT
from traces.intake.ingest import Options, ingest

SCRIPT = str(ROOT / "app" / "streamlit_app.py")
ZERO_S = 1_790_000_000


def made(folder: Path, name: str, blocks: int, sessions: int = 3) -> Path:
    rows = [
        {"timestamp": ZERO_S + 100 * turn + s, "session_id": f"s{s}", "block_size": 4, "output_length": 2,
         "input_length": 4 * (blocks + turn), "hash_ids": list(range(1000 * s, 1000 * s + blocks + turn))}
        for s in range(sessions) for turn in range(3)
    ]  # fmt: skip
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / f"{name}.jsonl")], folder / name, Options(format="table"))
    return folder / name


def page(root: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str = "") -> AppTest:
    monkeypatch.setenv("TRACETOWER_DATASET", str(root / first))
    monkeypatch.setenv("TRACETOWER_DATA_ROOTS", str(root))
    at = AppTest.from_file(SCRIPT, default_timeout=300)
    at.run()
    if second:
        at.session_state["b"] = second
    at.switch_page("views/compare.py").run()
    assert not at.exception
    assert not at.error
    return at


def test_one_dataset_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, "one", 3)
    at = page(tmp_path, monkeypatch, "one")
    assert any("Two datasets are needed" in info.value for info in at.info)


def test_the_figures_are_those_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = made(tmp_path, "one", 3), made(tmp_path, "two", 9)
    at = page(tmp_path, monkeypatch, "one", "two")
    shown = next(frame.value for frame in at.dataframe if "Verdict" in frame.value)
    said = json.loads(CliRunner().invoke(group, ["compare", str(one), str(two), "--json"]).stdout)
    assert len(shown) == len(said["rows"])
    assert any("top-level sessions only" in warning.value for warning in at.warning)
    verdicts = [row["interval"] is not None for row in said["rows"]]
    assert [verdict is not None and verdict != "–" for verdict in shown["Verdict"]] == verdicts
