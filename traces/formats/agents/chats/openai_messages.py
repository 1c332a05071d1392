"""Chat transcripts, one a row: SWE-smith, SWE-Gym and other training sets (JSONL or Parquet), nebius SWE-agent too.

A row is the final transcript: `messages` (a list, or its JSON as text) or `trajectory` with roles system, ai, user.
Each answer is one call; its prompt is derived: the messages before it. An agent that shortened its history sent less.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record, Request
from traces.source.sources import parse_json
from traces.text.blocks import ROLE_OF
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import PartMaker, as_dict, text_of
from traces.transcripts.requests import requests_of
from traces.transcripts.turns import Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "openai_messages"
SUMMARY = {
    "carries": "messages and tool calls",
    "time": "none",
    "computes": "achievable hit rates; lengths are the tokenizer's",
    "notes": "prompts are derived: all messages before an answer; no usage, no times",
}
_COLUMNS = ("messages", "trajectory", "conversations")
_LOGGED = {
    "response",
    "usage",
    "choices",
    "request",
    "completion",
    "timestamp",
    "hash_ids",
    "resourceSpans",
    "ts",
    "start_time",
    "logical_id",
    "request_id",
    "input_tokens",
    "prompt_tokens",
}


def sniff(head: Any, name: str) -> float:
    """Fairly sure of rows that hold a transcript and nothing that was logged with a call."""
    value = opening(head)
    if not isinstance(value, dict) or _LOGGED & value.keys():
        return 0.0
    messages = _messages(value)
    if not messages or not all(isinstance(m, dict) and ("role" in m or "from" in m) for m in messages):
        return 0.0
    return 0.65 if any(_role(m) == "assistant" for m in messages) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield a session for each row, and its requests."""
    ledger, count, ordinal = Ledger(), 0, 0
    make = PartMaker(context, exact=True)
    for number, row in objects(source, ledger):
        messages = _messages(row)
        if messages is None:
            ledger.reject(number, "a row without a list of messages")
            continue
        thread = Thread(f"row-{number}", NAME, hidden_head=False, time_basis="none")
        model = text_of(row.get("model")) or text_of(row.get("model_name"))
        thread.head = make.tools(row.get("tools"))
        for message in messages:
            ordinal += 1
            if not isinstance(message, dict):
                ledger.reject(ordinal, "a message that is no JSON object")
                continue
            ledger.used += 1
            message = {**message, "role": _role(message), "content": _content(message)}
            contents = make.message(message)
            if message["role"] == "assistant":
                thread.add_reply(contents.parts, contents.tools)
                thread.close(f"{number}:{ordinal}", ordinal, model=model)
            else:
                thread.add_input(contents.parts, None, "tool" if contents.results or thread.turns else "user")
        for record in requests_of([thread], context):
            count += isinstance(record, Request)
            yield record
    yield from ledger.finish(count)


def _messages(row: dict[str, Any]) -> list[Any] | None:
    found = next((row[name] for name in _COLUMNS if row.get(name) is not None), None)
    if isinstance(found, str) and found[:1] == "[":
        try:
            found = parse_json(found.encode())
        except (ValueError, UnicodeEncodeError):
            return None
    return found if isinstance(found, list) else None


def _role(message: dict[str, Any]) -> str:
    role = str(message.get("role") or message.get("from"))
    role = {"gpt": "assistant", "human": "user"}.get(role, role)
    return "assistant" if ROLE_OF.get(role) == "assistant" else role


def _content(message: dict[str, Any]) -> Any:
    """The text, wherever it is: nebius keeps the system prompt apart from `text`."""
    for name in ("content", "text", "value", "system_prompt"):
        if message.get(name) is not None:
            return message[name]
    return as_dict(message).get("parts")
