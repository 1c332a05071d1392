"""Asked again, a question gets the same digits from the dataset's cache, without loading the trace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from analysis.headline.report import report
from analysis.store import catalog
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse, open_dataset
from traces.intake.demo import demo_inputs
from traces.intake.ingest import ingest

QUESTIONS = (
    Question(), Question(block_size=128), Question(window="last:0.5"), Question(where=(("role", "main"),)),
    Question(arrivals="staggered:600"), Question(timezone="Europe/Berlin", arrivals="staggered:60"),
)  # fmt: skip


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("again")
    ingest(demo_inputs()[:3], folder / "ds")
    return folder / "ds"


@pytest.mark.parametrize("question", QUESTIONS, ids=range(len(QUESTIONS)))
def test_an_answer_from_the_cache_has_every_digit(dataset: Path, question: Question) -> None:
    computed, kept = open_dataset(dataset), open_dataset(dataset)
    first = {name: asked(computed, name, question) for name in catalog.queries()}
    answered = {name: answer for name, answer in first.items() if not isinstance(answer, str)}
    assert {name: asked(kept, name, question) for name in answered} == answered
    assert kept._con is None  # nothing was asked of DuckDB
    axes = ("trajectory_type", "role", "day", "session")
    assert json.dumps(report(kept, question, axes)) == json.dumps(report(computed, question, axes))


def asked(warehouse: Warehouse, name: str, question: Question) -> object:
    try:
        frame = warehouse.query(name, question)
    except BadQuestion as error:
        return str(error)
    return frame.schema, frame.rows()


def test_a_report_that_was_asked_for_loads_no_trace(dataset: Path) -> None:
    report(open_dataset(dataset), Question(arrivals="staggered:600"))
    again = open_dataset(dataset)
    report(again, Question(arrivals="staggered:600"))
    assert again._loaded is None
    assert again._con is None


def test_another_question_is_another_answer(dataset: Path, tmp_path: Path) -> None:
    """In any order of asking: an answer never comes from what another question left in the cache."""
    alone = []
    for place, question in enumerate(QUESTIONS):
        copy = tmp_path / str(place)
        shutil.copytree(dataset, copy, ignore=shutil.ignore_patterns("cache"))
        alone.append([asked(open_dataset(copy), name, question) for name in ("hit_rate", "overlap", "workload")])
    together = open_dataset(dataset)
    for question, expected in zip(reversed(QUESTIONS), reversed(alone), strict=True):
        assert [asked(together, name, question) for name in ("hit_rate", "overlap", "workload")] == expected
