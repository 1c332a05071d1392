"""What `claude -p --output-format stream-json` prints: events, one a line or in one JSON array.

Facts: @anthropic-ai/claude-agent-sdk, sdk.d.ts. The lines of one answer share `message.id` and the last usage counts.
`parent_tool_use_id` names the call that started a sub-agent. The system prompt and tool schemas are not printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import PartMaker, as_dict, as_list, kind_of, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread, Turn
from traces.usage.passes import passes

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "claude_code_stream_json"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "sessions, sub-agents, messages, tool calls, usage with cache reads and writes",
    "time": "wall clock where events have it, else none",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "system prompt and tool schemas are not printed: prompts start with an unobserved head",
}


def sniff(head: Any, name: str) -> float:
    """Sure of an init event, or of messages with the stream's own session_id."""
    for event in head.records:
        if not isinstance(event, dict):
            continue
        if event.get("type") == "system" and event.get("subtype") == "init" and "session_id" in event:
            return 0.95
        if kind_of(event) in ("assistant", "user") and "session_id" in event and isinstance(event.get("message"), dict):
            return 0.9
        if event.get("type") == "result" and "session_id" in event and "num_turns" in event:
            return 0.8
    return 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the sessions and their requests."""
    ledger = Ledger(context.meanings)
    stream = _Stream(PartMaker(context), ledger)
    for ordinal, event in objects(source, ledger):
        stream.event(ordinal, event)
    yield from records_of(list(stream.threads.values()), context, ledger, reports_usage=True)


class _Stream:
    def __init__(self, make: PartMaker, ledger: Ledger) -> None:
        self.make, self.ledger = make, ledger
        self.threads: dict[str, Thread] = {}
        self.turns: dict[str, Turn] = {}
        self.calls: dict[str, Turn] = {}
        self.session = ""
        self.version: str | None = None

    def event(self, ordinal: int, event: dict[str, Any]) -> None:
        """Take the next event."""
        kind, at_s = kind_of(event), seconds(event.get("timestamp"))
        self.session = text_of(event.get("session_id")) or self.session
        if kind == "system":
            self.version = text_of(event.get("claude_code_version")) or self.version
            if event.get("subtype") == "compact_boundary":
                self._thread(None).restart([])
            self.ledger.ignore("a notice")
            return
        if kind not in ("assistant", "user"):
            self.ledger.ignore("a result or a notice")
            return
        self.ledger.used += 1
        thread = self._thread(text_of(event.get("parent_tool_use_id")))
        message = as_dict(event.get("message"))
        contents = self.make.content(message.get("content"), "assistant" if kind == "assistant" else "user")
        if kind == "user":
            thread.add_input(contents.parts, at_s, "tool" if contents.results else "user")
            return
        self._answer(ordinal, thread, message, contents.parts, contents.tools, at_s)

    def _thread(self, call: str | None) -> Thread:
        key = self.session if call is None else f"{self.session}/{call}"
        thread = self.threads.get(key)
        if thread is None:
            role, parent = ("main", None) if call is None else ("subagent", self.session)
            turn = self.calls.get(call or "")
            # The same agent as in transcripts: its head is the same.
            thread = Thread(key, "claude_code", self.version, role, parent_key=parent, spawn=turn)
            self.threads[key] = thread
        return thread

    def _answer(
        self,
        ordinal: int,
        thread: Thread,
        message: dict[str, Any],
        parts: list[Any],
        tools: list[str],
        at_s: float | None,
    ) -> None:
        usage = self.ledger.usage(ordinal, message.get("usage"), "anthropic")
        name = text_of(message.get("id"))
        stop = text_of(message.get("stop_reason"))
        turn = self.turns.get(name or "")
        if turn is None:
            thread.add_reply(parts, tools, at_s)
            turn = thread.close(f"{thread.key}:{ordinal}", ordinal, at_s, dedupe_key=name)
            turn.thread.time_basis = "wall" if at_s is not None else "none"
        else:
            known = {part.key for part in turn.reply}
            turn.reply += [part for part in parts if part.key not in known]
            turn.tools += tools
        if usage is not None:
            turn.usage, turn.passes = usage, passes(message.get("usage"))
        turn.model = text_of(message.get("model")) or turn.model
        turn.stop_reason = stop or turn.stop_reason
        turn.output_complete = turn.stop_reason is not None
        if name:
            self.turns[name] = turn
        for block in as_list(message.get("content")):
            if as_dict(block).get("type") == "tool_use":
                self.calls[str(as_dict(block).get("id"))] = turn
