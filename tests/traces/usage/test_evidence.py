"""Evidence belongs to the inputs that stand: however they are read, the receipt shows each usage object once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from traces.dataset.layout import Dataset
from traces.intake import ingest as ingest_module
from traces.intake import reading
from traces.intake.ingest import ingest


def _rows(count: int, trace: int = 0) -> str:
    """Rows of which only the last of six shows what the input means: it is less than what was cached."""
    return "".join(
        json.dumps(
            {
                **{"timestamp": at, "session_id": f"s{trace}", "input_tokens": 10 + at},
                **{"cache_read_tokens": 5 if at < 5 else 900, "output_tokens": 5 + trace},
            }
        )
        + "\n"
        for at in range(count)
    )


def _evidence(receipt: dict[str, Any], dataset: Path) -> tuple[Any, ...]:
    (usage,) = Dataset(dataset).read("sources")["usage"].unique()
    return receipt["evidence"], usage


@pytest.fixture
def whole(tmp_path: Path) -> tuple[Any, ...]:
    """What one ingest of two files tells."""
    (tmp_path / "in").mkdir()
    for trace in range(2):
        (tmp_path / "in" / f"{trace}.jsonl").write_text(_rows(6, trace))
    evidence = _evidence(ingest([str(tmp_path / "in")], tmp_path / "whole"), tmp_path / "whole")
    assert evidence[0][0]["records"] == 12
    assert evidence[0][0]["sentence"] == evidence[1]
    return evidence


def test_of_files_that_grow(whole: tuple[Any, ...], tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for rows in (2, 4, 6):
        for trace in range(2):
            (folder / f"{trace}.jsonl").write_text(_rows(rows, trace))
        receipt = ingest([str(folder)], tmp_path / "ds")
    assert _evidence(receipt, tmp_path / "ds") == whole


def test_of_an_ingest_that_was_killed(whole: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_module, "SAVE_EVERY_S", -1.0)
    saved = ingest_module.save

    def killed(*arguments: Any) -> None:
        saved(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest_module, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        ingest([str(tmp_path / "in")], tmp_path / "ds")
    monkeypatch.setattr(ingest_module, "save", saved)
    assert _evidence(ingest([str(tmp_path / "in")], tmp_path / "ds"), tmp_path / "ds") == whole


def test_of_files_too_large_to_hold(whole: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "HELD_BYTES", 1)
    surveys: list[str] = []
    survey = reading._survey
    monkeypatch.setattr(reading, "_survey", lambda *given: (surveys.append("read ahead"), survey(*given))[1])
    assert _evidence(ingest([str(tmp_path / "in")], tmp_path / "ds"), tmp_path / "ds") == whole
    assert surveys == ["read ahead"] * 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("atif", "input includes cached tokens"),
        ("aider_analytics", "no cached tokens are reported"),
        ("aider_history", "input excludes cached tokens (cached tokens exceed it in 1 of 1)"),
        ("copilot", "input includes cached tokens"),
        ("goose", "no cached tokens are reported"),
        ("managed_agents", "input excludes cached tokens"),
    ],
)
def test_every_reader_of_usage_says_what_its_figures_mean(name: str, said: str, tmp_path: Path) -> None:
    ingest([str(SAMPLES / name)], tmp_path / "d")
    assert any(said in (one or "") for one in Dataset(tmp_path / "d").read("sources")["usage"])
