"""Qwen Code chats (JSONL): records of a tree with Gemini-shaped content.

Facts: QwenLM/qwen-code, packages/core/src/services/chatRecordingService.ts. Records with one uuid are one answer in
pieces. The active branch ends at the newest record; a rewind continues from an earlier one. The system prompt and tools
are not logged; `usageMetadata` has Gemini's names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import PartMaker, as_dict, kind_of, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Branches, Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "qwen"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "sessions, branches, messages, tool calls and results, usage with cache reads, times",
    "time": "wall clock (ISO 8601)",
    "computes": "hit rates, reported and achievable; lengths are the provider's where usage is logged",
    "notes": "system prompt and tools are not logged: prompts start with an unobserved head",
}


def sniff(head: Any, name: str) -> float:
    """Sure of the tree's ids beside content in parts."""
    for record in head.records:
        if isinstance(record, dict) and "uuid" in record and "sessionId" in record:
            message = record.get("message")
            if isinstance(message, dict) and isinstance(message.get("parts"), list):
                return 0.99
            if record.get("subtype") == "ui_telemetry":
                return 0.98
    return 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    ledger = Ledger(context.meanings)
    make, thread, state = PartMaker(context), Thread("", NAME), _State()
    branches = Branches(thread)
    for ordinal, line in objects(source, ledger):
        kind, uuid, at_s = kind_of(line), text_of(line.get("uuid")), seconds(line.get("timestamp"))
        thread.key = thread.key or text_of(line.get("sessionId")) or ""
        thread.version = thread.version or text_of(line.get("version"))
        thread.started_s = at_s if thread.started_s is None else thread.started_s
        message = as_dict(line.get("message"))
        if state.open is not None and (kind != "assistant" or uuid != state.open):
            _close(thread, state, ledger)
            branches.leave(state.open)
            state.open = None
        if kind == "assistant" and uuid != state.open:
            branches.enter(line.get("parentUuid"))
            state.begin(uuid or f"line-{ordinal}", ordinal)
        elif kind != "assistant":
            branches.enter(line.get("parentUuid"))
        contents = make.content(message.get("parts"), "assistant" if kind == "assistant" else "user")
        if kind == "assistant":
            ledger.used += 1
            thread.add_reply(contents.parts, contents.tools, at_s)
            state.usage = line.get("usageMetadata") or state.usage
            state.model = text_of(line.get("model")) or state.model
            continue
        if kind in ("user", "tool_result") and contents.parts:
            ledger.used += 1
            thread.add_input(contents.parts, at_s, "tool" if contents.results else "user")
        else:
            ledger.ignore("record that is no part of a prompt")
        branches.leave(uuid)
    if state.open is not None:
        _close(thread, state, ledger)
    yield from records_of([thread], context, ledger, reports_usage=True)


class _State:
    """The answer that is being read."""

    def __init__(self) -> None:
        self.open: str | None = None
        self.ordinal = 0
        self.usage: Any = None
        self.model: str | None = None

    def begin(self, name: str, ordinal: int) -> None:
        self.open, self.ordinal, self.usage, self.model = name, ordinal, None, None


def _close(thread: Thread, state: _State, ledger: Ledger) -> None:
    thread.close(
        f"{thread.key}:{state.ordinal}",
        state.ordinal,
        usage=ledger.usage(state.ordinal, state.usage, model=state.model),
        model=state.model,
        dedupe_key=None if str(state.open).startswith("line-") else f"qwen:{thread.key}:{state.open}",
    )
