"""Findings: planted losses are named with their worst session, and no finding contradicts the figures shown."""

from __future__ import annotations

import json
from pathlib import Path
from string import Formatter
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analysis.findings.finding import Finding
from analysis.findings.fleet import fleet_findings, on_one_replica
from analysis.findings.frames import Frames, all_frames
from analysis.findings.thresholds import MOST
from analysis.findings.workload import ABOUT, LOST, findings, of_page
from analysis.headline.curves import hit_tokens_at
from analysis.headline.report import report
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from app.visit.link.schema import SETTINGS
from app.widgets.formats import WRITTEN
from tests.planted.hashes import plant_hashes
from traces.intake.ingest import Options, ingest

BLOCK = 64


def warehouse_of(rows: list[dict[str, Any]], folder: Path) -> Warehouse:
    source = folder / "trace.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(source)], folder / "set", Options())
    return open_dataset(folder / "set")


def row(at: float, session: str, ids: list[int], tail: int = 0) -> dict[str, Any]:
    return {"timestamp": at, "session_id": session, "input_length": BLOCK * len(ids) + tail, "output_length": 2,
            "hash_ids": ids, "block_size": BLOCK}  # fmt: skip


def by_kind(warehouse: Warehouse) -> dict[str, Finding]:
    return {f.kind: f for f in findings(all_frames(warehouse, Question()))}


def values(finding: Finding) -> dict[str, Any]:
    return {name: figure.value for name, figure in finding.figures.items()}


def test_a_rewritten_history_is_found_with_its_session(tmp_path: Path) -> None:
    """Session a loses 8 of 10 blocks once, b 3 of 10; c only appends."""
    rows = [
        row(0, "c", [1, 2]), row(1000, "c", [1, 2, 3]),
        row(2000, "a", list(range(10, 20))), row(3000, "a", [10, 11, *range(30, 40)]),
        row(4000, "b", list(range(50, 60))), row(5000, "b", [*range(50, 57), *range(70, 76)]),
    ]  # fmt: skip
    warehouse = warehouse_of(rows, tmp_path)
    found = by_kind(warehouse)["keep_history"]
    worst = warehouse.query("sessions", Question()).filter(pl.col("input_tokens") == 22 * BLOCK)["session_id"][0]
    assert values(found) == {
        "tokens": 11 * BLOCK, "share": 11 / 50, "sessions": 2, "worst": worst, "worst_tokens": 8 * BLOCK,
    }  # fmt: skip
    assert (found.page, found.settings) == ("sessions", {"session": worst})
    assert "704 tokens" in found.sentence(WRITTEN)
    assert "22.0" in found.sentence(WRITTEN)


def test_a_changing_front_is_found(tmp_path: Path) -> None:
    rows = [row(1000 * i, "a", list(range(20 * i, 20 * i + 8 + i))) for i in range(4)]
    found = by_kind(warehouse_of(rows, tmp_path))
    assert values(found["unrelated"]) == {"requests": 3, "share": (9 + 10 + 11) / (8 + 9 + 10 + 11)}


def test_where_nothing_is_lost_nothing_stands_out(tmp_path: Path) -> None:
    found = by_kind(warehouse_of([row(1000 * i, "a", list(range(4 + i))) for i in range(5)], tmp_path))
    assert "nothing" in found
    assert set(found) == {"ceiling", "nothing", "size", "shape"}
    # the fifth prompt has 8 blocks: 4 + 5 + 6 + 7 of 30 hit, and the cache needs the 7 that the last prompt extends
    assert values(found["size"]) == {"capacity": 7 * BLOCK, "rate": 22 / 30, "ceiling": 22 / 30}


def test_lengths_alone_say_that_nothing_can_be_known(tmp_path: Path) -> None:
    rows = [{"timestamp": i, "input_length": 100, "output_length": 5} for i in range(3)]
    source = tmp_path / "trace.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in rows))
    ingest([str(source)], tmp_path / "set", Options())
    found = by_kind(open_dataset(tmp_path / "set"))
    assert "no_identity" in found
    assert not {"ceiling", "nothing", "size"} & set(found)


@pytest.mark.parametrize(("seed", "kind"), [(1, "edit"), (2, "compaction"), (3, "fork")])
def test_planted_kinds(seed: int, kind: str, tmp_path: Path) -> None:
    """The tokens that the planter took are those that the finding states."""
    from tests.planted.hashes import lost_hash_tokens

    planted = plant_hashes(seed, [[10, 12, 14, 17, 20, 24, 27, 31]] * 6, {kind: 0.4})
    assert kind in planted.truth
    found = by_kind(warehouse_of(planted.rows, tmp_path))["go_on_from_last" if kind == "fork" else "keep_history"]
    lost: dict[str, int] = {}
    for line, tokens in zip(planted.rows, lost_hash_tokens(planted.rows), strict=True):
        lost[line["session_id"]] = lost.get(line["session_id"], 0) + tokens
    shown = values(found)
    assert shown["tokens"] == sum(lost.values())
    assert shown["worst_tokens"] == max(lost.values())
    assert shown["sessions"] == sum(tokens > 0 for tokens in lost.values())


