"""Exports: literal rows, round trips, nothing but numbers in them, and all or nothing on disk."""

from __future__ import annotations

import csv
import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.export.block_ids import BlockIds, scattered, shared_tokens
from analysis.export.planners import TARGETS
from analysis.export.planners.output import new_file
from analysis.export.selection import Scaling
from analysis.export.write import export
from analysis.headline.curves import curve
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse
from tests.analysis.export.exported import WEKA, again, hit_tokens, mooncake_file, read, requests, weka_folder
from tests.places import SAMPLES
from traces.dataset.layout import Tree

ROWS: list[dict[str, Any]] = [
    {"timestamp": 0, "input_length": 10, "output_length": 3, "hash_ids": [1, 2, 3], "session_id": "a"},
    {"timestamp": 1500, "input_length": 10, "output_length": 1, "hash_ids": [1, 2, 9], "session_id": "b"},
    {"timestamp": 2000.5, "input_length": 17, "output_length": 5, "hash_ids": [1, 2, 4, 5, 6], "session_id": "a"},
]
ROWS = [row | {"block_size": 4} for row in ROWS]


@pytest.fixture
def trace(tmp_path: Path) -> Warehouse:
    return read(mooncake_file(tmp_path / "t.jsonl", ROWS), tmp_path)


@pytest.fixture
def weka(tmp_path: Path) -> Warehouse:
    return read(weka_folder(tmp_path / "weka"), tmp_path)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("text")
    return read(SAMPLES / "canaries", folder)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_ids_of_a_tree() -> None:
    #            0 root      1: [0,6)    2: [6,11)   3: [6,9)
    tree = Tree(np.array([-1, 0, 1, 1]), np.array([0, 0, 6, 6]), np.array([0, 6, 11, 9]), np.zeros(4, np.int8))
    ids = BlockIds(tree, 4)
    # node 1 owns block 0, nodes 2 and 3 a block 1 each: the block belongs to the node with its last token
    assert ids.of(1, tail=False).tolist() == [0]
    assert ids.of(2, tail=False).tolist() == [0, 1]
    assert ids.of(3, tail=False).tolist() == [0, 2]
    assert ids.whole == 3
    assert ids.of(2).tolist() == [0, 1, 3 + 2]  # 11 tokens: a partial third block of its own
    assert ids.of(3).tolist() == [0, 2, 3 + 3]
    assert shared_tokens(tree.parent, tree.start, tree.end, 2, 3) == 6


@given(st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=20)
def test_scattered_ids_stay_distinct(salt: int) -> None:
    assert len(set(scattered(np.arange(1000), salt).tolist())) == 1000


def test_mooncake_rows(trace: Warehouse, tmp_path: Path) -> None:
    written = export(trace, "mooncake", tmp_path / "out.jsonl")
    rows = lines(tmp_path / "out.jsonl")
    assert written.records == 3
    assert [r["timestamp"] for r in rows] == [0, 1500, 2000.5]
    assert [len(r["hash_ids"]) for r in rows] == [3, 3, 5]
    first, second, third = (r["hash_ids"] for r in rows)
    assert first[:2] == second[:2] == third[:2]
    assert len({first[2], second[2], third[2], third[3], third[4]}) == 5
    assert [r["session_id"] for r in rows] == ["s0", "s1", "s0"]
    assert all(r["block_size"] == 4 for r in rows)


def test_delta_rows_leave_the_answer_out(trace: Warehouse, tmp_path: Path) -> None:
    export(trace, "mooncake-delta", tmp_path / "out.jsonl")
    rows = lines(tmp_path / "out.jsonl")
    # the third prompt is the first (10), its answer (3) and 4 more
    assert [(r["session_id"], r["input_length"], r["output_length"]) for r in rows] == [
        ("c0", 10, 3), ("c1", 10, 1), ("c0", 4, 5),
    ]  # fmt: skip
    used = {i for r in rows[:2] for i in r["hash_ids"]}
    assert rows[2].keys() == {"session_id", "input_length", "output_length", "hash_ids", "delay"}
    assert rows[2]["delay"] == 2000.5
    assert len(set(rows[2]["hash_ids"]) - used) == 1


