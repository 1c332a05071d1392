"""OpenClaw telemetry (JSON Lines): starts of agents, tool runs and messages; nothing of the model calls themselves.

An `agent.start` is a call with a known prompt text; after a tool has ended the model is called again with a result that
is not logged, so that call's length is unknown. Only chat messages have times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record, Request
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import PartMaker, as_dict, as_list, kind_of, plain
from traces.transcripts.requests import requests_of
from traces.transcripts.turns import Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "openclaw_telemetry"
SUMMARY = {
    "carries": "sessions, sub-agents, prompts that started them, names of the tools used",
    "time": "none (of chat messages only)",
    "computes": "turns, tools and work; no lengths of calls after a tool, no hit rate",
    "notes": "tool results and answers are not logged; no usage",
}
_TYPES = {"agent.start", "agent.end", "tool.start", "tool.end", "message.in", "message.out", "message.sending"}


def sniff(head: Any, name: str) -> float:
    """Sure of the telemetry's event types."""
    records = [r for r in head.records if isinstance(r, dict)]
    known = [r for r in records if kind_of(r) in _TYPES]
    return 0.95 if records and len(known) >= len(records) - 1 and any("sessionKey" in r for r in known) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield sessions and their requests."""
    ledger, make = Ledger(), PartMaker(context)
    threads: dict[str, Thread] = {}
    for ordinal, line in objects(source, ledger):
        kind, key = kind_of(line), str(line.get("sessionKey"))
        if kind not in ("agent.start", "tool.start"):
            ledger.ignore("an event that is no call")
            continue
        thread = threads.get(key)
        if thread is None:
            role = "subagent" if "subagent" in key else "main"
            thread = threads[key] = Thread(key, "openclaw", role=role, time_basis="none")
        if kind == "tool.start":
            name, tag = str(line.get("toolName")), str(ordinal)
            ledger.used += 1
            thread.add_reply([make.call(name, line.get("params"), tag)], [name])
            thread.close(f"{key}:{ordinal}", ordinal)
            thread.add_input([], None, "tool")
            continue
        messages = [part for m in as_list(line.get("messages")) for part in make.message(as_dict(m)).parts]
        prompt = make.content(plain(line.get("prompt")), "user").parts
        if [part.key for part in thread.inputs] == [part.key for part in prompt]:
            ledger.duplicate("a start that is logged twice")
            continue
        ledger.used += 1
        if messages:
            thread.restart(messages, compaction=False)
        thread.add_input(prompt, None, "user")
    for thread in threads.values():
        if thread.inputs or thread.trigger != "unknown":
            last = max((t.ordinal for t in thread.turns), default=0)
            thread.close(f"{thread.key}:end", last)  # the answer that ended the run
    count = 0
    for record in requests_of(list(threads.values()), context, reports_usage=True):
        count += isinstance(record, Request)
        yield record
    yield from ledger.finish(min(count, ledger.used))
