"""The formats that can be read, and telling them apart by content."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import cast

from traces.records import Reader
from traces.sources import Head, Source

READERS: dict[str, str] = {
    "weka": "traces.formats.weka",
    "mooncake": "traces.formats.mooncake",
    "claude_code": "traces.formats.claude_code",
    "codex": "traces.formats.codex",
    "gemini_cli": "traces.formats.gemini_cli",
    "pi": "traces.formats.pi",
    "cline": "traces.formats.cline",
    "goose": "traces.formats.goose",
    "droid": "traces.formats.droid",
    "cursor": "traces.formats.cursor",
    "grok": "traces.formats.grok",
    "hermes": "traces.formats.hermes",
    "antigravity": "traces.formats.antigravity",
    "tau_bench": "traces.formats.tau_bench",
    "aider_history": "traces.formats.aider_history",
    "aider_analytics": "traces.formats.aider_analytics",
    "openclaw_telemetry": "traces.formats.openclaw_telemetry",
    "claude_code_stream_json": "traces.formats.claude_code_stream_json",
    "kimi": "traces.formats.kimi",
    "qwen": "traces.formats.qwen",
    "copilot": "traces.formats.copilot",
    "atif": "traces.formats.atif",
    "opencode": "traces.formats.opencode",
    "openhands": "traces.formats.openhands",
    "inspect": "traces.formats.inspect",
    "swe_agent": "traces.formats.swe_agent",
    "mini_swe_agent": "traces.formats.mini_swe_agent",
    "openai_messages": "traces.formats.openai_messages",
    "bailian": "traces.formats.bailian",
    "dynamo": "traces.formats.dynamo",
    "agentic_mooncake": "traces.formats.agentic_mooncake",
    "mooncake-delta": "traces.formats.mooncake_delta",
    "tair": "traces.formats.tair",
    "tracelab": "traces.formats.tracelab",
    "baseten": "traces.formats.baseten",
    "azure_llm": "traces.formats.azure_llm",
    "burstgpt": "traces.formats.burstgpt",
    "aibrix": "traces.formats.aibrix",
    "vidur": "traces.formats.vidur",
    "servegen": "traces.formats.servegen",
    "applied_compute": "traces.formats.applied_compute",
    "table": "traces.formats.table",
    "llm_pairs": "traces.formats.llm_pairs",
    "agentsight": "traces.formats.agentsight",
    "otlp": "traces.formats.otlp",
    "otel_flat": "traces.formats.otel_flat",
    "openinference": "traces.formats.openinference",
    "gemini_api": "traces.formats.gemini_api",
    "cline_http_fixture": "traces.formats.cline_http_fixture",
    "litellm": "traces.formats.litellm",
    "langfuse": "traces.formats.langfuse",
    "langsmith": "traces.formats.langsmith",
    "managed_agents": "traces.formats.managed_agents",
    "helicone": "traces.formats.helicone",
    "vllm_log": "traces.formats.vllm_log",
    "sglang_log": "traces.formats.sglang_log",
}
"""Format name -> module. A new format is one module, one line here and one test file."""

LEAST_SURE = 0.3
CERTAIN = 0.97
"""No two readers are this sure of one input, so the latest format is asked first and, if certain, alone."""
_LATEST: list[str] = []

_AGENTSVIEW = re.compile(rb'\s*\{\s*"schema_version"\s*:\s*\d+\s*,\s*"(?:database_id|pricing)"\s*:')


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


def refusal(head: Head) -> str | None:
    """Why an input is no trace and must not be read, or None."""
    data = head.data
    if not data.strip():
        return "empty"
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return (
            "a Python pickle: reading it would run code. Convert it where it was made, "
            "to JSONL with one request per line"
        )
    if data[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0", b"%PDF", b"\x7fELF", b"GIF8"):
        return "not a trace (an image, a document or a program)"
    if _AGENTSVIEW.match(data) and b'"cost_source"' in data:
        return (
            "an agentsview export: sums per session or day, no single calls. "
            "Give the agents' own session files that it was made from"
        )
    if data[:4] == b"7z\xbc\xaf" or data[:6] == b"Rar!\x1a\x07" or data[257:262] == b"ustar":
        return "an archive that is not read: give the folder, or a .zip"
    return None


def detect(source: Source, mapping: Mapping[str, str] | None = None) -> tuple[str, float]:
    """The format whose reader is surest of the input's first bytes, and how sure.

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
    for name in _LATEST:
        if (sure := reader(name).sniff(head, head.name)) >= CERTAIN:
            return name, sure
    best, surest = "", 0.0
    for name in READERS:
        sure = reader(name).sniff(head, head.name)
        if sure > surest:
            best, surest = name, sure
    if surest < LEAST_SURE:
        raise UnknownFormat(
            "not recognised as any format (tracetower formats lists them); "
            "name it with --format, or its columns with --map"
        )
    _LATEST[:] = [best]
    return best, surest


def _columns(head: Head) -> list[str]:
    from traces.formats import table_rows

    return table_rows.columns(head)
