"""OpenHands V1 SDK events as a conversation."""

from __future__ import annotations

from typing import Any

from traces.transcripts.ledger import Ledger
from traces.transcripts.parts import Part, PartMaker, as_dict, clock_seconds, kind_of, plain, text_of, tokens_of
from traces.transcripts.turns import Thread
from traces.usage.rules import Usage

_COUNTS = ("prompt_tokens", "cache_read_tokens", "cache_write_tokens", "completion_tokens", "reasoning_tokens")


class SdkStream:
    """Collects the events of one conversation; usage comes as running totals, each before its answer."""

    def __init__(self, name: str, make: PartMaker, ledger: Ledger) -> None:
        self.make, self.ledger = make, ledger
        self.thread = Thread(name, "openhands", time_basis="trace")
        self.open: str | None = None
        self.opened_at = 0
        self.totals: dict[str, tuple[int, ...]] = {}
        self.waiting: tuple[int, Usage, str | None] | None = None
        self.entries: list[tuple[str, list[Part]]] = []

    def event(self, ordinal: int, event: dict[str, Any]) -> None:
        """Take the next event."""
        kind, at_s = str(event.get("kind")), clock_seconds(event.get("timestamp"))
        make, thread, parts = self.make, self.thread, []
        if kind == "SystemPromptEvent":
            prompt = plain(event.get("system_prompt")) + plain(event.get("dynamic_context"))
            thread.head = [*make.tools(event.get("tools")), make.text("system", prompt)]
            thread.hidden_head = False
        elif kind == "MessageEvent" and event.get("source") == "user":
            self._close()
            parts = make.message(as_dict(event.get("llm_message"))).parts
            thread.add_input(parts, at_s, "user")
        elif kind in ("ActionEvent", "MessageEvent"):
            parts = self._answer(ordinal, event, at_s)
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._close()
            body = as_dict(event.get("observation")).get("content", event.get("error") or event.get("observation"))
            parts = make.result(body, event.get("tool_call_id"))
            thread.add_input(parts, at_s, "tool")
        elif kind == "Condensation":
            self._close()
            gone = {str(x) for x in event.get("forgotten_event_ids") or ()}
            self.entries = [entry for entry in self.entries if entry[0] not in gone]
            summary = [make.text("summary", plain(event.get("summary")))]
            offset = event.get("summary_offset")
            at = offset if isinstance(offset, int) and 0 <= offset <= len(self.entries) else 1
            before = [p for _, ps in self.entries[:at] for p in ps]
            thread.restart(before + summary + [p for _, ps in self.entries[at:] for p in ps])
        elif kind == "ConversationStateUpdateEvent" and kind_of(event, "key") in ("stats", "full_state"):
            self._stats(ordinal, event)
            return
        else:
            self.ledger.ignore("an event that is no part of a prompt")
            return
        self.ledger.used += 1
        if parts:
            self.entries.append((str(event.get("id")), parts))

    def _answer(self, ordinal: int, event: dict[str, Any], at_s: float | None) -> list[Part]:
        name = text_of(event.get("llm_response_id")) or f"event-{ordinal}"
        if name != self.open:
            self._close()
            self.open, self.opened_at = name, ordinal
        if event.get("kind") == "MessageEvent":
            contents = self.make.message(as_dict(event.get("llm_message")))
            parts, tools = contents.parts, contents.tools
        else:
            call = as_dict(event.get("tool_call"))
            tool = text_of(call.get("name")) or text_of(event.get("tool_name")) or ""
            thoughts = plain(event.get("reasoning_content"))
            parts = [self.make.text("reasoning", thoughts)] if thoughts else []
            parts += self.make.content(event.get("thought"), "assistant").parts
            parts.append(self.make.call(tool, call.get("arguments"), call.get("id")))
            tools = [tool]
        self.thread.add_reply(parts, tools, at_s)
        return parts

    def _stats(self, ordinal: int, event: dict[str, Any]) -> None:
        value = as_dict(event.get("value"))
        metrics = as_dict(as_dict(value.get("stats", value)).get("usage_to_metrics"))
        counted = False
        for name, of_name in metrics.items():
            usage = as_dict(as_dict(of_name).get("accumulated_token_usage"))
            now = tuple(tokens_of(usage.get(c)) or 0 for c in _COUNTS)
            before = self.totals.get(name, (0,) * len(_COUNTS))
            self.totals[name] = now
            if now[0] == before[0]:
                continue
            grown = [a - b for a, b in zip(now, before, strict=True)]
            if min(grown) < 0:
                grown = list(now)  # a counter that fell was started again
            counted = True
            self._close()
            if self.waiting is not None:
                self._unseen()
            self.waiting = (
                ordinal,
                Usage(grown[0], grown[1], grown[2], grown[3], grown[4]),
                text_of(as_dict(of_name).get("model_name")),
            )
        if counted:
            self.ledger.used += 1
        else:
            self.ledger.duplicate("totals without a new call")

    def _close(self) -> None:
        if self.open is None:
            return
        _, usage, model = self.waiting or (0, None, None)
        self.thread.close(
            f"{self.thread.key}:{self.opened_at}",
            self.opened_at,
            usage=usage,
            model=model,
            dedupe_key=None if self.open.startswith("event-") else f"openhands:{self.open}",
        )
        self.open = self.waiting = None

    def _unseen(self) -> None:
        """A counted call whose answer is not among the events."""
        if self.waiting is not None:
            ordinal, usage, model = self.waiting
            parent, inputs = self.thread.parent, list(self.thread.inputs)
            self.thread.close(f"{self.thread.key}:{ordinal}", ordinal, usage=usage, model=model)
            self.thread.parent, self.thread.inputs = parent, inputs
            self.waiting = None

    def threads(self) -> list[Thread]:
        """The conversation."""
        self._close()
        self._unseen()
        return [self.thread]
