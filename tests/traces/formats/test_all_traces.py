"""Every file of the shared traces is read, or refused with the right reason."""

from __future__ import annotations

import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES, SHARED
from traces.intake.ingest import ingest
from traces.intake.registry import READERS

TRACES = SHARED / "traces"

UNKNOWN = "not recognised as any format"
REFUSED = {
    "*.tsv": UNKNOWN,  # tables about the traces
    "codex/codexbar_forks/*/ORACLE.md": UNKNOWN,
    "codex/codexbar_forks/*/manifest.json": UNKNOWN,
    "claude_code/sniffly/ORACLE_baseline_results.json": UNKNOWN,  # what another tool made of the folder
    "claude_code_message_samples/*queue_operation.jsonl": UNKNOWN,  # a line without an id
    # parts that name neither their message nor their session: only their folder tells
    "opencode/storage_v2/part/m_assistant_small/002.json": UNKNOWN,
    "opencode/storage_v2/part/m_user_small/001.json": UNKNOWN,
    "agentsview_export/*.json": "an agentsview export: sums per session or day",
    "servegen/*": "a ServeGen generator",
}
"""Files that must be refused, and why."""

NO_REQUEST = {
    "claude_code/obra/medium-conversation.jsonl": "record of another kind",  # snapshots of files
    "claude_code/sniffly/ff71dbed-*": "record of another kind",
    "claude_code_message_samples/*tool_result*.jsonl": "in no call's prompt",
    "claude_code_message_samples/*__user__*.jsonl": "in no call's prompt",
    "claude_code_message_samples/*__system_info.jsonl": "in no call's prompt",
    "claude_code_message_samples/*__file_history_snapshot.jsonl": "record of another kind",
    "claude_code_message_samples/*__summary.jsonl": "record of another kind",
    "codex/agtrace/rollout-parent-019b88e0.jsonl": "part of a conversation",  # a review, in another file
    "codex/agtrace/rollout-subagent-019b88e5.jsonl": "part of a conversation",
    "opencode/storage_*/session/*": "part of a conversation",
    "opencode/storage_*/message/*": "part of a conversation",
    "opencode/storage_*/part/*": "a part of a message that is not there",
    "openhands/sdk_base_state.json": "the state of a conversation",
    "other_agents/grok/summary.json": "the summary of a session",
    "other_agents/kimi/small.jsonl": "record of another kind",  # no call got an answer
    "otlp_genai/*": "no call of a model",  # an agent's span and its tools; the calls were not exported
}
"""Files that are read and hold no request, and why."""

READ_ALONE = ("opencode/storage_v2/message/s_stage0_large/msg_0002.json",)  # a message with usage

FORMATS = {
    "kv_cache_tester_100": "weka", "kv_cache_tester": "weka", "agentsight_ssl": "agentsight",
    "aibrix_workload": "aibrix", "anthropic_messages": "llm_pairs", "bedrock_converse": "llm_pairs",
    "claude_code_message_samples": "claude_code", "gemini_api": "llm_pairs", "gemini_api_responses": "gemini_api",
    "inspect_eval": "inspect", "mistral_chat": "llm_pairs", "openai_chat": "llm_pairs",
    "openai_messages_sft": "openai_messages", "openai_responses": "llm_pairs", "openhands_llm_logs": "openhands",
    "otel_genai_flat": "otel_flat", "otlp_genai": "otlp", "pi_session": "pi", "swe_agent_traj": "swe_agent",
    "tair_kvcache_trace": "tair", "vidur_csv": "vidur",
}  # fmt: skip
"""Folder -> format, where the names differ."""


def _folders() -> list[str]:
    return sorted({p.relative_to(TRACES).parts[0] for p in TRACES.rglob("*") if p.is_file()}) if TRACES.is_dir() else []


def _reason(name: str, table: dict[str, str]) -> str | None:
    return next((reason for pattern, reason in table.items() if fnmatch(name, pattern)), None)


def _adds_up(receipt: dict[str, Any]) -> None:
    records = receipt["records"]
    parts = [records[k] for k in ("used", "rejected", "duplicate", "ignored")]
    assert records["read"] == sum(parts)
    assert min(parts) >= 0
    assert receipt["requests"] <= records["used"]


@pytest.mark.parametrize("folder", _folders())
def test_every_file_is_read_or_refused_with_its_reason(folder: str) -> None:
    place = TRACES / folder
    for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if not path.is_file():
            continue
        name = path.relative_to(TRACES).as_posix()
        receipt = ingest([str(path)], None)
        _adds_up(receipt)
        refused, empty = _reason(name, REFUSED), _reason(name, NO_REQUEST)
        if refused is not None:
            assert receipt["requests"] == 0, name
            assert [r["reason"].startswith(refused) for r in receipt["rejects"]] == [True], name
        elif empty is not None and name not in READ_ALONE:
            assert receipt["requests"] == 0, name
            assert any(w.startswith(f"an input held no request: {empty}") for w in receipt["warnings"]), name
        else:
            assert receipt["requests"] > 0, name
            if folder not in ("other_agents", "langsmith"):
                assert list(receipt["formats"]) == [FORMATS.get(folder, folder)], name


@pytest.mark.parametrize(
    ("folder", "requests"),
    [("opencode/storage_legacy", 1), ("opencode/storage_v2", 3), ("openhands_llm_logs", 6), ("other_agents/grok", 3)],
)
def test_files_that_say_little_alone_are_read_in_their_folder(folder: str, requests: int) -> None:
    receipt = ingest([str(TRACES / folder)], None)
    _adds_up(receipt)
    assert receipt["files"]["failed"] == receipt["files"]["skipped"] == 0
    assert receipt["requests"] == requests


def test_samples_of_every_format_in_nested_zips_are_one_dataset(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.zip", tmp_path / "outer.zip"
    names = [name for name in READERS if (SAMPLES / name).is_dir()]
    with zipfile.ZipFile(outer, "w") as archive:
        with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as deeper:
            for at, name in enumerate(names):
                for path in sorted(p for p in (SAMPLES / name).rglob("*") if p.is_file()):
                    (deeper if at % 2 else archive).write(path, path.relative_to(SAMPLES).as_posix())
        archive.write(inner, "more/inner.zip")
    receipt = ingest([str(outer)], tmp_path / "dataset")
    _adds_up(receipt)
    # one delta looks like what it is not, so it has to be named
    assert set(READERS) - set(receipt["formats"]) == {"mooncake-delta"}
    assert set(names) == set(READERS)
