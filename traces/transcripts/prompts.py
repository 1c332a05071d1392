"""Prompts at the tokenizer's lengths: those that are logged whole, and those derived where there is no usage."""

from __future__ import annotations

from traces.records import Base, Piece, Prompt
from traces.transcripts.turns import Turn

RECENT_PROMPTS = 16
"""Earlier prompts that a whole prompt is compared with: those of its agent and of the others that run beside it."""


class Whole:
    """Sources that log exact prompts: each is told as what it adds to the recent prompt that it shares most with."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.recent: list[tuple[str, list[int], list[int]]] = []

    def prompt(self, turn: Turn) -> Prompt | None:
        """The prompt of the next turn; None where nothing of it is known."""
        parts = turn.whole
        if parts is None:
            return None
        keys = [part.key for part in parts]
        best, shared, kept = "", 0, 0
        for name, others, ends in self.recent:
            same = _common(keys, others)
            if same and same >= shared:
                best, shared, kept = name, same, ends[same - 1]
        pieces = [part.piece() for part in parts]
        ends = []
        for piece in pieces:
            ends.append((ends[-1] if ends else 0) + piece.tokens)
        self.recent = [*self.recent[1 - RECENT_PROMPTS :], (turn.key, keys, ends)]
        self.totals[turn.key] = ends[-1] if ends else 0
        if not self.totals[turn.key]:
            return None
        link = Base(best, False, kept) if shared else None
        return Prompt(tuple(p for p in pieces[shared:] if p.tokens), link, "full", "tokenizer")

    def reply(self, turn: Turn) -> tuple[Piece, ...]:
        """The answer of a turn."""
        return tuple(piece for part in turn.reply if (piece := part.piece()).tokens)


def _common(ours: list[int], theirs: list[int]) -> int:
    if ours[: len(theirs)] == theirs:
        return len(theirs)
    return next(
        (at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )


class Estimated:
    """Sources without any usage: each part has its tokenizer's length."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def prompt(self, turn: Turn) -> Prompt | None:
        """The prompt of the next turn; None where nothing of it is known."""
        thread, base = turn.thread, turn.parent
        if base is None:
            pieces = [part.piece() for part in thread.head + turn.inputs]
            before, link = 0, None
        else:
            before = self.totals[base.key]
            kept = [p for p in base.reply if p.role != "reasoning"]
            whole = thread.keeps_reasoning or len(kept) == len(base.reply)
            link = Base(base.key, whole)
            if whole:
                before += sum(part.piece().tokens for part in base.reply)
            pieces = [part.piece() for part in ([] if whole else kept) + turn.inputs]
        self.totals[turn.key] = before + sum(piece.tokens for piece in pieces)
        if not self.totals[turn.key]:
            return None
        completeness = "no_head" if thread.hidden_head else "structure"
        return Prompt(tuple(p for p in pieces if p.tokens), link, completeness, "tokenizer")

    def reply(self, turn: Turn) -> tuple[Piece, ...]:
        """The answer of a turn."""
        return tuple(piece for part in turn.reply if (piece := part.piece()).tokens)
