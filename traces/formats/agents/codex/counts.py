"""Codex's token counters: which of them tell a new call, and whether the calls add up to the totals."""

from __future__ import annotations

from typing import Any

from traces.transcripts.parts import tokens_of
from traces.usage.rules import Usage, normalise

_FIELDS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")


class Counters:
    """Takes the counters of one rollout in order."""

    def __init__(self) -> None:
        self.total: tuple[Any, ...] | None = None
        self.last: tuple[Any, ...] | None = None
        self.responses: set[str] = set()
        self.summed = 0
        self.base = 0
        self.own = 0

    def take(self, last: Any, total: Any, response: str | None) -> tuple[Usage | None, str]:
        """The usage of a new call (None: nothing new) and what identifies it among the copies of its thread.

        `total` only grows with a call, so an unchanged one is a repeat. It may fall (a reset at a compaction); then
        the call is told by `last`, never by a difference.

        Raises:
            ValueError: the counters are no counts.
        """
        if not isinstance(last, dict) and not isinstance(total, dict):
            return None, ""
        now = _values(total) if isinstance(total, dict) else None
        latest = _values(last) if isinstance(last, dict) else None
        if response is not None and response in self.responses:
            return None, ""
        if now is not None and now == self.total:
            if response is not None:
                self.responses.add(response)
            return None, ""
        if now is None and response is None and latest is not None and latest == self.last and self.total is not None:
            return None, ""
        usage = normalise(last, "openai") if isinstance(last, dict) else self._difference(now)
        before, self.total, self.last = self.total, now if now is not None else self.total, latest
        if response is not None:
            self.responses.add(response)
        if not usage.input_tokens and not usage.output_tokens:
            return None, ""
        if now is not None:
            self._add_up(before, now, usage)
        return usage, f"{now}:{latest}" if now is not None or response is None else response

    def _difference(self, now: tuple[Any, ...] | None) -> Usage:
        before = self.total or (0,) * len(_FIELDS)
        grown = [None if a is None else a - (b or 0) for a, b in zip(now or (), before, strict=True)]
        if any(value is not None and value < 0 for value in grown):
            return Usage()
        return Usage(grown[0], grown[1], None, grown[2], grown[3], "codex")

    def _add_up(self, before: tuple[Any, ...] | None, now: tuple[Any, ...], usage: Usage) -> None:
        if before is not None and (now[0] or 0) < (before[0] or 0):
            self.base += self.own  # the counter started again
        self.own = (now[0] or 0) + (now[2] or 0)
        self.summed += (usage.input_tokens or 0) + (usage.output_tokens or 0)

    def difference(self) -> int:
        """Input and output tokens of the source's totals beyond those of its calls."""
        return self.base + self.own - self.summed


def _values(usage: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(tokens_of(usage.get(name)) for name in _FIELDS)
