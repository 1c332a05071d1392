"""The formats that can be read, and telling them apart by content."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import cast

from traces.intake.refusals import refusal, unknown
from traces.records import Reader
from traces.source.sources import Head, Source

READERS: dict[str, str] = {
    "weka": "traces.formats.hashes.weka",
    "mooncake": "traces.formats.hashes.mooncake",
    "claude_code": "traces.formats.claude_code.transcript",
    "codex": "traces.formats.agents.codex.rollout",
    "gemini_cli": "traces.formats.agents.gemini.gemini_cli",
    "pi": "traces.formats.agents.pi",
    "cline": "traces.formats.agents.cline",
    "goose": "traces.formats.agents.goose",
    "droid": "traces.formats.agents.chats.droid",
    "cursor": "traces.formats.agents.chats.cursor",
    "grok": "traces.formats.agents.chats.grok",
    "hermes": "traces.formats.agents.chats.hermes",
    "antigravity": "traces.formats.agents.chats.antigravity",
    "tau_bench": "traces.formats.agents.chats.tau_bench",
    "aider_history": "traces.formats.agents.aider.history",
    "aider_analytics": "traces.formats.agents.aider.analytics",
    "openclaw_telemetry": "traces.formats.agents.openclaw_telemetry",
    "claude_code_stream_json": "traces.formats.claude_code.stream_json",
    "kimi": "traces.formats.agents.kimi.sessions",
    "qwen": "traces.formats.agents.gemini.qwen",
    "copilot": "traces.formats.agents.copilot",
    "atif": "traces.formats.agents.harnesses.atif",
    "opencode": "traces.formats.agents.opencode.sessions",
    "openhands": "traces.formats.agents.openhands.sources",
    "inspect": "traces.formats.agents.harnesses.inspect",
    "swe_agent": "traces.formats.agents.harnesses.swe_agent",
    "mini_swe_agent": "traces.formats.agents.harnesses.mini_swe_agent",
    "openai_messages": "traces.formats.agents.chats.openai_messages",
    "bailian": "traces.formats.hashes.bailian",
    "dynamo": "traces.formats.hashes.dynamo",
    "agentic_mooncake": "traces.formats.hashes.agentic_mooncake",
    "mooncake-delta": "traces.formats.hashes.mooncake_delta",
    "tair": "traces.formats.hashes.tair",
    "tracelab": "traces.formats.lengths.tracelab",
    "baseten": "traces.formats.table.baseten",
    "azure_llm": "traces.formats.lengths.azure_llm",
    "burstgpt": "traces.formats.lengths.burstgpt",
    "aibrix": "traces.formats.table.aibrix",
    "vidur": "traces.formats.lengths.vidur",
    "servegen": "traces.formats.lengths.servegen",
    "applied_compute": "traces.formats.lengths.applied_compute",
    "table": "traces.formats.table.reader",
    "llm_pairs": "traces.formats.gateways.llm_pairs",
    "batch_results": "traces.formats.gateways.batch_results",
    "agentsight": "traces.formats.gateways.agentsight",
    "otlp": "traces.formats.gateways.observability.otlp",
    "otel_flat": "traces.formats.gateways.observability.otel_flat",
    "openinference": "traces.formats.gateways.observability.openinference",
    "gemini_api": "traces.formats.gateways.gemini_api",
    "cline_http_fixture": "traces.formats.gateways.cline_http_fixture",
    "litellm": "traces.formats.gateways.litellm",
    "langfuse": "traces.formats.gateways.observability.langfuse",
    "langsmith": "traces.formats.gateways.observability.langsmith",
    "managed_agents": "traces.formats.gateways.managed_agents",
    "helicone": "traces.formats.gateways.helicone",
    "vllm_log": "traces.formats.gateways.engine_logs.vllm_log",
    "sglang_log": "traces.formats.gateways.engine_logs.sglang_log",
}
"""Format name -> module. A new format is one module, one line here and one test file."""

LEAST_SURE = 0.3
RECOGNISED = 0.8
"""A reader this sure has seen evidence of its own format: its file is read although no request is in it."""


class UnknownFormat(ValueError):
    """No such format, or no format that fits; the message lists what is known or what to do."""


def reader(name: str) -> Reader:
    """The reader called `name`.

    Raises:
        UnknownFormat: the message lists the known names.
    """
    module = READERS.get(name)
    if module is None:
        raise UnknownFormat(f"unknown format {name!r}. Known: {', '.join(sorted(READERS))}")
    return cast(Reader, importlib.import_module(module))


def detect(source: Source, mapping: Mapping[str, str] | None = None) -> tuple[str, float]:
    """The format whose reader is surest of the input's first bytes, and how sure.

    Every reader is asked, so that the answer does not depend on the inputs before.

    Args:
        source: the input.
        mapping: --map NAME=COLUMN. An input that has one of the columns is a table.

    Raises:
        UnknownFormat: with the reason and the next step.
    """
    head = source.head()
    reason = refusal(head)
    if reason is not None:
        raise UnknownFormat(reason)
    if mapping and not set(mapping.values()).isdisjoint(_columns(head)):
        return "table", 1.0
    best = candidates(head)
    if not best:
        raise UnknownFormat(unknown(head))
    return best[0]


def candidates(head: Head) -> list[tuple[str, float]]:
    """The formats that an input may have, the surest first, with how sure their readers are."""
    sure = [(name, reader(name).sniff(head, head.name)) for name in READERS]
    return sorted((one for one in sure if one[1] >= LEAST_SURE), key=lambda one: -one[1])


def _columns(head: Head) -> list[str]:
    from traces.source import rows as table_rows

    return table_rows.columns(head)
