"""Grok CLI chats (chat_history.jsonl): the messages as they are sent, system prompt and reasoning items included.

There is no usage and no time; tool schemas are not logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.chats.plain_chats import Chat
from traces.records import Context, Record
from traces.transcripts.ledger import objects, opening
from traces.transcripts.parts import as_dict, kind_of, plain, text_of

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "grok"
SUMMARY = {
    "carries": "system prompt, messages, tool calls and results",
    "time": "none",
    "computes": "achievable hit rates of what is visible; lengths are the tokenizer's",
    "notes": "no usage, no times; tool schemas are not logged. summary.json is about the session only",
}
_KINDS = {"system", "user", "assistant", "reasoning", "tool_result", "backend_tool_call"}


def sniff(head: Any, name: str) -> float:
    """Sure of typed messages without envelopes, and of the session's summary."""
    value = opening(head)
    if isinstance(value, dict) and "grok_home" in value:
        return 0.95
    records = [r for r in head.records if isinstance(r, dict)]
    bare = [
        r for r in records if kind_of(r) in _KINDS and not r.keys() & {"uuid", "session_id", "message", "timestamp"}
    ]
    own = any("model_fingerprint" in r or r.get("type") == "backend_tool_call" for r in bare)
    if len(bare) < len(records) or not any("content" in r for r in bare):
        return 0.0
    return 0.9 if own else 0.6


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    chat = Chat(NAME, context, time_basis="none")
    if "grok_home" in as_dict(opening(source.head())):
        chat.ledger.ignore("the summary of a session; its messages are in chat_history.jsonl")
        yield from chat.records(context)
        return
    for ordinal, line in objects(source, chat.ledger):
        kind = kind_of(line)
        if kind == "system":
            chat.thread.head += chat.make.content(line.get("content"), "system").parts
            chat.ledger.used += 1
        elif kind == "reasoning":
            parts = [chat.make.text("reasoning", plain(line.get("summary")), str(line.get("id")))]
            chat.said(ordinal, parts, [])
        elif kind == "assistant":
            contents = chat.make.message({"role": "assistant", **line})
            chat.model = text_of(line.get("model_id")) or chat.model
            chat.said(ordinal, contents.parts, contents.tools)
        elif kind == "backend_tool_call":
            # Run by the provider inside the call: part of its answer.
            call = as_dict(line.get("kind"))
            name = text_of(call.get("tool_type")) or ""
            chat.said(ordinal, [chat.make.call(name, call.get("action"), call.get("id"))], [name])
        elif kind == "tool_result":
            chat.given(chat.make.result(line.get("content"), line.get("tool_call_id")), None, "tool")
        else:
            chat.given(chat.make.content(line.get("content"), "user").parts)
    yield from chat.records(context)
