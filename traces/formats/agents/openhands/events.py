"""OpenHands V0 events as a conversation."""

from __future__ import annotations

from typing import Any

from traces.transcripts.ledger import Ledger
from traces.transcripts.parts import Part, PartMaker, as_dict, as_list, clock_seconds, dump, plain, text_of, tokens_of
from traces.transcripts.turns import Thread
from traces.usage.rules import Usage, normalise

_SILENT = {"null", "agent_state_changed", "change_agent_state", "recall", "loading"}


class EventStream:
    """Collects the events of one conversation. `usages` are those of a row's metrics, by response id."""

    def __init__(self, name: str, make: PartMaker, ledger: Ledger, usages: dict[str, dict[str, Any]]) -> None:
        self.make, self.ledger, self.usages = make, ledger, usages
        self.thread = Thread(name, "openhands", time_basis="trace")
        self.open: str | None = None  # the response that is being read
        self.seen: set[str] = set()
        self.calls: dict[str, dict[str, Any]] = {}
        self.totals = (0, 0, 0, 0)
        self.entries: list[tuple[object, list[Part]]] = []

    def event(self, ordinal: int, event: dict[str, Any]) -> None:
        """Take the next event."""
        action, observation = event.get("action"), event.get("observation")
        kind = str(action or observation)
        response = as_dict(as_dict(event.get("tool_call_metadata")).get("model_response"))
        at_s = clock_seconds(event.get("timestamp"))
        by_agent = event.get("source") == "agent" or (event.get("source") is None and action != "message")
        if kind in _SILENT or not (action or observation):
            self.ledger.ignore("an event that is no part of a prompt")
            return
        self.ledger.used += 1
        parts: list[Part] = []
        if action == "system":
            given = as_dict(event.get("args"))
            self.thread.head = self.make.tools(given.get("tools"))
            self.thread.head.append(self.make.text("system", plain(given.get("content"))))
            self.thread.hidden_head = False
        elif action == "condensation":
            self._condense(as_dict(event.get("args")))
            return
        elif action and by_agent:
            parts = self._answer(ordinal, event, kind, response, at_s)
        else:
            self._close(ordinal - 1)
            body = event.get("content") or as_dict(event.get("args")).get("content") or event.get("message")
            tag = as_dict(event.get("tool_call_metadata")).get("tool_call_id")
            if observation:
                parts = self.make.result(body, tag)
                self.thread.add_input(parts, at_s, "tool")
            else:
                parts = self.make.content(body, "user").parts
                self.thread.add_input(parts, at_s, "user")
        self.entries.append((event.get("id"), parts))

    def _answer(
        self, ordinal: int, event: dict[str, Any], kind: str, response: dict[str, Any], at_s: float | None
    ) -> list[Part]:
        name = text_of(response.get("id"))
        if name is not None and (name == self.open or name in self.seen):
            return []  # a parallel call of a response that is known
        self._close(ordinal - 1)
        given = as_dict(event.get("args")) or {k: v for k, v in event.items() if k not in ("id", "timestamp", "source")}
        message = as_dict(as_dict(next(iter(as_list(response.get("choices"))), None)).get("message"))
        if message:
            contents = self.make.message({"role": "assistant", **message})
            parts, tools = contents.parts, contents.tools
        elif kind == "message":
            parts, tools = self.make.content(given.get("content"), "assistant").parts, []
        else:
            thought = plain(given.get("thought"))
            parts = [self.make.text("assistant", thought)] if thought else []
            parts.append(self.make.call(kind, dump({k: v for k, v in given.items() if k != "thought"})))
            tools = [kind]
        self.open = name or f"event-{ordinal}"
        self.calls[self.open] = {"response": response, "metrics": as_dict(event.get("llm_metrics"))}
        created = response.get("created")
        if self.thread.time_basis == "trace" and isinstance(created, int) and at_s is not None:
            # The response's own time is UTC: it shows how far the events' clock is from it (whole quarters of an hour).
            self.shift = round((created - at_s) / 900) * 900
        self.thread.add_reply(parts, tools, at_s)
        return parts

    def _close(self, ordinal: int) -> None:
        if self.open is None:
            return
        call, name = self.calls[self.open], self.open
        response = call["response"]
        usage = self._usage(name, call)
        choice = as_dict(next(iter(as_list(response.get("choices"))), None))
        self.thread.close(
            f"{self.thread.key}:{ordinal}",
            ordinal,
            usage=usage,
            model=text_of(response.get("model")) or text_of(self.usages.get(name, {}).get("model")),
            stop_reason=text_of(choice.get("finish_reason")),
            dedupe_key=None if name.startswith("event-") else f"openhands:{name}",
        )
        self.seen.add(name)
        self.open = None

    def _usage(self, name: str, call: dict[str, Any]) -> Usage | None:
        logged = self.usages.get(name) or as_dict(call["response"].get("usage"))
        try:
            usage = normalise(logged, meanings=self.make.meanings)
        except ValueError:
            return None
        if usage.input_tokens:
            return usage
        return self._advance(as_dict(call["metrics"].get("accumulated_token_usage")))

    def _advance(self, totals: dict[str, Any]) -> Usage | None:
        """The counters' advance since the last event; a counter that fell was started again."""
        names = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens")
        values = tuple(tokens_of(totals.get(n)) or 0 for n in names)
        if not totals or values[0] == self.totals[0]:
            return None
        grown = [a - b for a, b in zip(values, self.totals, strict=True)]
        if min(grown) < 0:
            grown = list(values)
        self.totals = values  # type: ignore[assignment]  # four of them, as in `names`
        return Usage(grown[0], grown[2], grown[3], grown[1], None)

    def _condense(self, given: dict[str, Any]) -> None:
        """Forgotten events leave the prompt, a summary takes their place."""
        ids = {str(x) for x in as_list(given.get("forgotten_event_ids"))}
        first, last = given.get("forgotten_events_start_id"), given.get("forgotten_events_end_id")
        if isinstance(first, int) and isinstance(last, int) and last - first < 1_000_000:
            ids |= {str(x) for x in range(first, last + 1)}
        self._close(0)
        kept = [(name, parts) for name, parts in self.entries if str(name) not in ids]
        summary = plain(given.get("summary"))
        parts = [part for _, ps in kept for part in ps]
        at = min(len(kept[0][1]) if kept else 0, len(parts))
        inserted = [self.make.text("summary", summary)] if summary else []
        self.thread.restart(parts[:at] + inserted + parts[at:])
        self.entries = kept

    shift = 0.0

    def end(self, ordinal: int) -> None:
        """No more events."""
        self._close(ordinal)

    def threads(self) -> list[Thread]:
        """The conversation; on the wall clock if its zone is known."""
        known = any(as_dict(call["response"]).get("created") for call in self.calls.values())
        if known:
            self.thread.time_basis = "wall"
            for turn in self.thread.turns:
                turn.arrival_s = None if turn.arrival_s is None else turn.arrival_s + self.shift
        return [self.thread]
