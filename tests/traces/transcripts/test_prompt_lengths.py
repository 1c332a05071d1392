"""Lengths of the prompts of real transcripts, pinned: all, what is new in each, and what no log shows."""

from __future__ import annotations

import pytest

from tests.places import SHARED
from traces.digests import KeyedDigest
from traces.intake.registry import detect, reader
from traces.records import Context, Prompt, Request
from traces.source.sources import Source
from traces.text.tokens import load_tokenizer

LENGTHS = {
    "agentsight_ssl/claude_code_gen_readme.messages_only.json": (38, 329841, 60053, 0, 589),
    "aibrix_workload/ten_requests.jsonl": (10, 9169, 9069, 0, 0),
    "atif/terminus_2_hello-world-context-summarization-linear-history.trajectory.cont-1.json": (
        4,
        4250,
        2176,
        374,
        450,
    ),
    "claude_code/dk/fe5e1c67-53e7-4862-81ae-d0e013e3270b.jsonl": (170, 3786648, 119666, 73441, 57652),
    "claude_code/sniffly/d3ad4cdc-5657-435d-98fa-0035d53e383d.jsonl": (62, 3928738, 55196, 14169, 50766),
    "claude_code_stream_json/sample-turns.json": (4, 945, 361, 150, 244),
    "codex/codexbar_forks/live-fork-4d90-52bf/child.jsonl": (194, 26692274, 908209, 908209, 0),
    "codex/codexbar_forks/live-fork-4d90-52bf/parent.jsonl": (178, 24889714, 756933, 756933, 0),
    "gemini_cli/agtrace/gemini_session.json": (7, 67273, 29868, 28637, 538),
    "inspect_eval/docent_intercode_ctf.eval": (147, 395844, 42652, 0, 28123),
    "langfuse/pydantic-ai-tools-2025-12-04.trace.json": (4, 1315, 796, 163, 209),
    "langsmith/anthropic_managed_mcp_tools.jsonl": (2, 18028, 10246, 7743, 0),
    "mini_swe_agent/github_issue.traj.json": (10, 13894, 1428, 0, 584),
    "openai_chat/openllmetry_openai_prompt_caching.yaml": (4, 4596, 1149, 0, 1304),
    "openai_messages_sft/swesmith_ft_xml.head2.jsonl": (81, 1965389, 58797, 0, 10091),
    "openclaw_telemetry/sample-telemetry.jsonl": (19, 0, 5575, 0, 1042),
    "openhands/resolver_output.jsonl": (26, 203687, 12024, 0, 10340),
    "otel_genai_flat/code_review_workflow.json": (15, 4945, 4945, 0, 3985),
    "other_agents/antigravity/cli_small.jsonl": (3, 157, 90, 0, 73),
    "other_agents/copilot/small.jsonl": (5, 0, 27, 0, 62),
    "other_agents/cursor/large.jsonl": (5, 174, 36, 0, 46),
    "other_agents/droid/session_store_large.jsonl": (4, 80, 15, 0, 26),
    "other_agents/grok/chat_history.jsonl": (3, 350, 82, 0, 93),
    "other_agents/hermes/large.json": (2, 124, 59, 0, 33),
    "other_agents/kimi/assistant_tools.jsonl": (23, 691678, 35641, 32609, 6730),
    "other_agents/qwen/019f0000-0000-7000-8000-000000000004.jsonl": (2, 12, 12, 0, 10),
    "pi_session/large-session.jsonl": (453, 47526750, 90145, 1989, 90047),
    "swe_agent_traj/ctf_katy.traj": (18, 87553, 5950, 0, 1654),
    "tau_bench/tb_airline.json": (20, 114326, 8113, 0, 3429),
}
"""File -> requests, input tokens, tokens that prompts add to those before them, unobserved ones of these, answers."""


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_of_real_transcripts(name: str) -> None:
    assert _lengths(name) == LENGTHS[name]


def _lengths(name: str) -> tuple[int, ...]:
    path = SHARED / "traces" / name
    source = Source(path.name, path)
    context = Context(tokenizer=load_tokenizer("o200k_base"), digest=KeyedDigest(b"\0" * 32))
    records = reader(detect(source)[0]).read(source, context)
    requests = [record for record in records if isinstance(record, Request)]
    pieces = [piece for r in requests if isinstance(r.prompt, Prompt) for piece in r.prompt.pieces]
    return (
        len(requests),
        sum(r.input_tokens or 0 for r in requests),
        sum(piece.tokens for piece in pieces),
        sum(piece.tokens for piece in pieces if piece.role == "unobserved"),
        sum(piece.tokens for r in requests for piece in r.reply or ()),
    )
