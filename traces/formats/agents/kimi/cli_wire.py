"""Kimi CLI's wire.jsonl, and the context.jsonl beside it.

Facts: MoonshotAI/kimi-cli, src/kimi_cli/wire/types.py. A line is {timestamp, message: {type, payload}}. A step is one
call; its `StatusUpdate` has the counts, `input_other` without cached tokens. Events of a sub-agent are wrapped in
`SubagentEvent`, with the tool call that started it. context.jsonl holds the messages as they are sent, the system
prompt first; its `_usage` is a count of the whole context, prompt and answer.
"""

from __future__ import annotations

from typing import Any

from traces.transcripts.ledger import Ledger
from traces.transcripts.parts import PartMaker, as_dict, kind_of, seconds, text_of
from traces.transcripts.turns import Thread, Turn

_SESSION_EVENTS = {"StepBegin", "StepInterrupted", "TurnEnd", "CompactionBegin"}


class CliWire:
    """Collects the events of a session and of its sub-agents."""

    def __init__(self, make: PartMaker, ledger: Ledger, key: str) -> None:
        self.make, self.ledger = make, ledger
        self.main = Thread(key, "kimi_cli")
        self.threads = {"": self.main}
        self.calls: dict[str, str] = {}  # tool call -> the thread that made it

    def context(self, ordinal: int, line: dict[str, Any], alone: bool) -> None:
        """A line of context.jsonl: the system prompt; where it is alone, the messages too."""
        role, thread = kind_of(line, "role"), self.main
        if role == "_system_prompt":
            thread.head = self.make.content(line.get("content"), "system").parts
            self.ledger.used += 1
        elif role.startswith("_"):
            self.ledger.ignore("a mark of the context")
        elif not alone:
            self.ledger.duplicate("a message that wire.jsonl has")
        else:
            contents = self.make.message(line)
            self.ledger.used += 1
            if role == "assistant":
                thread.add_reply(contents.parts, contents.tools)
                thread.close(f"{thread.key}:{ordinal}", ordinal)
                thread.time_basis = "none"
            else:
                thread.add_input(contents.parts, None, "tool" if contents.results else "user")

    def line(self, ordinal: int, line: dict[str, Any]) -> None:
        """A line of wire.jsonl."""
        message = as_dict(line.get("message"))
        if not message:
            self.ledger.ignore("record of another kind")
            return
        self._event(ordinal, message, seconds(line.get("timestamp")), "")

    def _event(self, ordinal: int, event: dict[str, Any], at_s: float | None, agent: str) -> None:
        kind, payload = kind_of(event), as_dict(event.get("payload"))
        if kind == "SubagentEvent":
            call = text_of(payload.get("parent_tool_call_id")) or text_of(payload.get("task_tool_call_id"))
            name = text_of(payload.get("agent_id")) or call or "subagent"
            self._agent(name, call, agent)
            self._event(ordinal, as_dict(payload.get("event")), at_s, name)
            return
        thread = self.threads[agent]
        self.ledger.used += 1
        if kind in ("TurnBegin", "SteerInput"):
            self._close(ordinal, agent)
            thread.started_s = at_s if thread.started_s is None else thread.started_s
            thread.add_input(self.make.content(payload.get("user_input"), "user").parts, at_s, "user")
        elif kind in ("ContentPart", "ToolCall"):
            if thread.after:
                self._close(ordinal, agent)
            field = "tool_calls" if kind == "ToolCall" else "content"
            contents = self.make.message({"role": "assistant", field: [payload]})
            thread.add_reply(contents.parts, contents.tools, at_s)
            if kind == "ToolCall":
                self.calls[str(payload.get("id"))] = agent
        elif kind == "ToolResult":
            value = as_dict(payload.get("return_value")) or payload
            thread.add_input(self.make.result(value.get("output"), payload.get("tool_call_id")), at_s, "tool")
        elif kind == "StatusUpdate":
            self._count(ordinal, payload, at_s, agent)
        elif kind in _SESSION_EVENTS:
            self.ledger.used -= 1
            self.ledger.ignore("the start or end of a step")
            self._close(ordinal, agent)
        elif kind == "CompactionEnd":
            self._close(ordinal, agent)
            thread.restart([])
        else:
            self.ledger.used -= 1
            self.ledger.ignore("an event that is no part of a prompt")

    def _count(self, ordinal: int, payload: dict[str, Any], at_s: float | None, agent: str) -> None:
        """The counts of a step end its call; a status without counts changes nothing."""
        logged = as_dict(payload.get("token_usage"))
        names = {
            "input_other": "inputOther",
            "input_cache_read": "inputCacheRead",
            "input_cache_creation": "inputCacheCreation",
            "output": "output",
        }
        usage = self.ledger.usage(ordinal, {to: logged[name] for name, to in names.items() if name in logged})
        if usage is None:
            self.ledger.used -= 1
            self.ledger.ignore("a status without counts")
            return
        thread, name = self.threads[agent], text_of(payload.get("message_id"))
        key = f"kimi_cli:{name}" if name else None
        thread.close(f"{thread.key}:{ordinal}", ordinal, at_s, usage=usage, dedupe_key=key)

    def _agent(self, name: str, call: str | None, above: str) -> None:
        if name in self.threads:
            return
        parent = self.threads[self.calls.get(call or "", above)]
        turn: Turn | None = parent.turns[-1] if parent.turns and not parent.answered else None
        key = f"{self.main.key}/{name}"
        self.threads[name] = Thread(key, "kimi_cli", role="subagent", parent_key=parent.key, spawn=turn)

    def _close(self, ordinal: int, agent: str) -> None:
        """An answer without counts (an interrupted step) ends where something else begins."""
        thread = self.threads[agent]
        if thread.answered:
            thread.close(f"{thread.key}:{ordinal}", ordinal)

    def end(self) -> list[Thread]:
        """No more lines."""
        for agent, thread in self.threads.items():
            self._close(thread.turns[-1].ordinal + 1 if thread.turns else 1, agent)
        return list(self.threads.values())
