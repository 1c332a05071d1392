"""Codex's token counters: which of them report a new call, and whether the calls add up to the totals."""

from __future__ import annotations

from typing import Any, NamedTuple

from traces.transcripts.parts import tokens_of
from traces.usage.evidence import Meanings
from traces.usage.rules import Usage, normalise

_FIELDS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens")


class Counters:
    """Takes the counters of one rollout in order."""

    def __init__(self, meanings: Meanings | None = None) -> None:
        self.meanings = meanings
        self.total: tuple[Any, ...] | None = None
        self.last: tuple[Any, ...] | None = None
        self.responses: set[str] = set()
        self._lanes: list[_Lane] = []  # the one that grew last at the end

    def take(self, last: Any, total: Any, response: str | None) -> tuple[Usage | None, str]:
        """The usage of a new call (None: nothing new) and what identifies it among the copies of its thread.

        `total` only grows with a call, so an unchanged one is a repeat. It may fall (a reset at a compaction); then
        the call's counts are those of `last`, never a difference.

        Raises:
            ValueError: the counters are no counts.
        """
        if not isinstance(last, dict) and not isinstance(total, dict):
            return None, ""
        now = _values(total) if isinstance(total, dict) else None
        latest = _values(last) if isinstance(last, dict) else None
        if response is not None and response in self.responses:
            return None, ""
        if now is not None and (now == self.total or any(lane.values == now for lane in self._lanes)):
            if response is not None:
                self.responses.add(response)
            return None, ""
        if now is None and response is None and latest is not None and latest == self.last and self.total is not None:
            return None, ""
        usage = normalise(last, "openai", meanings=self.meanings) if isinstance(last, dict) else self._difference(now)
        self.total, self.last = now if now is not None else self.total, latest
        if response is not None:
            self.responses.add(response)
        if not usage.input_tokens and not usage.output_tokens:
            return None, ""
        if now is not None:
            self._add_up(now, (usage.input_tokens or 0) + (usage.output_tokens or 0))
        return usage, f"{now}:{latest}" if now is not None or response is None else response

    def _difference(self, now: tuple[Any, ...] | None) -> Usage:
        before = self.total or (0,) * len(_FIELDS)
        grown = [None if a is None else a - (b or 0) for a, b in zip(now or (), before, strict=True)]
        if any(value is not None and value < 0 for value in grown):
            return Usage()
        return Usage(grown[0], grown[1], None, grown[2], grown[3])

    def _add_up(self, now: tuple[Any, ...], call: int) -> None:
        """Continue the lane whose total grew by just this call; without one, a lane starts, or some calls are missing.

        A lane that starts while another continues later was under way before the log began: nothing is missing.
        """
        total = (now[0] or 0) + (now[2] or 0)
        at = next((at for at, lane in enumerate(self._lanes) if lane.total + call == total), None)
        if at is None:
            before = self._lanes[-1].total if self._lanes and total >= self._lanes[-1].total else 0
            self._lanes.append(_Lane(now, total, total - before - call))
            return
        continued = self._lanes.pop(at)
        self._lanes[at:] = [lane._replace(missing=0) for lane in self._lanes[at:]]
        self._lanes.append(continued._replace(values=now, total=total))

    @property
    def difference(self) -> int:
        """Input and output tokens of the source's running totals beyond those of its calls."""
        return sum(lane.missing for lane in self._lanes)


class _Lane(NamedTuple):
    """A running total (each rate limit has one): its counts, input and output tokens, tokens of calls not seen."""

    values: tuple[Any, ...]
    total: int
    missing: int


def _values(usage: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(tokens_of(usage.get(name)) for name in _FIELDS)
