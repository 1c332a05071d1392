"""Goose sessions: sessions.db (SQLite), an exported session, the older JSON Lines, and `goose run`'s stream-json.

Facts: block/goose, crates/goose/src/session and src/context_mgmt. A message is stored whole, a streamed one in chunks
of one id. There is no usage of single calls, only running totals of a session (`input_tokens` includes cached tokens):
prompts are derived, their lengths are the tokenizer's. A compaction makes all messages so far invisible to the agent
and adds a summary and a canned answer that only the agent sees; what it hid was in the prompts before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Note, Record
from traces.source.database import MAGIC, BadDatabase, Database, tables
from traces.source.sources import parse_json
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import Contents, PartMaker, as_dict, as_list, kind_of, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "goose"
SUMMARY = {
    "carries": "sessions, sub-agents, messages, tool calls and results, times; totals of tokens for a session",
    "time": "wall clock (s since the epoch)",
    "computes": "achievable hit rates of what is visible, at the tokenizer's lengths",
    "notes": "no usage of single calls: where a session's total is logged, input tokens of calls are unknown; system "
    "prompt and tools are not logged",
}


def sniff(head: Any, name: str) -> float:
    """Sure of the database's own columns, and of messages in its shape."""
    if head.start.startswith(MAGIC):
        known = tables(head)
        return 0.95 if "content_json" in known.get("messages", "") and "sessions" in known else 0.0
    value = opening(head)
    if isinstance(value, dict) and "working_dir" in value and isinstance(value.get("conversation"), list):
        return 0.95
    records = [r for r in head.records if isinstance(r, dict)]
    if not records:
        return 0.0
    first = records[0]
    if "working_dir" in first and ("accumulated_total_tokens" in first or "message_count" in first):
        return 0.95
    streamed = [r for r in records if r.get("type") == "message" and isinstance(r.get("message"), dict)]
    if streamed and all(kind_of(r) in ("message", "complete", "error", "notification") for r in records):
        return 0.85 if "created" in streamed[0]["message"] or "id" in streamed[0]["message"] else 0.0
    return 0.6 if "created" in first and "role" in first and isinstance(first.get("content"), list) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield sessions and their requests."""
    ledger = Ledger(context.meanings)
    sessions = _Sessions(PartMaker(context, exact=True), ledger)
    if source.head().start.startswith(MAGIC):
        yield from _database(source, sessions, ledger)
    else:
        key = text_of(as_dict(opening(source.head())).get("id")) or "main"
        for number, line in objects(source, ledger):
            if isinstance(line.get("conversation"), list):
                own = text_of(line.get("id")) or ("main" if number == 1 else f"main-{number}")
                sessions.about(own, {**line, "id": own})
                for value in line["conversation"]:
                    message = as_dict(value)
                    sessions.message(own, message, text_of(message.get("id")))
            elif "working_dir" in line or line.get("type") == "complete":
                sessions.about(key, {**line, "id": key})
            elif kind_of(line) in ("", "message"):
                message = as_dict(line.get("message")) or line
                sessions.message(key, message, text_of(message.get("id")))
            else:
                ledger.ignore("an event that is no message")
    yield from records_of(sessions.end(), context, ledger, reports_usage=bool(sessions.stated))
    if sessions.stated:
        yield Note(f"goose: the sessions' own total of input tokens is {sessions.stated:,}; those of calls are unknown")


_NOTICES = {
    "systemNotification",
    "toolConfirmationRequest",
    "actionRequired",
    "contextLengthExceeded",
    "summarizationRequested",
    "conversationCompacted",
}
"""Content that is shown to a person and sent to no model."""


_TOTALS = ("input_tokens", "output_tokens", "total_tokens")


class _Sessions:
    def __init__(self, make: PartMaker, ledger: Ledger) -> None:
        self.make, self.ledger = make, ledger
        self.threads: dict[str, Thread] = {}
        self.models: dict[str, str | None] = {}
        self.open: dict[str, tuple[str | None, int]] = {}
        self.ordinal = self.stated = 0

    def _thread(self, key: str) -> Thread:
        return self.threads.setdefault(key, Thread(key, NAME))

    def about(self, key: str, row: dict[str, Any]) -> None:
        """Take what the log says of a session as a whole."""
        thread = self._thread(key)
        parent = text_of(row.get("parent_session_id"))
        if parent or row.get("session_type") == "sub_agent":
            thread.role, thread.parent_key = "subagent", parent
        thread.started_s = seconds(row.get("created_at")) or thread.started_s
        config = row.get("model_config_json")
        try:
            model = as_dict(parse_json(config.encode())).get("model_name") if isinstance(config, str) else None
        except (ValueError, UnicodeEncodeError):
            model = None
        self.models[key] = text_of(model)
        total = row.get("accumulated_input_tokens", row.get("input_tokens"))
        self.stated += total if isinstance(total, int) else 0
        self.ledger.totals({name: row.get(f"accumulated_{name}", row.get(name)) for name in _TOTALS})
        self.ledger.used += 1

    def message(self, key: str, message: dict[str, Any], name: str | None) -> None:
        """Take the next message of a session, or the next chunk of one."""
        self.ordinal += 1
        thread, at_s = self._thread(key), seconds(message.get("created") or message.get("created_timestamp"))
        contents = self._contents(message)
        about = as_dict(message.get("metadata"))
        seen, shown = about.get("agentVisible") is not False, about.get("userVisible") is not False
        if not contents.parts or not (seen or shown):
            self.ledger.ignore("a message that is in no prompt")  # a notice, or one that was sent again elsewhere
            return
        self.ledger.used += 1
        if not shown:  # a compaction's: the summary, then an answer that no model gave
            self._close(key)
            if message.get("role") == "assistant":
                thread.add_input(contents.parts, at_s)
            else:
                thread.restart([part._replace(role="summary") for part in contents.parts])
            return
        if message.get("role") == "assistant":
            if key in self.open and (name is None or self.open[key][0] != name):
                self._close(key)
            self.open.setdefault(key, (name, self.ordinal))
            thread.add_reply(contents.parts, contents.tools, at_s)
            return
        self._close(key)
        thread.add_input(contents.parts, at_s, "tool" if contents.results else "user")

    def _contents(self, message: dict[str, Any]) -> Contents:
        blocks = []
        for value in as_list(message.get("content")):
            block = as_dict(value)
            if kind_of(block) in _NOTICES:
                continue
            call, result = as_dict(block.get("toolCall")), as_dict(block.get("toolResult"))
            if block.get("type") == "toolRequest":
                given = as_dict(call.get("value")) or call
                # Tools are named extension__tool.
                tool = str(given.get("name")).rpartition("__")[2]
                block = {"type": "tool_use", "id": block.get("id"), "name": tool, "input": given.get("arguments")}
            elif block.get("type") == "toolResponse":
                body = result.get("value", result.get("error"))
                body = as_dict(body).get("content", body)
                block = {"type": "tool_result", "tool_use_id": block.get("id"), "content": body}
            blocks.append(block)
        role = "assistant" if message.get("role") == "assistant" else "user"
        return self.make.content(blocks, role)

    def _close(self, key: str) -> None:
        if key in self.open:
            _, ordinal = self.open.pop(key)
            self._thread(key).close(f"{key}:{ordinal}", ordinal, model=self.models.get(key))

    def end(self) -> list[Thread]:
        """No more messages."""
        for key in list(self.open):
            self._close(key)
        return list(self.threads.values())


def _database(source: Source, sessions: _Sessions, ledger: Ledger) -> Iterator[Note]:
    try:
        with Database(source) as base:
            for row in base.rows("sessions", "id"):
                sessions.about(str(row["id"]), row)
            for row in base.rows("messages", "session_id, rowid"):
                try:
                    content = parse_json(str(row.get("content_json") or "[]").encode())
                    about = parse_json(str(row.get("metadata_json") or "{}").encode())
                except (ValueError, UnicodeEncodeError) as error:
                    ledger.reject(0, str(error))
                    continue
                message = {**row, "content": content, "metadata": about}
                sessions.message(str(row.get("session_id")), message, text_of(row.get("message_id")))
            unread = base.unread("sessions", "messages")
            if unread:
                yield Note(f"goose: {unread}")
    except BadDatabase as error:
        ledger.reject(0, str(error))
