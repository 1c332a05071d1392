"""Kimi Code's wire.jsonl: the agent's own log of its context and of each model call.

Facts: Kimi Code wire protocol 1.4. A step is one call: `step.begin`, the parts of its answer, `step.end` with usage
(`inputOther` excludes cached tokens). `usage.record` repeats it, but for calls outside steps (a compaction) it is the
only record. All thinking is sent back (`thinkingKeep`). `context.apply_compaction` puts a summary in place of history.
"""

from __future__ import annotations

from typing import Any

from traces.transcripts.echoes import Echoes, Event
from traces.transcripts.ledger import Ledger
from traces.transcripts.parts import Part, PartMaker, as_dict, kind_of, plain, seconds, text_of
from traces.transcripts.turns import Thread
from traces.usage.rules import Usage


class CodeWire:
    """Collects the lines of a session."""

    def __init__(self, make: PartMaker, ledger: Ledger) -> None:
        self.make, self.ledger = make, ledger
        self.thread = Thread("main", "kimi")
        self.model: str | None = None
        self.system: Part | None = None
        self.tools: list[Part] = []
        self.counted: Usage | None = None
        self.asked = self.answered = 0  # requests, by whether an answer was seen
        self.echoes = Echoes(ledger)

    def line(self, ordinal: int, line: dict[str, Any]) -> None:
        """Take the next line."""
        kind, at_s = kind_of(line), seconds(line.get("time"))
        if kind == "context.append_loop_event":
            self._loop(ordinal, as_dict(line.get("event")), at_s)
        elif kind == "context.append_message":
            message = as_dict(line.get("message"))
            if as_dict(message.get("origin")).get("name") == "subagent":
                self.thread.role = "subagent"
            self.echoes.message("user", message.get("content"))
            self.thread.add_input(self.make.content(message.get("content"), "user").parts, at_s, "user")
            self.ledger.used += 1
        elif kind in ("config.update", "profile.bind") and text_of(line.get("systemPrompt")):
            self.system = self.make.text("system", plain(line.get("systemPrompt")))
            self.ledger.used += 1
        elif kind == "llm.tools_snapshot":
            self.tools = self.make.tools(line.get("tools"))
            self.ledger.used += 1
        elif kind == "llm.request":
            self.model = text_of(line.get("model")) or self.model
            self.asked += 1
            if self.thread.started_s is None:
                self.thread.started_s = at_s
            self.thread.input_s = at_s or self.thread.input_s
        elif kind == "usage.record":
            self._record(ordinal, line, at_s)
        elif kind == "context.apply_compaction":
            self.thread.restart([self.make.text("summary", plain(line.get("contextSummary") or line.get("summary")))])
            self.ledger.used += 1
        elif kind == "turn.prompt":
            self.echoes.event(Event(ordinal, "user", plain(line.get("input")), at_s))
        else:
            self.ledger.ignore("record of another kind")

    def _loop(self, ordinal: int, event: dict[str, Any], at_s: float | None) -> None:
        kind, thread, make = kind_of(event), self.thread, self.make
        self.ledger.used += 1
        for prompt in self.echoes.take("user"):  # a prompt that the context does not have
            thread.add_input([make.text("user", prompt.text)], prompt.at_s)
        self.echoes.end_turn()
        if kind == "content.part":
            contents = make.content([event.get("part")], "assistant")
            thread.add_reply(contents.parts, contents.tools, at_s)
        elif kind == "tool.call":
            name = text_of(event.get("name")) or ""
            thread.add_reply([make.call(name, event.get("args"), event.get("toolCallId"))], [name], at_s)
        elif kind == "tool.result":
            thread.add_input(
                make.result(as_dict(event.get("result")).get("output"), event.get("toolCallId")), at_s, "tool"
            )
        elif kind == "step.end":
            self.counted = self.ledger.usage(ordinal, event.get("usage"))
            first = event.get("llmFirstTokenLatencyMs")
            self._close(
                ordinal, at_s, self.counted, text_of(event.get("finishReason")), text_of(event.get("messageId"))
            )
            if isinstance(first, int | float):
                thread.turns[-1].ttft_s = first / 1000
        else:
            self.ledger.used -= 1
            self.ledger.ignore("the start of a step")

    def _record(self, ordinal: int, line: dict[str, Any], at_s: float | None) -> None:
        usage = self.ledger.usage(ordinal, line.get("usage"))
        if usage is None or usage == self.counted:
            self.counted = None
            self.ledger.duplicate("usage that the step has")
            return
        self.ledger.used += 1
        self.model = self.model or text_of(line.get("model"))
        self._close(ordinal, at_s, usage, None, None)

    def _close(self, ordinal: int, at_s: float | None, usage: Usage | None, stop: str | None, name: str | None) -> None:
        self.thread.close(
            f"{ordinal}",
            ordinal,
            at_s,
            usage=usage,
            model=self.model,
            stop_reason=stop,
            dedupe_key=f"kimi:{name}" if name else None,
        )
        if self.asked:
            self.asked, self.answered = self.asked - 1, self.answered + 1

    def end(self) -> list[Thread]:
        """No more lines: the head is known, and which calls got no answer."""
        if self.thread.answered and self.thread.turns:
            self._close(self.thread.turns[-1].ordinal + 1, None, None, None, None)
        for _ in range(self.asked):
            self.ledger.failed("a call without an answer")
        self.ledger.ignore("the start of a call", self.answered)
        self.thread.head = [*self.tools, *([self.system] if self.system else [])]
        return [self.thread]
