"""Synthetic workloads: seeded, well formed, and like what they were made from."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.profile.profile import profile
from analysis.profile.targets import rows
from analysis.store.warehouse import open_dataset
from tests.analysis.export.exported import mooncake_file, read, weka_folder
from traces.dataset.layout import Dataset, NotADataset
from traces.schema import TABLES, polars_schema
from traces.synth.workload import synthesize


def agents(sessions: int, seed: int = 5) -> list[dict[str, Any]]:
    """Mooncake rows of sessions that share a head of 8 blocks, append, and now and then start over from their head."""
    draw = random.Random(seed)
    made = []
    for s in range(sessions):
        clock, length, tower = 400_000 * s + draw.randrange(100_000), 2048 + draw.randrange(8000), 0
        for turn in range(draw.choice([1, 2, 3, 5, 8, 20])):
            if turn and draw.random() < 0.08:
                tower, length = tower + 1, 2048 + draw.randrange(2000)
            whole = length // 256
            ids = [k if k < 8 else (s << 20) + (tower << 12) + k for k in range(whole)]
            ids += [(1 << 40) + len(made)] if length % 256 else []
            output = 1 + draw.randrange(600)
            made.append({"timestamp": clock, "input_length": length, "output_length": output, "hash_ids": ids,
                         "session_id": f"s{s}", "block_size": 256})  # fmt: skip
            length += output + int(draw.expovariate(1 / 900))
            clock += int(draw.expovariate(1 / 20_000)) + 500
    return made


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("target")
    made = profile(read(mooncake_file(folder / "t.jsonl", agents(150)), folder))
    return json.loads(json.dumps(made))


def tables(path: Path) -> dict[str, pl.DataFrame]:
    return {name: Dataset(path).read(name) for name in TABLES}


def test_equal_seeds_give_equal_datasets(target: dict[str, Any], tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        synthesize(target, tmp_path / name, 20, seed)
    a, b, c = (tables(tmp_path / name) for name in "abc")
    assert all(a[name].equals(b[name]) for name in TABLES)
    assert not a["requests"].equals(c["requests"])


def test_tables_are_as_declared_and_the_tree_is_one(target: dict[str, Any], tmp_path: Path) -> None:
    counts = synthesize(target, tmp_path / "d", 60, 1)
    made = tables(tmp_path / "d")
    for name, table in TABLES.items():
        assert made[name].schema == polars_schema(table), name
    requests = made["requests"]
    assert requests.height == counts["requests"]
    tree = Dataset(tmp_path / "d").tree()
    at = np.arange(1, tree.parent.size)
    assert np.array_equal(tree.start[at], tree.end[tree.parent[at]])
    assert (tree.end[at] > tree.start[at]).all()
    leaf = requests["prefix_id"].to_numpy()
    assert np.array_equal(tree.end[leaf], requests["input_tokens"].to_numpy())
    assert requests.sort("session_id", "turn")["arrival_s"].is_not_null().all()


def test_observed_figures_are_the_targets(target: dict[str, Any], tmp_path: Path) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(5):
        synthesize(target, tmp_path / f"s{seed}", None, seed)
        for row in rows(target, profile(open_dataset(tmp_path / f"s{seed}"))):
            found.setdefault(row["figure"], []).append(row)
    for figure, seen in found.items():
        first = seen[0]
        mean = float(np.mean([r["observed"] for r in seen]))
        inside = first["interval_from"] is not None and first["interval_from"] <= mean <= first["interval_to"]
        rate = figure.startswith(("hit_rate", "cached.ceiling")) and not figure.startswith("cached.ceiling_tokens")
        near = abs(mean - first["target"]) <= (0.01 if rate else 0.03 * abs(first["target"]))
        assert inside or near, (figure, first["target"], mean)


def test_more_sessions_keep_the_rate(target: dict[str, Any], tmp_path: Path) -> None:
    synthesize(target, tmp_path / "d", 600, 2)
    made = profile(open_dataset(tmp_path / "d"))
    assert made["coverage"]["main_sessions"] == 600
    assert made["arrivals"]["sessions_per_s"] == pytest.approx(target["arrivals"]["sessions_per_s"], rel=0.1)
    assert made["overall"]["cached"]["ceiling"] == pytest.approx(target["overall"]["cached"]["ceiling"], abs=0.02)


def test_sub_agents_follow_the_request_that_spawned_them(tmp_path: Path) -> None:
    made = json.loads(json.dumps(profile(read(weka_folder(tmp_path / "weka", 4), tmp_path))))
    synthesize(made, tmp_path / "d", 10, 0)
    requests, sessions = (Dataset(tmp_path / "d").read(n) for n in ("requests", "sessions"))
    agents_ = sessions.filter(pl.col("parent_session_id").is_not_null())
    assert agents_.height == 10
    ends = requests.select("request_id", parent="session_id", end=pl.col("arrival_s") + pl.col("duration_s"))
    spawns = agents_.join(ends, left_on="spawn_request_id", right_on="request_id")
    assert (spawns["parent"] == spawns["parent_session_id"]).all()
    first = requests.filter(pl.col("turn") == 0).select("session_id", "arrival_s")
    both = spawns.join(first, on="session_id")
    assert (both["arrival_s"] - both["end"]).round(6).to_list() == [1.0] * 10  # as recorded: 3 s after 0 s + 2 s
    assert Dataset(tmp_path / "d").read("sources")["time_basis"].to_list() == ["relative"]


def turns_of(dataset: Dataset) -> list[list[tuple[int | None, ...]]]:
    """Of each session: prompt, output and milliseconds since its start, turn by turn; sessions sorted."""
    since = ((pl.col("arrival_s") - pl.col("arrival_s").min().over("session_id")) * 1000).round().cast(pl.Int64)
    made = dataset.read("requests").sort("session_id", "turn").with_columns(since=since)
    parts = made.partition_by("session_id", maintain_order=True)
    return sorted((p.select("input_tokens", "output_tokens", "since").rows() for p in parts), key=repr)


def test_few_sessions_are_made_as_they_were(tmp_path: Path) -> None:
    recorded = read(mooncake_file(tmp_path / "t.jsonl", agents(7)), tmp_path)
    few = json.loads(json.dumps(profile(recorded)))
    synthesize(few, tmp_path / "d", None, 4)
    synthesize(few, tmp_path / "e", 21, 4)
    made = turns_of(Dataset(tmp_path / "d"))
    assert made == turns_of(recorded.dataset)
    assert turns_of(Dataset(tmp_path / "e")) == sorted(made * 3, key=repr)
    again = profile(open_dataset(tmp_path / "d"))
    for name in ("input_tokens", "new_tokens_per_turn", "output_tokens", "turns"):
        assert again["overall"][name] == few["overall"][name]
    assert again["overall"]["cached"]["ceiling"] == pytest.approx(few["overall"]["cached"]["ceiling"], abs=0.001)
    assert again["overall"]["transitions"] == few["overall"]["transitions"]


def heads(dataset: Dataset) -> dict[int, int]:
    """Sessions by tokens of the shared node that their first prompt begins with."""
    tree, found = dataset.tree(), dict[int, int]()
    for leaf in dataset.read("requests").filter(pl.col("turn") == 0)["prefix_id"].to_list():
        node = leaf
        while tree.parent[node] > 0:
            node = tree.parent[node]
        if node != leaf:
            found[int(tree.end[node])] = found.get(int(tree.end[node]), 0) + 1
    return found


def test_heads_keep_apart_and_as_common(tmp_path: Path) -> None:
    draw, made = random.Random(3), []
    for s in range(120):
        head = draw.choice([4, 4, 4, 9, 9, 14])
        ids = [head << 30 | k for k in range(head)] + [(s << 10) + k for k in range(20 - head)]
        made.append({"timestamp": 1000 * s, "input_length": 20 * 256, "output_length": 1, "hash_ids": ids,
                     "session_id": f"s{s}", "block_size": 256})  # fmt: skip
    recorded = read(mooncake_file(tmp_path / "t.jsonl", made), tmp_path)
    asked = json.loads(json.dumps(profile(recorded)))
    synthesize(asked, tmp_path / "d", None, 1)
    assert heads(Dataset(tmp_path / "d")) == heads(recorded.dataset)
    assert set(heads(recorded.dataset)) == {4 * 256, 9 * 256, 14 * 256}
    for columns in (8, 4):  # profiles that list less about first prompts
        less = json.loads(json.dumps(asked))
        for stratum in less["generator"]["strata"]:
            stratum["first"] = [example[:columns] for example in stratum["first"]]
        synthesize(less, tmp_path / f"less{columns}", None, 1)
        assert sum(heads(Dataset(tmp_path / f"less{columns}")).values()) > 100


def test_sessions_without_times_are_made_without(target: dict[str, Any], tmp_path: Path) -> None:
    rows_ = [row | {"timestamp": None} for row in agents(7)]
    few = json.loads(json.dumps(profile(read(mooncake_file(tmp_path / "t.jsonl", rows_), tmp_path))))
    half = json.loads(json.dumps(target))
    for stratum in half["generator"]["strata"]:
        stratum["known_times"] = 0.5
    for name, asked, timed in (("few", few, 0.0), ("half", half, 0.5)):
        synthesize(asked, tmp_path / name, 200, 4)
        by_session = Dataset(tmp_path / name).read("requests").group_by("session_id")
        known = by_session.agg(
            some=pl.col("arrival_s").is_not_null().any(), all=pl.col("arrival_s").is_not_null().all()
        )
        assert known["some"].equals(known["all"], check_names=False)
        assert known["some"].mean() == pytest.approx(timed, abs=0.12)
    assert profile(open_dataset(tmp_path / "few"))["overall"]["gap_s"]["all"] is None
    assert Dataset(tmp_path / "few").read("sources")["time_basis"].to_list() == ["none"]


def test_sessions_of_lengths_alone_grow(tmp_path: Path) -> None:
    rows_ = [row | {"hash_ids": None} for row in agents(40)]
    asked = json.loads(json.dumps(profile(read(mooncake_file(tmp_path / "t.jsonl", rows_), tmp_path))))
    synthesize(asked, tmp_path / "d", 400, 4)
    made = profile(open_dataset(tmp_path / "d"))["overall"]["input_tokens"]["mean"]
    assert made == pytest.approx(asked["overall"]["input_tokens"]["mean"], rel=0.1)


def test_what_cannot_be_made(target: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(NotADataset, match="exists"):
        synthesize(target, tmp_path / "there")
    with pytest.raises(ValueError, match="no sessions"):
        synthesize({**target, "generator": None}, tmp_path / "d")
    damaged = json.loads(json.dumps(target))
    damaged["generator"]["strata"][0]["output_tokens"] = [1.0, 2.0]
    with pytest.raises(ValueError, match="damaged"):
        synthesize(damaged, tmp_path / "d")
    damaged = json.loads(json.dumps(target))
    damaged["generator"]["strata"][0]["sessions"] = [[[1.0] * 9]]
    with pytest.raises(ValueError, match="needs a first prompt"):
        synthesize(damaged, tmp_path / "d")
    assert [p.name for p in tmp_path.iterdir()] == ["there"]
