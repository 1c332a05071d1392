"""Families as conversations: chains of turns, each appending to the previous prompt and answer, and their spawners."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from analysis.export.planners.conversations import filler
from analysis.export.planners.conversations.chains import Chains
from analysis.export.rows import ExportSelection, Row


class Turn(NamedTuple):
    """One request: its row, the tokens it adds, the delay before it (seconds, None unknown)."""

    row: Row
    added: int
    delay_s: float | None


class Conversation(NamedTuple):
    """A chain. `after` is the (name, turn) after whose completion it starts: its spawner, or the chain it continues."""

    name: str
    turns: list[Turn]
    after: tuple[str, int] | None
    spawned: bool  # by another session


def conversations(out: ExportSelection, chains: Chains) -> Iterator[list[Conversation]]:
    """The conversations of one family at a time."""
    for rows in out.families():
        found: dict[str, Conversation] = {}
        place: dict[int, tuple[str, int]] = {}
        tips: dict[int | None, str] = {}
        for row in rows:
            link = chains.add(row)
            if link.first:
                before = tips.get(row.session) if row.session is not None else None
                if before is not None:
                    after: tuple[str, int] | None = (before, len(found[before].turns) - 1)
                else:
                    after = place.get(row.spawned_by) if row.spawned_by is not None else None
                found[link.name] = Conversation(link.name, [], after, before is None and after is not None)
                tips[row.session] = link.name
            place[row.number] = (link.name, len(found[link.name].turns))
            found[link.name].turns.append(Turn(row, link.added, link.delay_s))
        yield list(found.values())


def words(out: ExportSelection, turn: Turn, first: bool) -> str:
    """Placeholder text for the tokens that a turn adds: derived from block ids if it is a whole prompt, else unique."""
    return filler.prompt_of(out, turn.row) if first else filler.text(-1 - turn.row.number, turn.added)


def answer(turn: Turn) -> str:
    """Placeholder text for a turn's answer (one word if its length is unknown)."""
    return filler.text(-(1 << 40) - turn.row.number, 1 if turn.row.output is None else turn.row.output)
