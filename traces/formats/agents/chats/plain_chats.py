"""What the readers of simple chat logs share: messages in order, an answer a call, lengths from the tokenizer."""

from __future__ import annotations

from collections.abc import Iterator

from traces.records import Context, Record
from traces.transcripts.ledger import Ledger
from traces.transcripts.parts import Part, PartMaker
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread


class Chat:
    """One conversation. Parts of an answer that follow each other are one call unless `each` says otherwise."""

    def __init__(self, agent: str, context: Context, key: str = "main", time_basis: str = "wall") -> None:
        self.make = PartMaker(context, exact=True)
        self.ledger = Ledger()
        self.thread = Thread(key, agent, time_basis=time_basis)
        self.model: str | None = None
        self.at = 0

    def said(self, ordinal: int, parts: list[Part], tools: list[str], at_s: float | None = None) -> None:
        """A part of an answer. One that comes after a result is another call's."""
        if self.thread.after:
            self.close()
        if not self.thread.answered:
            self.at = ordinal
        self.thread.add_reply(parts, tools, at_s)
        self.ledger.used += 1

    def given(self, parts: list[Part], at_s: float | None = None, trigger: str = "user") -> None:
        """A message to the model, or a tool's result."""
        self.close()
        self.thread.add_input(parts, at_s, trigger)
        self.ledger.used += 1

    def close(self) -> None:
        """The answer is complete."""
        if self.thread.answered:
            self.thread.close(f"{self.thread.key}:{self.at}", self.at, model=self.model)

    def records(self, context: Context) -> Iterator[Record]:
        """Yield the session, its requests and what became of the records."""
        self.close()
        yield from records_of([self.thread], context, self.ledger)
