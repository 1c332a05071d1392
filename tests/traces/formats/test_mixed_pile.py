"""One folder with many formats, a zip inside a zip among them: one dataset and one receipt."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.places import SAMPLES
from tests.traces.formats.gateways.reading import check
from traces.dataset.layout import Dataset
from traces.intake.ingest import Options, ingest
from traces.intake.registry import READERS

PILE = {
    "agentsight": ["agentsight/calls.json"],
    "cline_http_fixture": ["cline_http_fixture/subagents.json"],
    "gemini_api": ["gemini_api/hooks-system.multiple-events.responses"],
    "helicone": ["helicone/requests.jsonl"],
    "langfuse": ["langfuse/vercel-aisdk-2025-11-17.trace.json"],
    "langsmith": ["langsmith/langsmith_py_wrap_openai_reasoning.json"],
    "litellm": ["litellm/standard_logging_payload.json"],
    "llm_pairs": ["llm_pairs/mistral.pairs.jsonl"],
    "managed_agents": ["managed_agents/anthropic_managed_builtin_tools.jsonl"],
    "openinference": ["openinference/spans.json"],
    "otel_flat": ["otel_flat/simple_chain.json", "otel_flat/prefix_sharing_example.json"],
    "otlp": ["otlp/agent.jsonl"],
    "sglang_log": ["sglang_log/requests.log"],
    "vllm_log": ["vllm_log/server.log"],
}
"""Format -> samples that lie in the pile; those of other formats are written below."""

MOONCAKE = [{"timestamp": 1000 * at, "input_length": 1024, "output_length": 5, "hash_ids": [1, at]} for at in range(3)]
TABLE = [{"ts": at, "session_id": "s", "prompt": "the same prompt " * (at + 1)} for at in range(3)]
CLAUDE = [
    {
        "type": kind,
        "uuid": f"u{at}",
        "parentUuid": f"u{at - 1}" if at else None,
        "sessionId": "pile",
        "timestamp": f"2026-01-01T00:00:0{at}Z",
        "version": "2.0.0",
        "isSidechain": False,
        "message": message,
    }
    for at, (kind, message) in enumerate(
        [
            ("user", {"role": "user", "content": "hello"}),
            (
                "assistant",
                {
                    "id": "msg_pile",
                    "role": "assistant",
                    "model": "claude-x",
                    "content": [{"type": "text", "text": "hi"}],
                    "stop_reason": "end_turn",
                    "usage": {"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 900},
                },
            ),
        ]
    )
]
WRITTEN: dict[str, tuple[str, list[Any]]] = {
    "mooncake": ("trace.jsonl", MOONCAKE),
    "table": ("prompts.jsonl", TABLE),
    "claude_code": ("session.jsonl", CLAUDE),
}


def _lines(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def pile(tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """The folder, and how many inputs of each format it holds."""
    folder = tmp_path / "pile"
    expected: dict[str, int] = {}
    for place, (name, samples) in enumerate(PILE.items()):
        if name in READERS:
            # Some lie loose, some in a folder of their own.
            inner = folder / name if place % 2 else folder
            inner.mkdir(parents=True, exist_ok=True)
            for sample in samples:
                shutil.copy(SAMPLES / sample, inner / f"{name}-{Path(sample).name}")
            expected[name] = len(samples)
    deepest, outer = tmp_path / "inner.zip", folder / "outer.zip"
    with zipfile.ZipFile(deepest, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (file, records) in WRITTEN.items():
            if name in READERS:
                archive.writestr(f"{name}/{file}", _lines(records))
                expected[name] = 1
    with zipfile.ZipFile(outer, "w") as archive:
        archive.write(deepest, "more/inner.zip")
        archive.writestr("notes/readme.txt", "nothing to see")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 40)
    (folder / "dump.pkl").write_bytes(b"\x80\x04\x95.")
    return folder, expected


def test_a_pile_is_one_dataset(pile: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    folder, expected = pile
    receipt = ingest([str(folder)], tmp_path / "dataset", Options())
    check(receipt)
    assert receipt["formats"] == expected
    assert receipt["files"] == {"read": sum(expected.values()), "skipped": 3, "failed": 0}
    reasons = " ".join(reject["reason"] for reject in receipt["rejects"])
    assert "pickle" in reasons
    assert "not a trace" in reasons
    dataset = Dataset(tmp_path / "dataset")
    requests, sources = dataset.read("requests"), dataset.read("sources")
    assert receipt["requests"] == requests.height <= receipt["records"]["used"]
    assert set(sources["format"]) == set(expected)
    assert receipt["time_basis"] == "mixed"


def test_each_input_counts_what_it_counts_alone(pile: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    folder, _ = pile
    whole = ingest([str(folder)], tmp_path / "dataset", Options())
    alone = [ingest([str(f)], None, Options()) for f in sorted(folder.rglob("*")) if f.is_file()]
    for name in ("used", "rejected", "ignored"):
        assert whole["records"][name] == sum(receipt["records"][name] for receipt in alone)
    assert whole["input_tokens"] == sum(receipt["input_tokens"] or 0 for receipt in alone)
    assert whole["output_tokens"] == sum(receipt["output_tokens"] or 0 for receipt in alone)


def test_a_pile_again_changes_nothing(pile: tuple[Path, dict[str, int]], tmp_path: Path) -> None:
    folder, expected = pile
    ingest([str(folder)], tmp_path / "dataset", Options())
    before = Dataset(tmp_path / "dataset").read("requests")
    again = ingest([str(folder)], tmp_path / "dataset", Options())
    assert again["records"]["read"] == 0
    assert again["files"]["skipped"] == sum(expected.values()) + 3
    after = Dataset(tmp_path / "dataset").read("requests")
    assert before.select(pl.exclude("request_id")).equals(after.select(pl.exclude("request_id")))
