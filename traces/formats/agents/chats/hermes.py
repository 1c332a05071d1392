"""Hermes agent sessions (JSON): system prompt, tool schemas and OpenAI messages of one session.

There is no usage; the session's start is the only time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.chats.plain_chats import Chat
from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import as_dict, as_list, kind_of, seconds, text_of

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "hermes"
SUMMARY = {
    "carries": "system prompt, tool schemas, messages, tool calls and results",
    "time": "none (the start of the session only)",
    "computes": "achievable hit rates; lengths are the tokenizer's",
    "notes": "prompts are derived: all messages before an answer; no usage",
}


def sniff(head: Any, name: str) -> float:
    """Sure of the session's own header beside its messages."""
    value = opening(head)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return 0.0
    return 0.9 if "session_id" in value and ("session_start" in value or "system_prompt" in value) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    rest = Ledger()
    for number, whole in objects(source, rest):
        yield from _session(whole, "main" if number == 1 else f"main-{number}", context)
    yield from rest.finish(0)


def _session(whole: dict[str, Any], name: str, context: Context) -> Iterator[Record]:
    chat = Chat(NAME, context, time_basis="none")
    chat.thread.key = text_of(whole.get("session_id")) or name
    chat.thread.started_s = seconds(whole.get("session_start"))
    chat.thread.hidden_head = not (whole.get("system_prompt") and whole.get("tools"))
    chat.thread.head = chat.make.tools(whole.get("tools"))
    chat.thread.head += chat.make.content(whole.get("system_prompt"), "system").parts
    chat.model = text_of(whole.get("model"))
    for ordinal, value in enumerate(as_list(whole.get("messages")), 1):
        message = as_dict(value)
        if kind_of(message, "role") not in ("user", "assistant", "tool", "system"):
            chat.ledger.ignore("a message of another kind")
            continue
        contents = chat.make.message(message)
        if message["role"] == "assistant":
            chat.said(ordinal, contents.parts, contents.tools)
            chat.close()
        else:
            chat.given(contents.parts, None, "tool" if contents.results else "user")
    yield from chat.records(context)
