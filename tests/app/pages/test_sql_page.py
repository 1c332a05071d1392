"""The page SQL: reads only, within its limits, and shows what comes back as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from analysis.store.connection import Limits
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import open_dataset
from tests.places import ROOT
from traces.intake.ingest import ingest

SCRIPT = str(ROOT / "app" / "streamlit_app.py")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    rows = [
        {"timestamp": 1_790_000_000 + t, "session_id": "s", "model": "=1+1<b>x</b>", "block_size": 4,
         "input_length": 4 * n, "output_length": 1, "hash_ids": list(range(n))}
        for t, n in ((0, 2), (9, 3))
    ]  # fmt: skip
    (folder / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "r.jsonl")], folder / "ds")
    return folder / "ds"


def page(dataset: Path, monkeypatch: pytest.MonkeyPatch, sql: str = "") -> AppTest:
    monkeypatch.setenv("TRACETOWER_DATASET", str(dataset))
    at = AppTest.from_file(SCRIPT, default_timeout=300)
    at.run()
    at.switch_page("views/sql.py").run()
    if sql:
        at.text_area(key="sql").set_value(sql)
        next(button for button in at.button if button.label == "Run").click().run()
    assert not at.exception
    return at


def test_it_answers_and_cells_are_no_formulas(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = page(dataset, monkeypatch)
    shown = at.dataframe[0].value
    assert shown["requests"].to_list() == [2]
    assert shown["model"].to_list() == ["'=1+1<b>x</b>"]
    assert any("`request_id`" in text.value for text in at.markdown)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM requests", "one SELECT"), ("SELECT 1; SELECT 2", "one SELECT"), ("SELEC 1", "syntax error"),
        ("SELECT * FROM read_text('/etc/passwd')", "Permission"),
        ("SELECT * FROM range(20000)", "more than 10,000 rows"),
    ],
)  # fmt: skip
def test_what_it_does_not_do_is_said(dataset: Path, monkeypatch: pytest.MonkeyPatch, sql: str, says: str) -> None:
    at = page(dataset, monkeypatch, sql)
    assert says in at.error[0].value
    assert not at.dataframe


def test_a_statement_that_takes_too_long_is_stopped(dataset: Path) -> None:
    with pytest.raises(BadQuestion, match=r"stopped after 0\.2 s"):
        open_dataset(dataset).sql(
            "SELECT sum(hash(a.range + b.range)) FROM range(10_000_000) a, range(10_000_000) b",
            Question(),
            Limits(9, 0.2),
        )
