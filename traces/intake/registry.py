"""The formats that can be read, and telling them apart by content."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import cast

from traces.intake.refusals import refusal, unknown
from traces.records import Reader
from traces.source.sources import Head, Source

READERS: dict[str, tuple[str, float]] = {
    "weka": ("hashes.weka", 0.95),
    "mooncake": ("hashes.mooncake", 0.9),
    "claude_code": ("claude_code.transcript", 0.97),
    "codex": ("agents.codex.rollout", 0.97),
    "gemini_cli": ("agents.gemini.gemini_cli", 0.95),
    "pi": ("agents.pi", 0.95),
    "cline": ("agents.cline", 0.95),
    "goose": ("agents.goose", 0.95),
    "droid": ("agents.chats.droid", 0.95),
    "cursor": ("agents.chats.cursor", 0.9),
    "grok": ("agents.chats.grok", 0.95),
    "hermes": ("agents.chats.hermes", 0.9),
    "antigravity": ("agents.chats.antigravity", 0.95),
    "tau_bench": ("agents.chats.tau_bench", 0.95),
    "aider_history": ("agents.aider.history", 0.97),
    "aider_analytics": ("agents.aider.analytics", 0.95),
    "openclaw_telemetry": ("agents.openclaw_telemetry", 0.95),
    "claude_code_stream_json": ("claude_code.stream_json", 0.95),
    "kimi": ("agents.kimi.sessions", 0.97),
    "qwen": ("agents.gemini.qwen", 0.99),
    "copilot": ("agents.copilot", 0.95),
    "atif": ("agents.harnesses.atif", 0.97),
    "opencode": ("agents.opencode.sessions", 0.97),
    "openhands": ("agents.openhands.sources", 0.95),
    "inspect": ("agents.harnesses.inspect", 0.97),
    "swe_agent": ("agents.harnesses.swe_agent", 0.95),
    "mini_swe_agent": ("agents.harnesses.mini_swe_agent", 0.97),
    "openai_messages": ("agents.chats.openai_messages", 0.65),
    "bailian": ("hashes.bailian", 0.95),
    "dynamo": ("hashes.dynamo", 0.99),
    "agentic_mooncake": ("hashes.agentic_mooncake", 0.99),
    "mooncake-delta": ("hashes.mooncake_delta", 0.0),
    "tair": ("hashes.tair", 0.97),
    "tracelab": ("lengths.tracelab", 0.97),
    "baseten": ("table.baseten", 0.97),
    "azure_llm": ("lengths.azure_llm", 0.97),
    "burstgpt": ("lengths.burstgpt", 0.97),
    "aibrix": ("table.aibrix", 0.97),
    "vidur": ("lengths.vidur", 0.97),
    "servegen": ("lengths.servegen", 0.95),
    "applied_compute": ("lengths.applied_compute", 0.97),
    "table": ("table.reader", 0.5),
    "llm_pairs": ("gateways.llm_pairs", 0.95),
    "batch_results": ("gateways.batch_results", 0.95),
    "agentsight": ("gateways.agentsight", 0.95),
    "otlp": ("gateways.observability.otlp", 0.95),
    "otel_flat": ("gateways.observability.otel_flat", 0.9),
    "openinference": ("gateways.observability.openinference", 0.93),
    "gemini_api": ("gateways.gemini_api", 0.9),
    "cline_http_fixture": ("gateways.cline_http_fixture", 0.9),
    "litellm": ("gateways.litellm", 0.95),
    "langfuse": ("gateways.observability.langfuse", 0.93),
    "langsmith": ("gateways.observability.langsmith", 0.93),
    "managed_agents": ("gateways.managed_agents", 0.95),
    "helicone": ("gateways.helicone", 0.95),
    "vllm_log": ("gateways.engine_logs.vllm_log", 0.9),
    "sglang_log": ("gateways.engine_logs.sglang_log", 0.95),
}
"""Format name -> (module in traces.formats, the most that its `sniff` ever gives).

A new format is one module, one line here and one test file.
"""

LEAST_SURE = 0.3
RECOGNISED = 0.8
"""A reader this sure has seen evidence of its own format: its file is read although no request is in it."""


class UnknownFormat(ValueError):
    """No such format, or no format that fits; the message lists what is known or what to do."""


@functools.lru_cache
def reader(name: str) -> Reader:
    """The reader called `name`.

    Raises:
        UnknownFormat: the message lists the known names.
    """
    if name not in READERS:
        raise UnknownFormat(f"unknown format {name!r}. Known: {', '.join(sorted(READERS))}")
    return cast(Reader, importlib.import_module(f"traces.formats.{READERS[name][0]}"))


def detect(source: Source, mapping: Mapping[str, str] | None = None) -> tuple[str, float]:
    """The format whose reader is surest of the input's first bytes, and how sure; of equals, the first in `READERS`.

    Readers that cannot be surer than one that was asked are not asked. The answer does not depend on the inputs before.

    Args:
        source: the input.
        mapping: meaning -> column, as the user gave them. An input that has one of the columns is a table.

    Raises:
        UnknownFormat: with the reason and the next step.
    """
    head = source.head()
    reason = refusal(head)
    if reason is not None:
        raise UnknownFormat(reason)
    if mapping and not set(mapping.values()).isdisjoint(_columns(head)):
        return "table", 1.0
    place, sure = surest(head)
    if sure < LEAST_SURE:
        raise UnknownFormat(unknown(head))
    return list(READERS)[place], sure


def surest(head: Head) -> tuple[int, float]:
    """(place in `READERS`, how sure) of the reader that is surest of an input; of equals the first."""
    best, sure = 0, 0.0
    for most, place, name in _BY_MOST:
        if (most, -place) < (sure, -best):
            break
        found = reader(name).sniff(head, head.name)
        if (found, -place) > (sure, -best):
            best, sure = place, found
    return best, sure


_BY_MOST = sorted(((most, place, name) for place, (name, (_, most)) in enumerate(READERS.items())),
                  key=lambda one: (-one[0], one[1]))  # fmt: skip


def candidates(head: Head) -> list[tuple[str, float]]:
    """The formats that an input may have, the surest first, with how sure their readers are."""
    sure = [(name, reader(name).sniff(head, head.name)) for name in READERS]
    return sorted((one for one in sure if one[1] >= LEAST_SURE), key=lambda one: -one[1])


def _columns(head: Head) -> list[str]:
    from traces.source import rows as table_rows

    return table_rows.columns(head)
