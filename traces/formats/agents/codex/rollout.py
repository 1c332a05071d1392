"""OpenAI Codex CLI rollouts (JSONL, also .zst, under $CODEX_HOME/sessions).

Facts: openai/codex, codex-rs/protocol and codex-rs/rollout. Codex sends its base instructions, its tools and every
response item of the thread, reasoning (encrypted) included, so a prompt extends the one before it and its answer;
after a compaction `replacement_history` is the new start. `token_count` is re-sent with unchanged totals whenever rate
limits are refreshed, and forks begin with a copy of their parent's lines under new times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.codex.counts import Counters
from traces.formats.agents.codex.items import CALLS, RESULTS, parts_of, tool_of
from traces.records import Context, Note, Record, Session
from traces.source.sources import parse_json
from traces.transcripts.echoes import Echoes, Event
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import PartMaker, as_dict, as_list, dump, kind_of, plain, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread, Turn

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "codex"
SESSION_SCOPE = "dataset"
SIBLINGS = True
SUMMARY = {
    "carries": "sessions, sub-agents, forks, messages, tool calls, usage with cache reads, base instructions, times",
    "time": "wall clock (ISO 8601)",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "built-in tool schemas and encrypted reasoning are not logged: they are unobserved. Repeated counters are "
    "counted once; a fork's copy of its parent belongs to the parent",
}

_SPEAKERS = {
    "user_message": "user",
    "agent_message": "assistant",
    "agent_reasoning": "reasoning",
    "UserMessage": "user",
    "AgentMessage": "assistant",
    "Reasoning": "reasoning",
}
"""Events (and items of `item_completed` events) that show a message to a person, and who speaks."""

_BOUNDARIES = {"task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted"}


def sniff(head: Any, name: str) -> float:
    """Sure of a session_meta line, and of the envelope of time, type and payload."""
    best = 0.0
    for record in head.records:
        if isinstance(record, dict) and isinstance(record.get("payload"), dict) and "timestamp" in record:
            kind = kind_of(record)
            if kind == "session_meta":
                return 0.97
            if kind in ("turn_context", "response_item", "event_msg", "compacted", "token_usage_record"):
                best = 0.9
    return best


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests, then what became of the other lines."""
    ledger = Ledger()
    rollout = _Rollout(source, context, ledger)
    for ordinal, line in objects(source, ledger):
        rollout.line(ordinal, line)
    rollout.end()
    yield from rollout.spawned
    yield from records_of([rollout.thread], context, ledger, reports_usage=True)
    if rollout.counters.difference:
        difference = rollout.counters.difference
        yield Note(f"codex: the source's own total differs from its calls' sum by {difference:,} tokens")


