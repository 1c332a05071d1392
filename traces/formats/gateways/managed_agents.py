"""Event streams of Anthropic's managed agents, one [method, payload] a line, as LangSmith's wrapper records them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls.entries import Entry
from traces.calls.history import History
from traces.calls.model_calls import Call, Calls, text_of, trigger
from traces.records import Context, Piece, Record, Reject, Request, Session, Skipped
from traces.source.logged_times import first_moment
from traces.source.sources import Head, Source, parse_json
from traces.text.tools import classify
from traces.usage.rules import normalise

NAME = "managed_agents"
SUMMARY = {
    "carries": "usage per model call, messages, tool calls, times; the system prompt, not the tools as they were sent",
    "time": "wall",
    "computes": "hit rates inside a session, lengths, reported cache figures",
    "notes": "tools are sized by what the first call holds beyond its messages",
}


def sniff(head: Head, name: str) -> float:
    """Sure where lines are pairs of a method of the managed-agents API and its payload."""
    first = head.first_line
    return 0.95 if first.startswith(b'["client.') and b"sessions." in first[:60] else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the model calls in the order of the events."""
    stream = _Stream(context)
    for ordinal, line in source.lines():
        if line is None:
            yield Reject(ordinal, "a line too long to be held")
        elif line.strip():
            try:
                yield from stream.take(ordinal, parse_json(line))
            except (ValueError, RecursionError) as error:
                yield Reject(ordinal, str(error)[:120] if isinstance(error, ValueError) else "nested too deeply")


class _Stream:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context)
        self.history: History = self.calls.history
        self.digest = context.digest
        self.session: str | None = None
        self.agent: Mapping[str, Any] = {}
        self.head: Piece | None = None
        self.sent: list[Entry] = []  # what the next call is sent
        self.reply: list[Entry] = []  # what the running call has said
        self.started: dict[str, float | None] = {}

    def take(self, ordinal: int, value: Any) -> Iterator[Record]:
        """Take one event; the end of a model call is a request."""
        payload = value[1] if isinstance(value, list) and len(value) == 2 else None
        kind = text_of(payload, "type")
        if not isinstance(value, list):
            yield Reject(ordinal, "no pair of a method and its payload")
        elif isinstance(payload, dict) and kind == "span.model_request_end":
            yield from self._ended(ordinal, payload)
        else:
            if isinstance(payload, dict):
                yield from self._noted(kind or "", payload)
            yield Skipped("ignored", 1, "no model call", ordinal)

    def _noted(self, kind: str, payload: Mapping[str, Any]) -> Iterator[Record]:
        entry = self.calls.entries.message
        if kind == "session":
            agent = payload.get("agent")
            self.agent = agent if isinstance(agent, dict) else {}
            self.session = text_of(payload, "id")
            self.sent, self.head = [], None
            system = text_of(self.agent, "system")
            if system is not None:
                self.sent.append(self.calls.entries.system(system))
            if self.session is not None:
                yield Session(self.session, role="main", agent=text_of(self.agent, "name"))
        elif kind == "span.model_request_start":
            self.started[text_of(payload, "id") or ""] = first_moment(payload, "processed_at")
            self.sent += self.reply
            self.reply = []
        elif kind == "user.message":
            self.sent += self.reply
            self.reply = []
            self.sent.append(entry({"role": "user", "content": payload.get("content")}))
        elif kind == "agent.message":
            self.reply.append(entry({"role": "assistant", "content": payload.get("content")}))
        elif kind in ("agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"):
            call = {"type": "tool_use", "name": payload.get("name"), "input": payload.get("input")}
            self.reply.append(entry({"role": "assistant", "content": [call]}))
        elif kind.endswith("tool_result"):
            self.reply.append(
                entry({"role": "user", "content": [{"type": "tool_result", "content": payload.get("content")}]})
            )

    def _ended(self, ordinal: int, payload: Mapping[str, Any]) -> Iterator[Record]:
        usage = payload.get("model_usage")
        counted = normalise(usage if isinstance(usage, dict) else None)
        if payload.get("is_error") is True and not counted.output_tokens:
            yield Skipped("failed_attempt", 1, "a model call that failed", ordinal)
            return
        began = self.started.get(text_of(payload, "model_request_start_id") or "")
        ended = first_moment(payload, "processed_at")
        model = text_of(self.agent.get("model"), "id")
        if self.head is None and counted.input_tokens is not None:
            seen = sum(entry.tokens for entry in self.sent)
            name = f"{self.agent.get('id')} {self.agent.get('version')}"
            self.head = Piece(self.digest(f"tools of {name}"), max(0, counted.input_tokens - seen), "unobserved")
        request: Request = self.calls.request(
            Call(
                key=str(ordinal),
                ordinal=ordinal,
                session=self.session,
                usage=usage,
                model=model,
                arrival_s=began if began is not None else ended,
                duration_s=ended - began if ended is not None and began is not None else None,
                identity=text_of(payload, "id"),
            )
        )
        logged = self.history.add(request.key, self.sent, counted.input_tokens, (), None, model, self.head, guess=True)
        work, classes = self._work()
        yield request._replace(
            prompt=logged.prompt, trigger=trigger(self.sent), work=work, tool_classes=classes, output_complete=True
        )

    def _work(self) -> tuple[str, tuple[str, ...]]:
        return classify(name for entry in self.reply for name in entry.calls)
