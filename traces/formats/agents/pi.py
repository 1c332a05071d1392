"""pi coding agent sessions (JSONL under ~/.pi/agent/sessions), and those of OpenClaw and Command Code, which are alike.

Facts: badlogic/pi-mono, packages/coding-agent/src/core/session-manager.ts. pi sends its system prompt and tools (not
logged), then every message of the branch that ends at the newest entry, reasoning included. A compaction puts a summary
in the place of what lies before its first kept entry. `usage.input` excludes cached tokens. Answers that failed or were
aborted are sent back by the versions that wrote sessions below version 3 (the provider's counts of shared sessions show
it) and by none since (packages/ai, transform-messages.ts). Command Code (~/.commandcode/projects) has model and usage
beside the message; its `inputTokens` includes cached tokens. Earlier versions of it have no usage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import Part, PartMaker, as_dict, dump, kind_of, plain, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Branches, Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "pi"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "sessions, branches, compactions, messages, tool calls, usage with cache reads and writes, times",
    "time": "wall clock (ISO 8601)",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "OpenClaw's and Command Code's sessions too. System prompt and tools are not logged: prompts start with "
    "an unobserved head",
}
_SESSION_TYPES = {"model_change", "thinking_level_change", "compaction", "branch_summary", "custom", "session_info"}


def sniff(head: Any, name: str) -> float:
    """Sure of a session line followed by messages in pi's envelope."""
    records = [record for record in head.records if isinstance(record, dict)]
    if records and all(_is_bare(record) for record in records):
        return 0.9 if any("gitBranch" in record for record in records) else 0.6
    if not records or records[0].get("type") != "session" or "id" not in records[0]:
        return 0.0
    if "thinkingLevel" in records[0] or any(kind_of(record) in _SESSION_TYPES for record in records):
        return 0.95
    return 0.9 if "version" in records[0] and "cwd" in records[0] else 0.6


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests, then what became of the other lines."""
    ledger = Ledger(context.meanings)
    session = _Session(context, ledger)
    for ordinal, entry in objects(source, ledger):
        session.entry(ordinal, entry)
    yield from records_of([session.thread], context, ledger, reports_usage=True)


class _Session:
    def __init__(self, context: Context, ledger: Ledger) -> None:
        self.ledger = ledger
        self.digest = context.digest
        self.make = PartMaker(context)
        self.thread = Thread("", NAME)
        self.branches = Branches(self.thread)
        self.entries: list[tuple[object, list[Part]]] = []
        self.model: str | None = None
        self.responses: set[str] = set()
        self.branched = False
        self.drops_aborted = False

    def entry(self, ordinal: int, entry: dict[str, Any]) -> None:
        """Take the next entry."""
        if _is_bare(entry):
            self.thread.key = self.thread.key or str(entry["sessionId"])
            self.thread.agent = "command_code"
            message = {**entry, "responseId": entry.get("id")}
            entry = {"type": "message", "id": entry.get("id"), "timestamp": entry["timestamp"], "message": message}
        kind, at_s = kind_of(entry), seconds(entry.get("timestamp"))
        if kind == "session" and not self.entries:
            self.thread.key = text_of(entry.get("id")) or ""
            self.thread.started_s = at_s
            self.model = text_of(entry.get("modelId"))
            version = entry.get("version")
            self.drops_aborted = isinstance(version, int) and version >= 3
            self.branched = bool(entry.get("branchedFrom") or entry.get("parentSession"))
            self.entries.append((None, []))
            self.ledger.used += 1
            return
        self.branches.enter(entry.get("parentId"))
        parts: list[Part] = []
        if kind == "message":
            message = as_dict(entry.get("message"))
            if message.get("role") == "assistant":
                if "usage" in entry:  # beside the message: Command Code
                    self.thread.agent = "command_code"
                    message = {"usage": entry["usage"], "model": entry.get("model"), **message}
                parts = self._answer(ordinal, message, at_s)
            else:
                parts = self._input(message, at_s)
            self.ledger.used += 1
        elif kind == "custom_message":
            parts = self.make.content(entry.get("content"), "user").parts
            self.thread.add_input(parts, at_s, "user")
            self.ledger.used += 1
            if str(entry.get("customType")).startswith("openclaw"):
                self.thread.agent = "openclaw"
        elif kind == "compaction":
            kept = entry.get("firstKeptEntryId")
            ids = [name for name, _ in self.entries]
            place = ids.index(kept) if kept in ids else entry.get("firstKeptEntryIndex")
            summary = self.make.text("summary", plain(entry.get("summary")))
            start = place if isinstance(place, int) and 0 <= place <= len(self.entries) else len(self.entries)
            self.thread.restart([summary, *(part for _, ps in self.entries[start:] for part in ps)])
            self.ledger.used += 1
        elif kind == "branch_summary":
            parts = [self.make.text("summary", plain(entry.get("summary")))]
            self.thread.add_input(parts, at_s, "user")
            self.ledger.used += 1
        else:
            if kind == "model_change":
                self.model = text_of(entry.get("modelId")) or self.model
            self.ledger.ignore("entry that is no part of a prompt")
        self.entries.append((entry.get("id"), parts))
        self.branches.leave(entry.get("id"))

    def _input(self, message: dict[str, Any], at_s: float | None) -> list[Part]:
        if message.get("role") == "toolResult":
            parts = self.make.result(message.get("content"), message.get("toolCallId"))
            self.thread.add_input(parts, at_s, "tool")
        elif message.get("role") == "bashExecution":  # a command that the person ran, shown to the model
            parts = [self.make.text("user", f"{message.get('command')}\n{plain(message.get('output'))}")]
            self.thread.add_input(parts, at_s, "user")
        else:
            contents = self.make.content(message.get("content"), "user")
            parts = contents.parts
            self.thread.add_input(parts, at_s, "tool" if contents.results else "user")
        return parts

    def _answer(self, ordinal: int, message: dict[str, Any], at_s: float | None) -> list[Part]:
        contents = self.make.content(message.get("content"), "assistant")
        outside = False if self.thread.agent == "command_code" else None
        usage = self.ledger.usage(ordinal, message.get("usage"), disjoint=outside)
        before, inputs, trigger = self.thread.parent, self.thread.inputs, self.thread.trigger
        self.thread.add_reply(contents.parts, contents.tools, at_s)
        stop = text_of(message.get("stopReason"))
        response = text_of(message.get("responseId")) or text_of(as_dict(message.get("meta")).get("messageId"))
        # A branched session starts with copies of its parent's messages, which keep the provider's id and their times.
        own = f"{message['timestamp']}:{response}:{dump(message.get('usage'))}" if "timestamp" in message else None
        if response and response not in self.responses:  # some local servers give every answer the same id
            own = response
            self.responses.add(response)
        self.thread.close(
            f"{self.thread.key}:{ordinal}",
            ordinal,
            at_s,
            usage=usage,
            model=text_of(message.get("model")) or self.model,
            stop_reason=stop,
            output_complete=False if stop in ("aborted", "error") else None,
            status=stop if stop in ("aborted", "error") else None,
            dedupe_key=None if own is None else f"pi:{self.digest(own)}",
            copy_rank=(self.branched, self.thread.started_s or 0.0),
        )
        if self.drops_aborted and stop in ("aborted", "error"):
            self.thread.rewind(before)
            self.thread.inputs, self.thread.trigger = list(inputs), trigger
            return []
        return contents.parts


def _is_bare(entry: dict[str, Any]) -> bool:
    """Whether an entry is a message without an envelope, as earlier versions of Command Code wrote them."""
    return {"sessionId", "timestamp", "role", "content"} <= entry.keys() and not {"type", "uuid"} & entry.keys()
