"""The page Routing: nothing open, the demo, a trace of known answers, and forms and datasets that make no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from analysis.fleet.grid import Objective
from analysis.fleet.routing import Cell
from analysis.fleet.summary import by_policy, fleets, load_cells, run_cell, smallest
from app.views.fleet import choices
from app.views.fleet.choices import Refused, Settings
from app.visit import known
from tests.analysis.fleet.test_routing import trace_of
from tests.app.test_pages import SCRIPT
from tests.places import SAMPLES
from traces.intake.ingest import ingest

SETTINGS = Settings(
    ("tower",), "2", "", "instant", 1, "arrival", None, None, "", "", "kimi-k2.6", "b200", 4, "bf16"
)  # fmt: skip

# two sessions of two requests, no durations: the second prompt of each extends its first by a block of 4
ROWS = [
    {"timestamp": t, "session_id": s, "input_length": 4 * len(ids), "output_length": 2, "hash_ids": ids,
     "block_size": 4}
    for t, s, ids in ((0, "a", [1]), (1000, "b", [9]), (9000, "a", [1, 2]), (9500, "b", [9, 8]))
]  # fmt: skip


def start(dataset: Path | None, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.delenv("TRACETOWER_DATA_ROOTS", raising=False)
    if dataset is None:
        monkeypatch.delenv(known.DATASET_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(known.DATASET_VARIABLE, str(dataset))
    at = AppTest.from_file(SCRIPT, default_timeout=300).run()
    at.switch_page("views/fleet/replicas.py")
    return at


def send(at: AppTest, replicas: str, policies: list[str], **fields: str) -> AppTest:
    at.text_input(key="fleet-replicas").set_value(replicas)
    at.multiselect(key="fleet-policies").set_value(policies)
    for key, value in fields.items():
        {"service": at.selectbox, "cache": at.text_input, "events": at.text_area, "params": at.text_area}[key](
            key=f"fleet-{key}"
        ).set_value(value)
    return next(b for b in at.button if b.label == "Run").click().run()


def said(at: AppTest, kind: str) -> str:
    return "\n".join(str(e.value) for e in getattr(at, kind)).replace("\u00a0", " ").replace("\\", "")


def cells_of(at: AppTest, table: int = 0) -> dict[str, dict[str, str]]:
    rows = at.dataframe[table].value.to_dict("records")
    return {row["Policy"]: {k: v.replace("\u00a0", " ") for k, v in row.items()} for row in rows}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replicas")
    (folder / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    ingest([str(folder / "trace.jsonl")], folder / "tiny")
    return folder / "tiny"


def test_without_a_dataset_luck_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    at = start(None, monkeypatch).run()
    assert not at.exception
    assert not at.error
    assert "Nothing is open yet" in said(at, "info")
    shown = {m.label.replace("\u00a0", " "): m.value.replace("\u00a0", " ") for m in at.metric}
    assert shown == {
        "One given: ≤ 1": "3.91 %", "One given: ≥ 12": "0.50 %",
        "Any of 50: ≤ 1": "88.4 %", "Any of 50: ≥ 12": "22.6 %",
    }  # fmt: skip
    at.number_input(key="luck-n").set_value(500)
    at.number_input(key="luck-s").set_value(200)
    at.run()
    assert "more than this panel counts" in said(at, "info")


def test_the_demo_asks_for_arrivals_then_compares_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    at = start(None, monkeypatch)
    at.query_params["dataset"] = known.DEMO
    at.run()
    assert not at.exception
    assert "When do these sessions start?" in said(at, "info")
    at.button(key="arrive-staggered:600").click().run()
    send(at, "2", ["session_hash", "tower"])
    assert not at.exception
    assert not at.error
    rows = cells_of(at)
    assert set(rows) == {"session_hash", "tower"}
    assert rows["session_hash"]["Hit rate"] == "95.5 %"
    assert rows["session_hash"]["Moves"] == "0"
    assert rows["tower"]["TTFT p99"] == "–"
    assert float(rows["tower"]["VMR"]) < float(rows["session_hash"]["VMR"])
    assert "not every request records one" in said(at, "info")
    assert "On the frontier" in said(at, "markdown")
    assert "--replicas 2 --policy session_hash,tower --service recorded --json" in "\n".join(c.value for c in at.code)


def test_a_known_trace_without_time(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = start(tiny, monkeypatch).run()
    send(at, "2", ["session_affinity", "random"], service="instant")
    assert not at.exception
    row = cells_of(at)["session_affinity"]
    assert row["Hit rate"] == "33.3 %"  # 2 of 6 blocks
    assert row["Lost: placement"] == "0.0"
    assert row["Max / mean"] == "1.00"
    assert row["VMR"] == row["p99 running"] == row["Duty cycle"] == "–"
    assert "Choose recorded durations or a model" in said(at, "info")


def test_a_trace_of_lengths_has_load_but_no_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest([str(SAMPLES / "azure_llm")], tmp_path / "lengths")
    at = start(tmp_path / "lengths", monkeypatch).run()
    send(at, "2", ["round_robin"], service="model")
    assert not at.exception
    row = cells_of(at)["round_robin"]
    assert row["Hit rate"] == row["Lost: placement"] == row["Max / mean"] == row["Moves"] == "–"
    assert row["TTFT p99"] == "37–92 ms"  # cold prompts of 3 k tokens are computed, though nobody knows them
    assert "has no block identity" in said(at, "info")
    assert "names no sessions" in said(at, "info")


def test_fleets_are_held_against_an_objective(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = start(tiny, monkeypatch).run()
    send(at, "1, 2", ["session_affinity"], service="model", cache="4, unbounded", events="scale:5:3")
    assert not at.exception
    assert not at.error
    # one replica loses nothing against one shared cache of its size, however small
    assert "1 × 4 is the smallest fleet here" in said(at, "success").replace("*", "")
    at.number_input(key="slo-ttft").set_value(0.0).run()
    assert "No fleet here is known to keep it" in said(at, "warning")
    assert "Events" in [s.value for s in at.subheader]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"replicas": "two"}, "is not a number"),
        ({"replicas": "0"}, "between 1 and 256"),
        ({"cache": "much"}, "neither tokens"),
        ({"cache": "-1"}, "fewer than 0"),
        ({"events": "scale"}, "is none of scale:AT:N"),
        ({"events": "hot:1:nobody"}, "no session 'nobody'"),
        ({"params": "speed=1"}, "there are"),
        ({"service": "recorded"}, "no durations"),
        ({"policies": ""}, "at least one policy"),
    ],
)
def test_forms_that_make_no_sense(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], message: str
) -> None:
    at = start(tiny, monkeypatch).run()
    policies = [name for name in fields.pop("policies", "tower").split(",") if name]
    send(at, fields.pop("replicas", "2"), policies, **fields)
    assert not at.exception
    assert message in said(at, "error")
    assert not at.dataframe


def test_a_broken_dataset_is_an_error_with_a_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    at = start(tmp_path / "broken", monkeypatch).run()
    assert not at.exception
    assert len(at.error) == 1


def test_the_form_as_a_command() -> None:
    sent = SETTINGS._replace(replicas="4, 8", cache="1M, unbounded", events="lose:9\n", params=" c=1.5", seeds=3)
    assert sent.flags() == [
        "--replicas", "4,8", "--policy", "tower", "--capacity-tokens", "1000000", "--seeds", "3", "--param", "c=1.5",
        "--event", "lose:9", "--json",
    ]  # fmt: skip
    assert choices.capacities("unbounded, 1M,4k") == [4000, 1_000_000, None]
    assert choices.fleets("8,4, 8") == [4, 8]
    with pytest.raises(Refused):
        choices.fleets("")


def test_grids_in_few_lines() -> None:
    def row(policy: str, replicas: int, seed: int, hit: float, p99: int | None) -> dict[str, object]:
        return {
            "policy": policy, "replicas": replicas, "capacity_tokens": 10, "seed": seed, "hit_rate": hit,
            "one_cache_hit_rate": 0.9, "vmr_running_requests": 1.0, "p99_running_requests": p99,
            "ttft_s_p99": [1.0, 2.0], "events": [],
        }  # fmt: skip

    rows = [row("a", 2, 0, 0.8, 5), row("a", 2, 1, 0.86, 7), row("a", 4, 0, 0.9, 3), row("b", 4, 0, 0.9, None)]
    found = by_policy(rows)
    assert [(r["policy"], r["replicas"], r["seeds"]) for r in found] == [("a", 2, 2), ("a", 4, 1), ("b", 4, 1)]
    assert found[0]["hit_rate"] == pytest.approx(0.83)
    assert found[0]["hit_rate_interval"] == pytest.approx([0.83 - 12.706 * 0.03, 0.83 + 12.706 * 0.03])
    assert found[0]["ttft_s_p99"] == [1.0, 2.0]
    assert found[2]["p99_running_requests"] is None
    kept = fleets(rows, Objective(p99_running_requests=6))
    assert [r["meets"] for r in kept] == [False, True, None]  # one seed of two breaks it
    assert [r["total_tokens"] for r in kept] == [20, 40, 40]
    assert kept[0]["p99_running_requests"] == 7
    assert [r["replicas"] for r in smallest(kept)] == [4]
    assert [r["meets"] for r in fleets(rows, Objective())] == [None] * 3
    assert smallest(fleets(rows, Objective())) == []


def test_load_over_time_in_few_cells() -> None:
    import numpy as np

    trace = trace_of([[1], [2], [3]], [0, 1, 2], [0, 0, 4], duration_s=np.array([8.0, 4.0, 4.0]))
    ran = run_cell(trace, Cell("round_robin", 2, block_tokens=1, service="recorded"))
    cells = load_cells(ran, 4)
    assert [c["replica"] for c in cells] == [0, 0, 1, 1]
    assert cells[0]["running"] == pytest.approx(1.0, abs=0.05)  # replica 0: one until 4 s, then two
    assert cells[1]["running"] == pytest.approx(2.0, abs=0.05)
    assert cells[2]["running"] == pytest.approx(1.0, abs=0.05)
    assert cells[3]["running"] == pytest.approx(0.0, abs=0.05)
    assert load_cells(run_cell(trace, Cell("round_robin", 2, block_tokens=1)), 4) == []