class _Rollout:
    def __init__(self, source: Source, context: Context, ledger: Ledger) -> None:
        self.source, self.ledger = source, ledger
        self.make = PartMaker(context)
        self.thread = Thread("", NAME)
        self.counters = Counters(context.meanings)
        self.family = ""
        self.metas: dict[str, str | None] = {}
        self.start_ordinal = 0
        self.model: str | None = None
        self.spawned: list[Session] = []
        self.echoes = Echoes(ledger)
        self.meta_used = False

    def line(self, ordinal: int, line: dict[str, Any]) -> None:
        payload, at_s = as_dict(line.get("payload")), seconds(line.get("timestamp"))
        kind = kind_of(line)
        if kind == "session_meta":
            self._meta(payload, at_s)
        elif kind == "turn_context":
            self.model = text_of(payload.get("model")) or self.model
            self.ledger.ignore("settings of a turn")
        elif kind == "response_item":
            self._item(ordinal, payload, at_s)
        elif kind == "token_usage_record":
            self._count(ordinal, payload.get("usage"), payload.get("thread_token_usage"), at_s, line, payload)
        elif kind == "event_msg":
            self._event(ordinal, payload, at_s, line)
        elif kind == "compacted":
            self.ledger.used += 1
            history = as_list(payload.get("replacement_history"))
            parts = [part for item in history for part in parts_of(as_dict(item), self.make)]
            if not parts:
                parts = [self.make.text("summary", plain(payload.get("message")))]
            self.thread.restart(parts)
        else:
            self.ledger.ignore("record of another kind")

    def _meta(self, payload: dict[str, Any], at_s: float | None) -> None:
        identity = text_of(payload.get("id"))
        source = as_dict(as_dict(payload.get("source")).get("subagent"))
        parent = text_of(payload.get("parent_thread_id")) or text_of(
            as_dict(source.get("thread_spawn")).get("parent_thread_id")
        )
        origin = text_of(payload.get("forked_from_id"))
        if identity:
            self.metas.setdefault(identity, origin or parent)
        thread = self.thread
        if self.meta_used:
            self.ledger.duplicate("a copy of another session's start")  # the first one is the file's identity
            return
        self.meta_used = True
        self.ledger.used += 1
        thread.key = identity or ""
        thread.version = text_of(payload.get("cli_version"))
        thread.started_s = seconds(payload.get("timestamp")) or at_s
        thread.forked_from = origin
        if isinstance(payload.get("source"), dict) and "subagent" in payload["source"]:
            thread.role, thread.parent_key = "subagent", parent
        start = payload.get("subagent_history_start_ordinal")
        self.start_ordinal = start if isinstance(start, int) and not isinstance(start, bool) else 0
        self.family = text_of(payload.get("session_id")) or self._root(identity, origin or parent)
        text = plain(payload.get("base_instructions"))
        thread.head = [self.make.text("tools", dump(tool)) for tool in as_list(payload.get("dynamic_tools"))]
        if text:
            thread.head.append(self.make.text("system", text))

    def _root(self, identity: str | None, parent: str | None) -> str:
        """The thread from which all forks descend, as far as the folder shows."""
        seen, root = {identity}, identity or ""
        while parent is not None and parent not in seen:
            seen.add(parent)
            root = parent
            place = next((s for n, s in self.source.siblings.items() if parent in n and s is not self.source), None)
            line = place.head().first_line if place is not None else b""
            try:
                meta = as_dict(as_dict(parse_json(line)).get("payload")) if line else {}
            except ValueError:
                meta = {}
            parent = text_of(meta.get("forked_from_id")) or text_of(meta.get("parent_thread_id"))
        return root

    def _item(self, ordinal: int, item: dict[str, Any], at_s: float | None) -> None:
        kind, thread = kind_of(item), self.thread
        if kind == "message" and item.get("role") != "assistant":
            self.echoes.message("user", item.get("content"))
            if thread.answered and not thread.after:
                self._close(ordinal, at_s)
            thread.add_input(parts_of(item, self.make), at_s, "user")
        elif kind in RESULTS or kind == "agent_message":
            thread.add_input(parts_of(item, self.make), at_s, "tool")
        elif kind in ("message", "reasoning", "compaction", "compaction_summary") or kind in CALLS:
            role = "reasoning" if kind == "reasoning" else "assistant"
            self.echoes.message(role, item.get("content"))
            if thread.after:
                self._close(ordinal, None)  # an answer after a result: the call before was never counted
            self._prompted()
            thread.add_reply(parts_of(item, self.make), [tool_of(item)] if kind in CALLS else [], at_s)
        else:
            self.ledger.ignore("no part of a prompt")
            return
        self.ledger.used += 1

    def _event(self, ordinal: int, event: dict[str, Any], at_s: float | None, line: dict[str, Any]) -> None:
        kind = kind_of(event)
        if kind == "token_count":
            info = as_dict(event.get("info"))
            last = info.get("last_token_usage")
            if last is None and "prompt" in info:
                last = {"input_tokens": info.get("prompt"), "output_tokens": info.get("completion")}
            self._count(ordinal, last, info.get("total_token_usage"), at_s, line, {})
        elif kind == "turn.completed" and isinstance(event.get("usage"), dict):
            self._count(ordinal, event["usage"], None, at_s, line, {})
        elif kind in _SPEAKERS:
            text = plain(event.get("message") or event.get("text"))
            self.echoes.event(Event(ordinal, _SPEAKERS[kind], text, at_s))
        elif kind == "item_completed" and kind_of(event.get("item")) in _SPEAKERS:
            item = as_dict(event.get("item"))
            text = plain(item.get("content", item.get("summary_text")))
            self.echoes.event(Event(ordinal, _SPEAKERS[kind_of(item)], text, at_s))
        elif kind in _BOUNDARIES:
            self._end_turn(ordinal)
            self.ledger.ignore("the start or end of a turn")
        elif kind == "thread_rolled_back":
            self._roll_back(event.get("num_turns"))
            self.ledger.used += 1
        elif kind in ("error", "stream_error"):
            self.ledger.failed("failed attempt")
        else:
            spawned, sender = text_of(event.get("new_thread_id")), text_of(event.get("sender_thread_id"))
            if kind == "collab_agent_spawn_end" and spawned:
                turn = self.thread.turns[-1].key if self.thread.turns else None
                self.spawned.append(Session(spawned, parent_key=sender, spawn_request_key=turn, role="subagent"))
            self.ledger.ignore("event that is no part of a prompt")

    def _count(
        self, ordinal: int, last: Any, total: Any, at_s: float | None, line: dict[str, Any], record: dict[str, Any]
    ) -> None:
        try:
            usage, key = self.counters.take(last, total, text_of(record.get("response_id")))
        except ValueError as error:
            self.ledger.reject(ordinal, str(error))
            return
        if usage is None:
            known = isinstance(last, dict)
            (self.ledger.duplicate if known else self.ledger.ignore)("a counter without a new call")
            return
        place = line.get("ordinal")
        if isinstance(place, int) and place < self.start_ordinal:
            self.ledger.duplicate("a call of the parent")  # a sub-agent's file starts with its parent's history
            self.thread.inputs += self.thread.reply + self.thread.after
            self.thread.reply, self.thread.tools, self.thread.after = [], [], []
            return
        self.ledger.used += 1
        self._prompted()
        for heard in self.echoes.take("assistant", "reasoning"):
            self._said(heard)
        self._close(ordinal, at_s, usage=usage, dedupe_key=f"codex:{self.family or self.thread.key}:{key}")

    def _close(self, ordinal: int, at_s: float | None, **fields: Any) -> None:
        thread = self.thread
        thread.close(f"{thread.key}:{ordinal}", ordinal, at_s, model=self.model, **fields)
        turn = thread.turns[-1]
        turn.copy_rank = (thread.forked_from is not None or thread.role != "main", thread.started_s or 0.0)

    def _roll_back(self, turns: Any) -> None:
        left = turns if isinstance(turns, int) and turns > 0 else 1
        at: Turn | None = self.thread.turns[-1] if self.thread.turns else None
        while at is not None and left:
            left -= at.trigger == "user"
            at = at.parent
        self.thread.rewind(at)

    def _prompted(self) -> None:
        """A person's messages that only events have are part of the prompt that is answered next."""
        for heard in self.echoes.take("user"):
            self.thread.add_input([self.make.text("user", heard.text)], heard.at_s)

    def _said(self, heard: Event) -> None:
        self.thread.add_reply([self.make.text(heard.role, heard.text)], [], heard.at_s)

    def _end_turn(self, ordinal: int) -> None:
        """A turn's last call ends with it. Of answers that only events have, each message is a call's."""
        thread = self.thread
        if thread.answered:
            self._prompted()
            self._close(ordinal, None)
        for heard in self.echoes.take("user", "assistant", "reasoning"):
            if heard.role == "user":
                thread.add_input([self.make.text("user", heard.text)], heard.at_s)
                continue
            self._said(heard)
            if heard.role == "assistant":
                self._close(heard.ordinal, heard.at_s)
        if thread.answered:
            self._close(ordinal, None)
        self.echoes.end_turn()

    def end(self) -> None:
        """No more lines."""
        self._end_turn(self.thread.turns[-1].ordinal + 1 if self.thread.turns else 1)