def test_delta_starts_anew_where_a_prompt_does_not_extend_the_answer(tmp_path: Path) -> None:
    rows = [dict(r) for r in ROWS]
    rows[2] |= {"input_length": 12, "hash_ids": [1, 2, 4]}  # less than 10 + 3 tokens: something was taken out
    trace = read(mooncake_file(tmp_path / "t.jsonl", rows), tmp_path)
    written = export(trace, "mooncake-delta", tmp_path / "out.jsonl")
    assert [(r["session_id"], r["input_length"]) for r in lines(tmp_path / "out.jsonl")] == [
        ("c0", 10),
        ("c1", 10),
        ("c2", 12),
    ]
    assert "1 prompts do not extend" in written.notes[0]


def test_replayed_delta_totals_match_to_the_token(weka: Warehouse, tmp_path: Path) -> None:
    back = again(weka, "mooncake-delta", tmp_path, 64, arrivals="staggered:600")
    assert sorted(r[0] for r in requests(back)) == sorted(r[0] for r in requests(weka))
    assert sum(r[2] for r in requests(back)) == sum(r[2] for r in requests(weka))


@pytest.mark.parametrize("to", ["mooncake", "agentic-mooncake", "bailian", "dynamo"])
def test_round_trip_of_a_trace(trace: Warehouse, tmp_path: Path, to: str) -> None:
    back = again(trace, to, tmp_path, 4)
    assert requests(back) == requests(trace)
    assert hit_tokens(back, 4) == hit_tokens(trace, 4) == 16
    assert np.array_equal(np.sort(back.arrived("recorded").arrival_s), np.sort(trace.arrived("recorded").arrival_s))
    assert curve(back, Question(4)).equals(curve(trace, Question(4)))


