"""Factory Droid: its session store and `droid exec --output-format stream-json` (JSON Lines).

Messages hold Anthropic's content blocks; the stream has calls and results as events of their own. There is no usage,
and the system prompt and tools are not logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.chats.plain_chats import Chat
from traces.records import Context, Record
from traces.transcripts.ledger import objects
from traces.transcripts.parts import as_dict, kind_of, seconds, text_of

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "droid"
SUMMARY = {
    "carries": "messages, tool calls and results, times",
    "time": "wall clock (ISO 8601)",
    "computes": "achievable hit rates of what is visible; lengths are the tokenizer's",
    "notes": "no usage; system prompt and tools are not logged",
}


def sniff(head: Any, name: str) -> float:
    """Sure of the store's first line; of a stream, of its ids beside its types."""
    records = [r for r in head.records if isinstance(r, dict)]
    if any(r.get("type") == "session_start" and "id" in r for r in records[:3]):
        return 0.95
    tools = any(kind_of(r) in ("tool_call", "tool_result") and "toolCallId" in r for r in records)
    said = any(kind_of(r) in ("message", "completion") and "session_id" in r for r in records)
    return 0.9 if said and (tools or any(r.get("type") == "completion" for r in records)) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    chat = Chat(NAME, context)
    for ordinal, line in objects(source, chat.ledger):
        kind, at_s = kind_of(line), seconds(line.get("timestamp"))
        if kind in ("session_start", "system"):
            chat.thread.key = text_of(line.get("id" if kind == "session_start" else "session_id")) or "main"
            chat.thread.version, chat.model = text_of(line.get("version")), text_of(line.get("model"))
            chat.thread.started_s = at_s
            chat.ledger.ignore("the start of a session")
        elif kind == "message":
            message = as_dict(line.get("message")) or line
            body = message.get("content", message.get("text"))
            if message.get("role") == "assistant":
                chat.close()  # each message of the model is an answer of its own
                contents = chat.make.content(body, "assistant")
                chat.said(ordinal, contents.parts, contents.tools, at_s)
            else:
                contents = chat.make.content(body, "user")
                chat.given(contents.parts, at_s, "tool" if contents.results else "user")
        elif kind == "tool_call":
            name = text_of(line.get("toolName")) or ""
            chat.said(ordinal, [chat.make.call(name, line.get("parameters"), line.get("toolCallId"))], [name], at_s)
        elif kind == "tool_result":
            chat.given(chat.make.result(line.get("value"), line.get("toolCallId")), at_s, "tool")
        elif kind == "completion":
            chat.said(ordinal, chat.make.content(line.get("finalText"), "assistant").parts, [], at_s)
        else:
            chat.ledger.ignore("record of another kind")
    yield from chat.records(context)
