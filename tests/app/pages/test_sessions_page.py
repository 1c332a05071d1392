"""The page Sessions on tiny datasets of known answers, run without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.places import ROOT
from traces.intake.ingest import Options, ingest

SCRIPT = str(ROOT / "app" / "streamlit_app.py")
TEXT = "".join(f"line {i:04d} of the prompt\n" for i in range(100))
MARKUP = "<img src=x onerror=alert(1)> **bold** [x](javascript:alert(1)) :red[y] $z$ =1+1"


def dataset(folder: Path, rows: list[dict[str, Any]], name: str = "rows.jsonl") -> Path:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / name)], folder / "ds", Options(tokenizer="bytes"))
    return folder / "ds"


def page(path: Path | None, monkeypatch: pytest.MonkeyPatch, **link: str) -> AppTest:
    if path is not None:
        monkeypatch.setenv("TRACETOWER_DATASET", str(path))
    at = AppTest.from_file(SCRIPT, default_timeout=300)
    at.run()
    for key, value in link.items():
        at.query_params[key.replace("_", "-")] = value
    at.switch_page("views/sessions/sessions.py").run()
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    return "\n".join(str(e.value) for kind in (at.markdown, at.caption, at.info, at.warning) for e in kind)


def listed(at: AppTest, column: str) -> list[Any]:
    return list(next(frame.value[column] for frame in at.dataframe if column in frame.value))


@pytest.fixture(scope="module")
def rewritten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Session 0 rewrites 1,805 of 2,400 tokens in its third turn; session 1 only grows."""
    prompts = [("a", TEXT[:1200]), ("a", TEXT[:2400]), ("a", f"{TEXT[:595]}#{TEXT[596:2400]}"),
               ("b", f"B{TEXT[:900]}"), ("b", f"B{TEXT[:1800]}")]  # fmt: skip
    rows = [{"ts": 10 * i, "end": 10 * i + 4, "session_id": s, "model": "m", "prompt": p} for i, (s, p) in
            enumerate(prompts)]  # fmt: skip
    return dataset(tmp_path_factory.mktemp("sessions"), rows)


def test_the_worst_session_is_first_and_opens_to_its_turn(rewritten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = page(rewritten, monkeypatch)
    assert "**1 of 2 sessions lose 1.80" in said(at)
    assert listed(at, "Session") == [0, 1]
    assert listed(at, "Tokens lost") == [1805, 0]
    at = page(rewritten, monkeypatch, session="0")
    assert [button.label for button in at.button if button.label.startswith("Turn")] == ["Turn 2: 1.80\u00a0k"]
    next(button for button in at.button if button.label.startswith("Turn 2")).click().run()
    assert at.query_params["turn"] == "2"
    text = said(at)
    assert "both prompts begin with the same 595 tokens" in text
    assert "keep the history as it was sent" in text
    around = next(frame.value for frame in at.dataframe if "Rewritten" in frame.value)
    assert around["Turn"].to_list() == [0, 1, 2]
    assert around["Rewritten"].to_list() == [0, 0, 1805]
    next(button for button in at.button if button.label == "All sessions").click().run()
    assert listed(at, "Session") == [0, 1]
    assert "session" not in at.query_params


def test_a_search_or_a_cause_that_leaves_nothing_says_so(rewritten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = page(rewritten, monkeypatch, sessions_find="no such thing")
    assert "No session is left" in said(at)
    next(button for button in at.button if button.label == "Show all sessions").click().run()
    assert len(listed(at, "Session")) == 2
    at = page(rewritten, monkeypatch, sessions_cause="keep_history")
    assert listed(at, "Session") == [0]
    assert "Session 99 is not here" in said(page(rewritten, monkeypatch, session="99"))
    assert "Turn 7 is not here" in said(page(rewritten, monkeypatch, session="0", turn="7"))


def test_nothing_open_and_a_damaged_dataset(rewritten: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACETOWER_DATASET", raising=False)
    assert "Nothing is open yet" in said(page(None, monkeypatch))
    broken = tmp_path / "ds"
    broken.mkdir()
    for file in rewritten.iterdir():
        if file.is_file():
            (broken / file.name).write_bytes(file.read_bytes()[: -40 if file.suffix == ".parquet" else None])
    at = page(broken, monkeypatch)
    assert at.error


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([{"ts": 1, "input_tokens": 5, "output_tokens": 2}], "no block identity"),
        ([{"ts": i, "prompt": TEXT[: 900 + 300 * i]} for i in range(3)], "does not name all sessions"),
        ([{"session_id": "a", "prompt": TEXT[: 900 + 300 * i]} for i in range(3)], "loses a token"),
    ],
    ids=["lengths only", "no sessions", "no times"],
)
def test_what_a_trace_does_not_hold_is_said(
    rows: list[dict[str, Any]], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = page(dataset(tmp_path, rows), monkeypatch)
    assert not at.error
    assert says in said(at)


def test_markup_in_every_text_is_shown_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"ts": i, "session_id": MARKUP, "model": MARKUP, "agent": MARKUP, "prompt": TEXT[: 600 + 300 * i]}
            for i in range(3)]  # fmt: skip
    made = dataset(tmp_path, rows, "a<b>*c*.jsonl")
    for link in ({}, {"session": "0", "turn": "1"}):
        at = page(made, monkeypatch, **link)
        shown = said(at) + "".join(str(e.value) for e in (*at.header, *at.subheader))
        assert "<img" not in shown.replace("\\<img", "")
        assert "**bold**" not in shown


def test_the_cache_that_why_asks_for_is_the_one_here(rewritten: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACETOWER_DATASET", str(rewritten))
    at = AppTest.from_file(SCRIPT, default_timeout=300)
    at.run()
    at.switch_page("views/why/why.py").run()
    at.selectbox(key="why-capacity").set_value(250_000).run()
    at.switch_page("views/sessions/sessions.py").run()
    assert at.selectbox(key="why-capacity").value == 250_000
    assert at.selectbox(key="why-policy").value == "session_hash"
    assert "the cache chosen above" in said(at)