def consistent(warehouse: Warehouse, question: Question) -> None:
    """No finding contradicts the report, the table of losses or the curve of the same question."""
    frames = all_frames(warehouse, question)
    told = report(warehouse, question)
    found = findings(frames)
    assert [f.weight for f in found] == sorted((f.weight for f in found), reverse=True)
    assert len({f.kind for f in found}) == len(found)
    prefix = told["overlap"]["prefix_tokens"]
    for finding in found:
        shown = values(finding)
        named = {name for _, name, _, _ in Formatter().parse(finding.words) if name}
        assert named == set(shown)  # every figure is said, and every word has its figure
        assert None not in shown.values()
        for name, value in finding.settings.items():
            assert SETTINGS[name].read(SETTINGS[name].write(value)) == value  # the link says what the page understands
        if "share" in shown and "tokens" in shown:
            assert shown["share"] == shown["tokens"] / prefix
        if "sessions" in shown:
            assert shown["worst_tokens"] <= shown["tokens"] <= shown["worst_tokens"] * shown["sessions"]
        if "ceiling" in shown:
            assert shown["ceiling"] == told["hit_rate"]["ceiling"]
        if finding.kind == "size":
            blocks = finding.settings["capacity"]
            hits, _ = hit_tokens_at(warehouse, question, blocks)
            assert shown["rate"] == hits / prefix >= shown["ceiling"] - 0.01
        if finding.kind == "reported":
            gap = shown["achievable"] - shown["reported"]
            assert abs(shown["lost"] - shown.get("above", 0.0) - gap) < 1e-12
    kinds = {f.kind for f in found}
    losses = {*LOST, "reported", "unrelated", "block_rounding"}
    assert ("nothing" in kinds) == (frames.remedies is not None and not kinds & losses)
    for page in ABOUT:
        assert len(of_page(found, page)) <= MOST
        assert of_page(found, page), page


def test_no_finding_contradicts_the_demo(tmp_path: Path) -> None:
    from traces.intake.demo import demo_inputs

    ingest(demo_inputs(), tmp_path / "demo", Options())
    warehouse = open_dataset(tmp_path / "demo")
    for question in (Question(), Question(arrivals="staggered:600"), Question(where=(("role", "subagent"),)),
                     Question(arrivals="staggered:600", window="last:0.5")):  # fmt: skip
        consistent(warehouse, question)


PROMPTS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 3), min_size=1, max_size=6)), min_size=3, max_size=12
)


@given(PROMPTS)
@settings(
    max_examples=6,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_finding_contradicts_the_figures(tmp_path_factory: pytest.TempPathFactory, prompts: Any) -> None:
    names: dict[tuple[int, ...], int] = {}  # an id stands for the whole prefix, as in engines
    rows = []
    for number, (session, path) in enumerate(prompts):
        ids = [names.setdefault(tuple(path[: i + 1]), len(names)) for i in range(len(path))]
        rows.append(row(1000 * number, str(session), ids))
    consistent(warehouse_of(rows, tmp_path_factory.mktemp("law")), Question())


def test_the_provider_is_said_with_what_was_lost_and_what_was_read_above() -> None:
    """1.2 points lost and 0.9 above are not netted to 0.3."""
    provider = {
        "prefix_tokens": 1000, "reported_rate": 0.9, "achievable_rate": 0.903, "lost_by_cause": {"ttl_5m": 12},
        "above_tokens": 9,
    }  # fmt: skip
    rates = dict.fromkeys(("ceiling_low", "ceiling_high", "ceiling_coverage")) | {
        "ceiling": 0.9, "reported_token_coverage": 0.04,
    }  # fmt: skip
    transitions = pl.DataFrame({"transition": ["first"], "requests": [1], "prefix_tokens": [1000]})
    frames = Frames({"input_tokens_p50": None}, rates, 64, False, transitions, provider=provider)
    found = {f.kind: f for f in findings(frames)}["reported"]
    assert values(found) == {"reported": 0.9, "achievable": 0.903, "lost": 0.012, "above": 0.009, "coverage": 0.04}
    assert "4.0" in found.sentence(WRITTEN)


def test_a_policy_on_one_replica_is_flagged_and_last() -> None:
    from app.views.fleet.table import in_order

    rows = [
        {"policy": "all_on_one", "replicas": 4, "max_over_mean_load": 4.0, "hit_rate": 0.95},
        {"policy": "even", "replicas": 4, "max_over_mean_load": 1.1, "hit_rate": 0.9},
        {"policy": "alone", "replicas": 1, "max_over_mean_load": 1.0, "hit_rate": 0.8},
        {"policy": "unknown", "replicas": 4, "max_over_mean_load": None, "hit_rate": None},
    ]
    assert [r["policy"] for r in rows if on_one_replica(r)] == ["all_on_one"]
    assert [r["policy"] for r in in_order(rows)] == ["even", "alone", "unknown", "all_on_one"]
    (found,) = fleet_findings(rows)
    assert values(found) == {"policy": "all_on_one", "share": 1.0, "replicas": 4}
