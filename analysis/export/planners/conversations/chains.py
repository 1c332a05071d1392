"""Sessions as load generators replay them: each turn appends to the previous prompt and its answer."""

from __future__ import annotations

from typing import NamedTuple

from analysis.export.rows import Row


class Link(NamedTuple):
    """A request's place in its chain.

    Attributes:
        name: the chain's name.
        first: whether it starts the chain.
        added: tokens it adds; the whole prompt if it is the first.
        delay_s: seconds from the end of the previous answer; None unknown.
        turn: from 0.
    """

    name: str
    first: bool
    added: int
    delay_s: float | None
    turn: int


class _Tip(NamedTuple):
    chain: int
    turn: int
    tokens: int  # prompt and answer
    prompt: int
    end_s: float | None


class Chains:
    """Splits a session wherever a prompt is not the previous prompt plus its answer plus new tokens.

    `rows`, `started` and `broken` count requests, chains, and chains that started inside a session. `overlapping`
    counts turns that arrived before the answer they extend was recorded as complete (their delay is 0).
    """

    def __init__(self, block: int) -> None:
        self._block = block
        self._tips: dict[int, _Tip] = {}
        self.rows = self.started = self.broken = self.overlapping = 0

    def add(self, row: Row) -> Link:
        """Place the next request in arrival order."""
        self.rows += 1
        tip = self._tips.get(row.session) if row.session is not None else None
        answer = 0 if row.output is None else row.output
        end = row.arrival_s if row.arrival_s is None or row.duration_s is None else row.arrival_s + row.duration_s
        # block ids show sharing only to the block, so a prompt that shares all whole blocks of the previous one extends
        # it
        extends = tip is not None and row.tokens > tip.tokens and row.shared >= tip.prompt - tip.prompt % self._block
        if tip is None or not extends:
            self.broken += tip is not None
            chain, turn, added = self.started, 0, row.tokens
            self.started += 1
        else:
            chain, turn, added = tip.chain, tip.turn + 1, row.tokens - tip.tokens
        delay = None
        if turn and tip is not None and tip.end_s is not None and row.arrival_s is not None:
            self.overlapping += row.arrival_s < tip.end_s
            delay = max(0.0, row.arrival_s - tip.end_s)
        if row.session is not None:
            self._tips[row.session] = _Tip(chain, turn, row.tokens + answer, row.tokens, end)
        return Link(f"c{chain}", turn == 0, added, delay, turn)

    def notes(self) -> list[str]:
        """The effects of splitting, as sentences."""
        found = [
            f"{self.rows:,} requests in {self.started:,} sessions; {self.broken:,} prompts do not extend the previous "
            "one with its answer and start a session with all of their tokens"
        ]
        if self.overlapping:
            found.append(
                f"{self.overlapping:,} turns arrived before the previous answer was complete: their delay is 0"
            )
        return found
