"""Cursor agent transcripts (JSON Lines of role and message with Anthropic's content blocks).

There are no times, no ids and no usage; the system prompt and tools are not logged. Thinking is not sent back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.chats.plain_chats import Chat
from traces.records import Context, Record
from traces.transcripts.ledger import objects
from traces.transcripts.parts import as_dict

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "cursor"
SUMMARY = {
    "carries": "messages, tool calls and results",
    "time": "none",
    "computes": "achievable hit rates of what is visible; lengths are the tokenizer's",
    "notes": "no usage, no times; system prompt and tools are not logged",
}


def sniff(head: Any, name: str) -> float:
    """Sure of lines that hold a role and a message with content, and nothing of a session."""
    records = [r for r in head.records if isinstance(r, dict)]
    shaped = [r for r in records if r.keys() <= {"role", "message"} and "content" in as_dict(r.get("message"))]
    return 0.9 if records and len(shaped) == len(records) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    chat = Chat(NAME, context, time_basis="none")
    chat.thread.keeps_reasoning = False
    if "subagent" in source.name.rpartition("/")[2]:
        chat.thread.role = "subagent"
    for ordinal, line in objects(source, chat.ledger):
        body = as_dict(line.get("message")).get("content")
        if line.get("role") == "assistant":
            contents = chat.make.content(body, "assistant")
            chat.said(ordinal, contents.parts, contents.tools)
        else:
            contents = chat.make.content(body, "user")
            chat.given(contents.parts, None, "tool" if contents.results else "user")
    yield from chat.records(context)
