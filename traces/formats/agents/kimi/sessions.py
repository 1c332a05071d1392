"""Kimi sessions: which of the two products wrote a file, and which files belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.kimi.cli_wire import CliWire
from traces.formats.agents.kimi.code_wire import CodeWire
from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import PartMaker, as_dict, kind_of, text_of
from traces.transcripts.requests import records_of

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "kimi"
SIBLINGS = True
SUMMARY = {
    "carries": "messages, tool schemas, tool calls, usage with cache reads and writes, times to the first token",
    "time": "wall clock (Kimi Code: ms since the epoch, Kimi CLI: s)",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "Kimi Code and Kimi CLI. A sub-agent's file is a session of its own; compactions are calls too",
}
_CODE_KINDS = {
    "config.update",
    "context.append_loop_event",
    "context.append_message",
    "llm.request",
    "llm.tools_snapshot",
    "profile.bind",
    "tools.set_active_tools",
    "turn.prompt",
    "usage.record",
}
_CONTEXT_ROLES = {"_system_prompt", "_checkpoint", "_usage"}


def sniff(head: Any, name: str) -> float:
    """Sure of either product's own records after the first line, which both begin alike."""
    records = [r for r in head.records if isinstance(r, dict)]
    if any(_is_cli(r) for r in records) or any(kind_of(r, "role") in _CONTEXT_ROLES for r in records):
        return 0.97
    known = any(kind_of(r) in _CODE_KINDS for r in records)
    if records and records[0].get("type") == "metadata" and "protocol_version" in records[0]:
        return 0.97 if known else 0.5
    return 0.9 if known else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the sessions and their requests."""
    ledger, make = Ledger(context.meanings), PartMaker(context)
    records = [r for r in source.head().records if isinstance(r, dict)]
    messages = source if any(kind_of(r, "role") in _CONTEXT_ROLES for r in records) else None
    place = source.name.rpartition("/")
    beside = source.siblings.get(f"{place[0]}{place[1]}{'wire' if messages else 'context'}.jsonl")
    if beside is not None and beside is not source:
        source.claim(beside.name)
        source, messages = (beside, messages) if messages else (source, beside)
    if messages is source or any(_is_cli(r) for r in source.head().records if isinstance(r, dict)):
        cli = CliWire(make, ledger, place[0].rpartition("/")[2] or "main")
        if messages is not None:
            for ordinal, line in objects(messages, ledger):
                cli.context(ordinal, line, alone=messages is source)
        if messages is not source:
            for ordinal, line in objects(source, ledger):
                cli.line(ordinal, line)
        threads = cli.end()
    else:
        code = CodeWire(make, ledger)
        for ordinal, line in objects(source, ledger):
            code.line(ordinal, line)
        threads = code.end()
    yield from records_of(threads, context, ledger, reports_usage=True)


def _is_cli(record: dict[str, Any]) -> bool:
    message = as_dict(record.get("message"))
    return "timestamp" in record and bool(text_of(message.get("type"))) and isinstance(message.get("payload"), dict)
