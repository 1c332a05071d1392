"""SWE-agent trajectories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared

SYSTEM, TASK = len("You are an agent."), len("Fix the bug.")


def test_a_query_is_the_exact_prompt_even_where_history_was_shortened(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "swe_agent" / "query.traj")
    head = SYSTEM + TASK
    assert read.column("input_tokens") == [head, head + len("lsa.py"), head + len("ls(1 line omitted)cat a.pyprint(1)")]
    assert read.column("prompt_completeness") == ["full"] * 3
    assert read.column("trigger") == ["user", "tool", "tool"]
    assert read.column("arrival_s") == [None] * 3
    assert read.column("model") == ["gpt-4o"] * 3
    assert read.receipt["time_basis"] == "none"
    assert any("tokens sent is 170" in w for w in read.receipt["warnings"])


def test_messages_are_the_prompt_of_the_next_step(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "swe_agent" / "messages.traj")
    assert read.column("input_tokens") == [SYSTEM + TASK, SYSTEM + TASK + len("lsa.py")]


def test_prompts_are_derived_from_the_history_and_a_demonstration_is_no_call(tmp_path: Path) -> None:
    read = Read(tmp_path, SAMPLES / "swe_agent" / "history.traj")
    assert read.column("input_tokens") == [SYSTEM + 2 * TASK, SYSTEM + 2 * TASK + len("lsa.py")]
    assert read.column("prompt_completeness") == ["structure"] * 2


@pytest.mark.parametrize(
    ("name", "requests", "sent"),
    [
        ("gpt4_default__pydicom-1458.traj", 12, 122612),
        ("swesmith_pandas.pr_53856.traj", 17, 157229),
        ("ctf_katy.traj", 18, None),
        ("fc_replace_from_source__marshmallow-1867.traj", 13, None),
        ("xml_window100__marshmallow-1867.traj", 11, None),
        ("function_calling_simple.traj", 5, None),
    ],
)
def test_shared_runs(tmp_path: Path, name: str, requests: int, sent: int | None) -> None:
    from traces.intake.ingest import Options, ingest

    receipt = ingest([str(shared(f"swe_agent_traj/{name}"))], None, Options())
    assert receipt["requests"] == requests
    if sent is not None:  # the run's own total, counted with another tokenizer
        assert receipt["input_tokens"] == pytest.approx(sent, rel=0.02)
