"""ATIF trajectories."""

from __future__ import annotations

from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared


def test_subagents_continuations_and_steps_without_calls(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "atif" / "run")
    assert read.receipt["formats"] == {"atif": 1}
    assert sorted(read.column("input_tokens")) == [300, 400, 1000, 1050]
    assert read.total("cache_read_tokens") == 960
    assert sorted(read.sessions["role"]) == ["main", "subagent"]
    child = read.sessions.filter(read.sessions["role"] == "subagent")
    assert child["spawn_request_id"].to_list() == [0]
    assert read.requests.filter(read.requests["input_tokens"] == 400)["compaction"].to_list() == [True]
    assert not [w for w in read.receipt["warnings"] if "totals" in w]


def test_token_ids_are_exact_prompts(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "atif" / "ids.json")
    assert read.column("prefix_tokens") == [5, 8]
    from traces.dataset.layout import Dataset

    tree = Dataset(tmp_path / "dataset").read("prefixes")
    ends = sorted(zip(tree["start_token"].to_list(), tree["end_token"].to_list(), strict=True))
    assert (0, 4) in ends
    assert (4, 5) in ends
    assert (4, 8) in ends


def test_shared(tmp_path: Path) -> None:
    plain = Read(tmp_path / "a", shared("atif/openhands_hello-world.trajectory.json"))
    assert (plain.total("input_tokens"), plain.total("output_tokens")) == (220, 80)
    assert plain.column("prompt_completeness") == ["structure", "structure"]
    all_of_them = Read(tmp_path / "b", shared("atif"))
    # 2,252 in the first part and 4,250 after it; its final totals, 7,802, count three calls whose files are not here.
    assert all_of_them.total("input_tokens") == 220 + 220 + 2252 + 4250
    assert all_of_them.sessions.height == 3
