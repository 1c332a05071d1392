"""Antigravity CLI transcripts (JSON Lines of steps).

A `PLANNER_RESPONSE` is an answer; the other steps of the model are the results of its tools; a `CHECKPOINT` starts
from a compacted history. There is no usage; long texts are cut off where `truncated_fields` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.chats.plain_chats import Chat
from traces.records import Context, Note, Record
from traces.transcripts.ledger import objects
from traces.transcripts.parts import as_dict, as_list, kind_of, plain, seconds

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "antigravity"
SUMMARY = {
    "carries": "messages, tool calls and results, compactions, times",
    "time": "wall clock (ISO 8601)",
    "computes": "achievable hit rates of what is visible; lengths are the tokenizer's",
    "notes": "no usage; system prompt and tools are not logged, and long texts are cut off",
}


def sniff(head: Any, name: str) -> float:
    """Sure of numbered steps with a source and a type."""
    records = [r for r in head.records if isinstance(r, dict)]
    return 0.95 if records and all("step_index" in r and "source" in r and "type" in r for r in records) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    chat, cut = Chat(NAME, context), 0
    for ordinal, step in objects(source, chat.ledger):
        kind, at_s, text = kind_of(step), seconds(step.get("created_at")), plain(step.get("content"))
        cut += bool(step.get("truncated_fields"))
        if kind == "PLANNER_RESPONSE":
            calls = [as_dict(call) for call in as_list(step.get("tool_calls"))]
            thoughts = plain(step.get("thinking"))
            parts = [chat.make.text("reasoning", thoughts)] if thoughts else []
            parts += [chat.make.text("assistant", text)] if text else []
            parts += [chat.make.call(call.get("name"), call.get("args")) for call in calls]
            chat.close()
            chat.said(ordinal, parts, [str(call.get("name")) for call in calls], at_s)
        elif kind == "CHECKPOINT":
            chat.close()
            chat.thread.restart([chat.make.text("summary", text)])
            chat.ledger.used += 1
        elif not text:
            chat.ledger.ignore("a step without content")
        elif step.get("source") == "MODEL" or kind not in ("USER_INPUT", "SYSTEM_MESSAGE"):
            chat.given([chat.make.text("tool_result", text)], at_s, "tool")
        else:
            chat.given([chat.make.text("user", text)], at_s)
    yield from chat.records(context)
    if cut:
        yield Note(f"antigravity: {cut} steps have texts that were cut off when they were logged")