def turns(rows: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Sessions that append: (session, tokens it adds) in order of arrival; ids are chained by content."""
    made: list[dict[str, Any]] = []
    length: dict[int, int] = {}
    ids: dict[int, list[int]] = {}
    for place, (session, added) in enumerate(rows):
        length[session] = length.get(session, 0) + added
        known = ids.setdefault(session, [])
        while len(known) < length[session] // 4:
            known.append(len(known) if len(known) < 2 else 1000 * (session + 1) + len(known))  # two shared head blocks
        partial = [10**6 + place] if length[session] % 4 else []
        made.append(
            {"timestamp": 10 * place, "input_length": length[session], "output_length": 1, "hash_ids": known + partial,
             "session_id": f"s{session}", "block_size": 4}
        )  # fmt: skip
    return made


def every_growth() -> list[tuple[int, int]]:
    """Prompts of every length modulo the block grow by every number of tokens modulo the block, within and past it."""
    rows = [(0, 1), (1, 30), (2, 8), (0, 7), (3, 4)]
    for session, begin in product(range(4, 8), range(1, 9)):
        rows += [(10 * session + begin, begin), *((10 * session + begin, session + added) for added in (0, 5, 2, 9))]
    return rows


@pytest.mark.parametrize("rows", [every_growth(), every_growth()[::-1]], ids=["in order", "reversed"])
def test_mooncake_round_trips_are_exact(rows: list[tuple[int, int]], tmp_path: Path) -> None:
    trace = read(mooncake_file(tmp_path / "t.jsonl", turns(rows)), tmp_path)
    for to in ("mooncake", "agentic-mooncake"):
        back = again(trace, to, tmp_path, 4)
        assert requests(back) == requests(trace)
        assert curve(back, Question(4)).equals(curve(trace, Question(4)))


def test_weka_file_is_the_one_that_was_read(weka: Warehouse, tmp_path: Path) -> None:
    export(weka, "weka", tmp_path / "out")
    made = [json.loads(p.read_text()) for p in sorted((tmp_path / "out").iterdir())]
    assert len(made) == 2
    for document in made:
        main, agent, last = document["requests"]
        assert (main["t"], main["in"], main["hash_ids"], main["type"], main["ttft"]) == (0.0, 200, [1, 2, 3], "s", 0.5)
        assert (agent["t"], agent["duration_ms"], agent["status"]) == (9.0, 6000, "completed")
        assert [r["t"] for r in agent["requests"]] == [0.0, 4.0]
        assert [r["hash_ids"] for r in agent["requests"]] == [[1, 4], [1, 4, 5]]
        assert (last["t"], last["hash_ids"], last["think_time"]) == (10.0, [1, 2, 3, 6], 8.0)
        assert document["tool_tokens"] == 128
        assert document.keys() <= WEKA.keys()


def test_weka_round_trip_keeps_times_parents_and_reuse(weka: Warehouse, tmp_path: Path) -> None:
    back = again(weka, "weka", tmp_path)
    question = Question(64, "staggered:600")
    assert curve(back, question).equals(curve(weka, question))
    columns = ["input_tokens", "output_tokens", "arrival_s", "duration_s", "ttft_s", "model", "trigger", "stop_reason",
               "turn", "session_id", "parent_session_id", "spawn_request_id", "head_tokens"]  # fmt: skip
    assert back.loaded().requests.select(columns).equals(weka.loaded().requests.select(columns))


def test_weka_says_what_sharing_it_loses(trace: Warehouse, tmp_path: Path) -> None:
    rows = [r | {"block_size": 64, "input_length": 200, "hash_ids": [1, 2, 3, 10 + k]} for k, r in enumerate(ROWS)]
    shared = read(mooncake_file(tmp_path / "wide.jsonl", rows), tmp_path)
    written = export(shared, "weka", tmp_path / "out")
    # session b shares three blocks with session a
    assert any(note.startswith("192 tokens that an unbounded cache shares across files") for note in written.notes)
    with pytest.raises(BadQuestion, match="blocks of 64 tokens, not 32"):
        export(trace, "weka", tmp_path / "never", 32)
    assert not (tmp_path / "never").exists()


def test_sub_agent_that_runs_beside_its_parent(tmp_path: Path) -> None:
    document = json.loads(json.dumps(WEKA))
    document["requests"][2]["t"] = 5.0  # the parent goes on while its agent works
    folder = tmp_path / "weka"
    folder.mkdir()
    (folder / "s.json").write_text(json.dumps(document))
    beside = read(folder, tmp_path)
    export(beside, "weka", tmp_path / "out")
    agent = json.loads((tmp_path / "out" / "session_0000.json").read_text())["requests"][1]
    assert (agent["status"], agent["t"], agent["duration_ms"]) == ("async_launched", 3.0, None)
    back = again(beside, "weka", tmp_path)
    assert back.loaded().requests["arrival_s"].to_list() == beside.loaded().requests["arrival_s"].to_list()


def test_agentic_dependencies(weka: Warehouse, tmp_path: Path) -> None:
    export(weka, "agentic-mooncake", tmp_path / "out.jsonl", scaling=Scaling("staggered:600"))
    header, *rows = lines(tmp_path / "out.jsonl")
    assert (header["version"], header["block_size"], header["hash_id_scope"]) == (2, 64, "local")
    first = [r for r in rows if r["play_id"] == "p0"]
    relations = [[(d["request_id"], d["relation"], d["delay_ms"]) for d in r["dependencies"]] for r in first]
    assert relations == [
        [],
        [("r0", "spawn", 1000)],
        [("r1", "sequence", 2500)],
        [("r0", "sequence", 8000), ("r2", "join", 1000)],
    ]


def test_dag_spawns_and_joins(weka: Warehouse, tmp_path: Path) -> None:
    export(weka, "dag-jsonl", tmp_path / "out.jsonl")
    rows = lines(tmp_path / "out.jsonl")
    first = rows[0]["turns"][0]
    # the second prompt extends the first: 300 = 200 + 30 + 70
    assert first["spawns"] == [{"children": [rows[1]["session_id"]], "join_at": 1}]
    assert [len(t["messages"][0]["content"].split()) for t in rows[0]["turns"]] == [200, 70]
    assert (first["max_tokens"], rows[0]["turns"][1]["delay"]) == (30, 8000)


def test_text_is_shared_where_blocks_are(weka: Warehouse, tmp_path: Path) -> None:
    export(weka, "vllm-custom", tmp_path / "out.jsonl", scaling=Scaling(sessions=1))
    prompts = [r["prompt"].split() for r in lines(tmp_path / "out.jsonl")]
    assert [len(p) for p in prompts] == [200, 140, 210, 300]
    assert prompts[0][:192] == prompts[3][:192]
    assert prompts[1][:64] == prompts[0][:64]
    assert prompts[1][64:128] != prompts[0][64:128]


def test_scaling_and_what_it_changed(weka: Warehouse, tmp_path: Path) -> None:
    written = export(weka, "mooncake", tmp_path / "a.jsonl", scaling=Scaling("staggered:600", rate=2.0))
    times = sorted(r["timestamp"] for r in lines(tmp_path / "a.jsonl"))
    assert times == [0, 3000, 7000, 10000, 300000, 303000, 307000, 310000]
    written = export(weka, "mooncake", tmp_path / "b.jsonl", scaling=Scaling("staggered:600", context_cap=210))
    assert len(lines(tmp_path / "b.jsonl")) == 6
    assert "2 requests above 210 tokens left out (600 input tokens, in 2 top-level sessions)" in written.notes
    assert any("6 of 8 requests" in n and "the ceiling goes from" in n for n in written.notes)
    written = export(weka, "mooncake", tmp_path / "c.jsonl", scaling=Scaling("staggered:600", sessions=1))
    assert len(lines(tmp_path / "c.jsonl")) == 4
    with pytest.raises(BadQuestion, match="nothing is left"):
        export(weka, "mooncake", tmp_path / "d.jsonl", scaling=Scaling(context_cap=1))
    assert not (tmp_path / "d.jsonl").exists()


def test_only_requests_of_a_group(trace: Warehouse, tmp_path: Path) -> None:
    where = (("transition", "first"),)
    written = export(trace, "mooncake", tmp_path / "m", 4, Scaling(where=where))
    assert [row["input_length"] for row in lines(tmp_path / "m")] == [10, 10]
    assert "2 of 3 requests and 20 of 37 input tokens" in " ".join(written.notes)
    with pytest.raises(BadQuestion, match="nothing is left"):
        export(trace, "mooncake", tmp_path / "n", 4, Scaling(where=(("transition", "edit"),)))


def test_a_profile_target_is_of_what_scaling_leaves(trace: Warehouse, tmp_path: Path) -> None:
    whole = export(trace, "aiconfigurator", tmp_path / "whole", 4)
    some = export(trace, "aiconfigurator", tmp_path / "some", 4, Scaling(context_cap=10, rate=2))
    isl = [re.findall(r"default .* --isl (\d+)", (tmp_path / n).read_text()) for n in ("whole", "some")]
    assert isl == [["10", "17"], ["10"]]
    assert "2 of 3 requests" in " ".join(some.notes)
    assert "2 of 3 requests" not in " ".join(whole.notes)
    # two requests 1.5 s apart, twice as fast
    assert "--target-request-rate 1.33333" in (tmp_path / "some").read_text()


@pytest.mark.parametrize("to", TARGETS)
def test_every_target_writes_numbers_only(text: Warehouse, tmp_path: Path, to: str) -> None:
    path = tmp_path / "out"
    written = export(text, to, path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    expected = json.loads((SAMPLES / "canaries" / "expected.json").read_text())
    found = "".join(p.read_text() for p in files)
    for canary in [*expected["canaries_that_must_not_occur"], *expected["digests"]]:
        assert canary not in found, canary
        assert not any(canary in line for line in [*written.notes, *written.commands])
    assert written.records > 0
    assert written.commands
    for file in files:
        parsed(to, file)


def parsed(to: str, file: Path) -> None:
    """Fails where a file is not of its kind."""
    content = file.read_text()
    if to in ("vidur", "burstgpt"):
        assert len({len(row) for row in csv.reader(content.splitlines())}) == 1
    elif TARGETS[to].takes == "trace":
        if to in ("weka", "vllm-multi-turn", "sglang-agentic"):
            json.loads(content)
        else:
            assert [json.loads(line) for line in content.splitlines()]
    elif content.startswith("#!"):
        assert content.count("\n") > 2
    else:
        assert isinstance(yaml.safe_load(content), dict)  # JSON is YAML


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before")

    def fail() -> None:
        with new_file(path) as file:
            file.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_targets_are_explained() -> None:
    for name, target in TARGETS.items():
        assert re.fullmatch(r"[a-z-]+", name)
        assert 20 < len(target.line) <= 120
        assert target.takes in ("trace", "profile")
