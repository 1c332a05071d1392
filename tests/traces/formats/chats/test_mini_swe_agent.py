"""mini-swe-agent trajectories."""

from __future__ import annotations

from pathlib import Path

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared

HERE = SAMPLES / "mini_swe_agent"


def test_a_bare_list(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "list.traj.json")
    first = len("You are an agent.Fix it.")
    assert read.column("input_tokens") == [first, first + len("THOUGHT: look\n```bash\nls\n```a.py")]
    assert read.column("work") == ["execute", "execute"]


def test_kept_responses_have_usage_and_times(tmp_path: Path) -> None:
    read = Read(tmp_path, HERE / "run.traj.json")
    assert read.column("input_tokens") == [900, 940]
    assert read.column("cache_read_tokens") == [0, 896]
    assert read.column("duration_s") == [None, 3.0]
    assert read.receipt["records"]["ignored"] == 1


def test_shared(tmp_path: Path) -> None:
    assert Read(tmp_path / "a", shared("mini_swe_agent/github_issue.traj.json")).requests.height == 10
    assert Read(tmp_path / "b", shared("mini_swe_agent/local.traj.json")).requests.height == 2
