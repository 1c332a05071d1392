"""One question, one answer: command line, library, query, SQL, profile, HTML and a bundle give the same digits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from analysis.headline.curves import curve, hit_tokens_at
from analysis.headline.report import report
from analysis.profile.profile import profile
from analysis.store.axes import AXES
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from app.cli import group
from app.widgets.formats import figure
from traces.dataset.bundle import bundle
from traces.intake.demo import demo_inputs
from traces.intake.ingest import ingest

ARRIVALS = "staggered:600"
QUESTIONS = [
    Question(),
    Question(arrivals=ARRIVALS),
    Question(block_size=128, arrivals="poisson:60:1", window="last:0.5"),
    Question(arrivals=ARRIVALS, where=(("role", "main"),)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("same") / "ds"
    ingest(demo_inputs()[:5], path)
    return path


def said(*args: object) -> Any:
    result = CliRunner().invoke(group, [*map(str, args), "--json"])
    assert result.exit_code == 0, (args, result.output)
    return json.loads(result.stdout)


def flags(question: Question) -> list[str]:
    size = [] if question.block_size is None else ["--block-size", str(question.block_size)]
    where = [word for axis, value in question.where for word in ("--where", f"{axis}={value}")]
    return [*size, "--arrivals", question.arrivals, "--window", question.window, *where]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_every_headline_figure(question: Question, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    by = [word for axis in AXES for word in ("--by", axis)]
    figures = said("report", folder, *flags(question), *by, "--html", page)
    stated = figures.pop("findings")
    warehouse = open_dataset(folder)
    assert report(warehouse, question, tuple(AXES)) | {"definition": figures["definition"]} == figures
    text = page.read_text("utf-8")
    for part in ("workload", "overlap", "hit_rate"):
        assert said("query", folder, part, *flags(question))["rows"] == [figures[part]]
        assert said("query", folder, "--sql", f"FROM {part}()", *flags(question))["rows"] == [figures[part]]
        assert all(figure(name, value) in text for name, value in figures[part].items() if value is not None)
    for axis in AXES:
        assert said("query", folder, "by_axis", f"axis={axis}", *flags(question))["rows"] == figures["by"][axis]
    bundle(warehouse.dataset, tmp_path / "b.zip")
    bundled = said("report", tmp_path / "b.zip", *flags(question))
    for part in ("workload", "overlap", "hit_rate"):
        assert bundled[part] == figures[part]
    assert [(f["kind"], f["figures"]) for f in bundled["findings"]] == [(f["kind"], f["figures"]) for f in stated]


@pytest.mark.parametrize("question", QUESTIONS[1:], ids=str)
def test_every_point_of_a_curve(question: Question, folder: Path) -> None:
    warehouse = open_dataset(folder)
    capacities, ttls = [1, 7, 500, 10**6], [0.0, 60.0, 3600.0]
    frame = curve(warehouse, question, capacity_blocks=capacities, ttl_s=ttls)
    hits = frame["hit_tokens"].to_list()
    points = ["--capacity-blocks", ",".join(map(str, capacities)), "--ttl", ",".join(map(str, ttls))]
    assert said("curve", folder, *flags(question), *points)["rows"] == frame.to_dicts()
    sizes, times = f"capacities={','.join(map(str, capacities))}", f"ttls={','.join(map(str, ttls))}"
    by_size = said("query", folder, "lru_curve", sizes, *flags(question))["rows"]
    by_time = said("query", folder, "ttl_curve", times, *flags(question))["rows"]
    assert [row["hit_tokens"] for row in (*by_size, *by_time)] == hits
    assert [hit_tokens_at(warehouse, question, c)[0] for c in capacities] == hits[: len(capacities)]


def test_the_profile(folder: Path) -> None:
    warehouse: Warehouse = open_dataset(folder)
    question = Question(arrivals=ARRIVALS)
    overall, rate = profile(warehouse, None, ARRIVALS)["overall"], report(warehouse, question)["hit_rate"]
    assert overall["cached"]["ceiling"] == rate["ceiling"]
    block = warehouse.prepare(question).block_size
    for point in overall["cached"]["at_capacity"]:
        hit, prefix = hit_tokens_at(warehouse, question, point["capacity_tokens"] // block)
        assert point["hit_rate"] == hit / prefix
