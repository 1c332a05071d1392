"""The profile: literal figures of small samples, its schema, and nothing in it that could name anyone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.profile.buckets import buckets
from analysis.profile.distributions import describe, fit, grid, persistence
from analysis.profile.prefix_layers import prefix_layers
from analysis.profile.profile import profile, schema
from tests.analysis.export.exported import mooncake_file, read, weka_folder
from traces.dataset.layout import Tree


def test_figures_of_a_sample() -> None:
    found = describe(np.array([4.0, 1.0, np.nan, 3.0, 2.0]), np.array([0, 0, 0, 1, 1]))
    assert found is not None
    assert (found["count"], found["sessions"], found["min"], found["max"]) == (4, 2, 1.0, 4.0)
    assert (found["mean"], found["p50"]) == (2.5, 2.5)
    assert found["p90"] == pytest.approx(3.7)
    assert describe(np.array([np.nan]), np.array([0])) is None


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_intervals_hold_between_the_extremes(values: list[int], sessions: int) -> None:
    found = describe(np.array(values, float), np.arange(len(values)) % sessions)
    assert found is not None
    for low, high in found["interval"].values():
        assert min(values) - 1e-6 <= low <= high <= max(values) + 1e-6


def test_fit_finds_the_family() -> None:
    even = (np.arange(4000) + 0.5) / 4000
    exponential = fit(-np.log1p(-even) * 7)
    assert exponential["family"] == "exponential"
    assert exponential["mean"] == pytest.approx(7, rel=0.01)
    assert exponential["error"] < 0.01
    assert fit(np.full(5, 3.0)) == {"family": "constant", "value": 3.0, "error": 0.0}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400))
@settings(deadline=None, max_examples=60)
def test_published_quantile_function_stays_in_the_sample(values: list[float]) -> None:
    found = grid(np.array(values))
    assert found is not None
    assert found == sorted(found)
    assert min(values) <= found[0] <= found[-1] <= max(values)


def test_persistence_is_one_thing_and_its_opposite() -> None:
    session = np.repeat(np.arange(50), 10)
    same = persistence(session.astype(float) + np.tile(np.arange(10) / 100, 50), session)
    mixed = persistence(np.random.default_rng(0).random(500), session)
    assert same > 0.9
    assert mixed < 0.1


def test_buckets_of_two_kinds_of_requests() -> None:
    isl = np.array([1000.0] * 6 + [100_000.0] * 2)
    found = buckets(isl, np.array([10.0] * 6 + [500.0] * 2), np.array([0.0] * 6 + [90_000.0] * 2))
    assert [(b["weight"], b["isl"], b["osl"], b["prefix"]) for b in found] == [
        (0.75, 1000.0, 10.0, 0.0), (0.25, 100_000.0, 500.0, 90_000.0),
    ]  # fmt: skip


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=200))
@settings(deadline=None, max_examples=60)
def test_buckets_split_all_requests(lengths: list[int]) -> None:
    values = np.array(lengths, float)
    found = buckets(values, np.full(values.size, np.nan), values / 2)
    assert sum(b["weight"] for b in found) == pytest.approx(1)
    assert sum(b["weight"] * b["isl"] for b in found) == pytest.approx(values.mean())
    assert all(b["osl"] is None for b in found)
    assert 1 <= len(found) <= 5


def test_layers_of_first_prompts() -> None:
    # root -> 1 [0,100) -> 2 [100,150) shared by two -> leaves 3, 4; 5 and 7 below 1; 6 below the root
    tree = Tree(
        np.array([-1, 0, 1, 2, 2, 1, 0, 1]), np.array([0, 0, 100, 150, 150, 100, 0, 100]),
        np.array([0, 100, 150, 160, 170, 130, 40, 120]), np.zeros(8, np.int8),
    )  # fmt: skip
    found = prefix_layers(tree, np.array([3, 4, 5, 6, 7]), np.full(5, np.nan))
    assert found is not None
    assert found["global_tokens"] == 100
    assert found["group_tokens"]["max"] == 50
    assert found["groups"] == 2
    assert found["session_tokens"]["min"] == 10
    assert found["head_tokens"] is None


def test_profile_of_a_session_with_a_sub_agent(tmp_path: Path) -> None:
    made = profile(read(weka_folder(tmp_path / "weka"), tmp_path), 64, "staggered:600")
    overall = made["overall"]
    assert (overall["requests"], overall["sessions"], overall["main_sessions"]) == (8, 4, 2)
    assert overall["input_tokens"]["mean"] == pytest.approx((200 + 140 + 210 + 300) / 4)
    assert overall["added_tokens_per_turn"]["max"] == 70  # 300 - 200 - 30
    assert overall["turns"]["mean"] == 2
    assert overall["subagents"]["per_main_session"] == 1
    assert overall["subagents"]["share_of_requests"] == 0.5
    assert overall["gap_s"]["tool"]["count"] == 4
    assert overall["gap_s"]["tool"]["max"] == 8
    assert made["arrivals"]["sessions_per_s"] == pytest.approx(1 / 610)
    assert made["arrivals"]["in_flight_requests"]["peak"] == 1
    assert overall["stop_reasons"] == {"end_turn": 0.75, "tool_use": 0.25}
    assert [p["hit_rate"] for p in overall["cached"]["at_capacity"]][-1] == overall["cached"]["ceiling"]


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    unanchored = profile(read(weka_folder(tmp_path / "weka"), tmp_path))
    assert unanchored["arrivals"] is None
    assert unanchored["overall"]["cached"]["at_capacity"] is None
    assert any("inside a session" in w for w in unanchored["warnings"])
    rows = [{"timestamp": 1000 * k, "input_length": 50 + k, "output_length": None} for k in range(4)]
    lengths = profile(read(mooncake_file(tmp_path / "l.jsonl", [r | {"hash_ids": None} for r in rows]), tmp_path))
    assert lengths["overall"]["output_tokens"] is None
    assert lengths["overall"]["cached"]["ceiling"] is None
    assert lengths["overall"]["input_output_ratio"] is None
    jsonschema.validate(lengths, schema())


def test_profile_keeps_to_its_schema(tmp_path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    made = profile(read(weka_folder(tmp_path / "weka"), tmp_path), None, "poisson:60:1")
    jsonschema.validate(made, schema())
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [s for v in value.values() for s in strings(v)]
    return (
        [s for v in value for s in strings(v)] if isinstance(value, list) else [value] if isinstance(value, str) else []
    )


def test_no_names_of_people_places_or_folders(tmp_path: Path) -> None:
    row = {"input_length": 8, "output_length": 1, "hash_ids": [1, 2], "session_id": "jane", "block_size": 4}
    models = ("/home/jane/models/secret project", "/mnt/share/Qwen3-32B")
    rows = [row | {"timestamp": k, "model": model} for k, model in enumerate(models)]
    made = profile(read(mooncake_file(tmp_path / "t.jsonl", rows), tmp_path))
    found = strings(made)
    assert not [s for s in found if "jane" in s or "secret" in s or s.startswith("/") or "share/" in s]
    assert {g["model"] for g in made["groups"]} == {"other", "Qwen3-32B"}
