"""Events that repeat a message of the same log, or are the only record of it.

Agents show a message to a person as an event and keep it for the model as an item. Most logs have both; filtered and
old ones have the event alone, and then its text is part of the prompt.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from traces.transcripts.ledger import Ledger
from traces.transcripts.parts import as_list, plain

REPEATED = "an event that repeats a message"


class Event(NamedTuple):
    """One event: its line, who speaks (user | assistant | reasoning), its text, its time in seconds."""

    ordinal: int
    role: str
    text: str
    at_s: float | None


class Echoes:
    """Holds events until a message repeats them, or until nothing can repeat them any more.

    A message and its events are next to each other: none of them comes after the other side has spoken.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._texts: set[tuple[str, str]] = set()  # by role, of the side that speaks
        self._person = False
        self._held: list[Event] = []

    def message(self, role: str, content: Any) -> None:
        """A message of the log, whole or as content blocks: the events of its texts repeat it."""
        self._speaks(role)
        self._texts.add((role, plain(content).strip()))
        self._texts.update((role, plain(block).strip()) for block in as_list(content))
        left = [event for event in self._held if not self._is_known(event)]
        self._ledger.duplicate(REPEATED, len(self._held) - len(left))
        self._held = left

    def event(self, event: Event) -> None:
        """An event, before or after the message that it may repeat."""
        self._speaks(event.role)
        if self._is_known(event) or (self._held and self._held[-1][1:3] == event[1:3]):
            self._ledger.duplicate(REPEATED)
        else:
            self._held.append(event)

    def take(self, *roles: str) -> list[Event]:
        """The held events of these roles, in order: they stand for messages that the log does not have."""
        taken = [event for event in self._held if event.role in roles]
        self._held = [event for event in self._held if event.role not in roles]
        self._ledger.used += len(taken)
        self._texts.update((event.role, event.text.strip()) for event in taken)
        return taken

    def end_turn(self) -> None:
        """Later events repeat no message of the turns before."""
        self._texts.clear()

    def _speaks(self, role: str) -> None:
        if self._person != (role == "user"):
            self._person = not self._person
            self._texts.clear()

    def _is_known(self, event: Event) -> bool:
        # Sections of reasoning are shown one by one and kept together, or encrypted.
        hidden = event.role == "reasoning" and any(role == "reasoning" for role, _ in self._texts)
        return hidden or not event.text or (event.role, event.text.strip()) in self._texts
