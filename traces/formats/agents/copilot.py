"""GitHub Copilot CLI sessions (events.jsonl).

Facts: recorded by the CLI's own event log. Each `assistant.message` is one answer (its chunks share `messageId`) with
its output tokens. Input tokens are only logged as totals at `session.shutdown`, by model (`modelMetrics`), by kind
(`tokenDetails`) or both; a resumed session has one shutdown for each time it ran. Sub-agents' messages name the tool
call that started them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Note, Record
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import PartMaker, as_dict, as_list, kind_of, plain, seconds, text_of, tokens_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread, Turn
from traces.usage.rules import Usage

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "copilot"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "sessions, sub-agents, messages, tool calls and results, output tokens, times; session totals",
    "time": "wall clock (ISO 8601)",
    "computes": "achievable hit rates of what is visible, at the tokenizer's lengths",
    "notes": "input tokens are only logged for a whole session; system prompt and tools are not logged",
}
_STARTS = ("session.", "user.", "assistant.", "tool.", "hook.", "system.", "subagent.", "abort")


def sniff(head: Any, name: str) -> float:
    """Sure of dotted event types with data, an id and a parent."""
    for record in head.records:
        dotted = isinstance(record, dict) and str(record.get("type")).startswith(_STARTS)
        if dotted and isinstance(record.get("data"), dict) and "parentId" in record:
            return 0.95
    return 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session, its sub-agents and their requests."""
    ledger = Ledger(context.meanings)
    session = _Session(PartMaker(context), ledger)
    for ordinal, line in objects(source, ledger):
        session.line(ordinal, line)
    yield from records_of([session.main, *session.agents.values()], context, ledger)
    if session.totals:
        totals = ", ".join(f"{name} {tokens:,}" for name, tokens in session.totals.items())
        yield Note(f"copilot: the session's own totals: {totals}")


class _Session:
    def __init__(self, make: PartMaker, ledger: Ledger) -> None:
        self.make, self.ledger = make, ledger
        self.main = Thread("", NAME)
        self.agents: dict[str, Thread] = {}
        self.calls: dict[str, Turn] = {}
        self.messages: dict[str, Turn] = {}
        self.model: str | None = None
        self.totals: Counter[str] = Counter()
        self.output = 0  # tokens of the answers so far

    def line(self, ordinal: int, line: dict[str, Any]) -> None:
        kind, data, at_s = kind_of(line), as_dict(line.get("data")), seconds(line.get("timestamp"))
        thread = self._thread(text_of(data.get("parentToolCallId")))
        self.ledger.used += 1
        if kind == "session.start":
            thread.key = text_of(data.get("sessionId")) or ""
            thread.version, thread.started_s = text_of(data.get("copilotVersion")), at_s
            self.model = text_of(data.get("selectedModel"))
        elif kind == "session.model_change":
            self.model = text_of(data.get("newModel")) or self.model
        elif kind == "user.message":
            text = data.get("transformedContent") or data.get("content")
            thread.add_input(self.make.content(text, "user").parts, at_s, "user")
        elif kind == "assistant.reasoning":
            thread.add_reply([self.make.text("reasoning", plain(data.get("content")))], [], at_s)
        elif kind == "assistant.message":
            self._answer(ordinal, thread, data, at_s)
        elif kind == "tool.execution_complete":
            body = as_dict(data.get("result")).get("content", data.get("error"))
            thread.add_input(self.make.result(body, data.get("toolCallId")), at_s, "tool")
        elif kind in ("session.truncation", "session.compaction_complete"):
            thread.compaction = True
        elif kind == "session.shutdown":
            totals = _totals(data, self.ledger)
            if self.totals and totals["output"] == self.output > 0:
                self.totals.clear()  # this one covers the earlier runs too
            self.totals.update(totals)
        else:
            self.ledger.used -= 1
            (self.ledger.failed if kind == "session.error" else self.ledger.ignore)("an event that is no message")

    def _thread(self, call: str | None) -> Thread:
        if call is None:
            return self.main
        thread = self.agents.get(call)
        if thread is None:
            turn = self.calls.get(call)
            key = f"{self.main.key}/{call}"
            thread = Thread(key, NAME, self.main.version, "subagent", parent_key=self.main.key, spawn=turn)
            self.agents[call] = thread
        return thread

    def _answer(self, ordinal: int, thread: Thread, data: dict[str, Any], at_s: float | None) -> None:
        message = {"role": "assistant", "content": data.get("content"), "reasoning": data.get("reasoningText")}
        contents = self.make.message({**message, "tool_calls": [_call(c) for c in as_list(data.get("toolRequests"))]})
        name, output = text_of(data.get("messageId")), tokens_of(data.get("outputTokens"))
        self.output += output or 0
        known = self.messages.get(f"{thread.key}:{name}") if name and data.get("chunkCount") else None
        if known is not None:
            known.reply += contents.parts  # a further chunk of an answer
            known.tools += contents.tools
            return
        thread.add_reply(contents.parts, contents.tools, at_s)
        usage = Usage(output_tokens=output) if output else None
        turn = thread.close(
            f"{thread.key}:{ordinal}", ordinal, at_s, usage=usage, model=text_of(data.get("model")) or self.model
        )
        if name:
            self.messages[f"{thread.key}:{name}"] = turn
        for call in as_list(data.get("toolRequests")):
            self.calls[str(as_dict(call).get("toolCallId"))] = turn


_TOTALS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadTokens",
    "cache_write": "cacheWriteTokens",
}
"""Kinds of tokens in `tokenDetails`, and what `modelMetrics` calls them."""


def _totals(data: dict[str, Any], ledger: Ledger) -> Counter[str]:
    """Tokens by kind, as one shutdown has them."""
    metrics = as_dict(data.get("modelMetrics"))
    models = [as_dict(as_dict(model).get("usage")) for model in metrics.values()]
    details = as_dict(data.get("tokenDetails"))
    for name, usage in zip(metrics, models, strict=True):
        ledger.totals(usage, name)
    if not any(models):
        ledger.totals({f"{kind}_tokens": as_dict(one).get("tokenCount") for kind, one in details.items()})
    totals: Counter[str] = Counter()
    for kind, name in _TOTALS.items():
        found = [tokens_of(usage.get(name)) for usage in models] if any(models) else []
        found = found or [tokens_of(as_dict(details.get(kind)).get("tokenCount"))]
        if any(tokens is not None for tokens in found):
            totals[kind] = sum(tokens or 0 for tokens in found)
    return totals


def _call(value: object) -> dict[str, Any]:
    call = as_dict(value)
    return {"id": call.get("toolCallId"), "name": call.get("name"), "arguments": call.get("arguments")}
