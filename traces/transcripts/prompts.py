"""The prompts of turns: at the provider's lengths, logged whole, or derived at the tokenizer's lengths."""

from __future__ import annotations

from collections.abc import Sequence

from traces.records import Base, Context, Piece, Prompt
from traces.transcripts.counted_prompts import CountedPrompts, Head
from traces.transcripts.parts import Part
from traces.transcripts.turns import Turn

RECENT_PROMPTS = 16
"""Earlier prompts that a whole prompt is compared with: those of its agent and of the others that run beside it."""


class Counted:
    """Sources with usage: the provider's counts are the lengths."""

    def __init__(self, turns: list[Turn], context: Context) -> None:
        self._prompts = CountedPrompts(_Turns(turns), context.digest)

    def prompt(self, turn: Turn) -> Prompt | None:
        """The prompt of the next turn; None where its length is not known."""
        prompt = self._prompts.prompt(turn)
        completeness = "no_head" if turn.thread.hidden_head else "structure"
        return None if prompt is None else prompt._replace(completeness=completeness, lengths="provider")

    def reply(self, turn: Turn) -> tuple[Piece, ...]:
        """The answer of a turn."""
        return self._prompts.reply(turn)


class _Turns:
    """Turns as the conversation that prompts are made of."""

    def __init__(self, turns: list[Turn]) -> None:
        self._turns = turns
        self._shares: dict[int, Sequence[int]] = {}  # by the identity of the list of parts

    def calls(self) -> Sequence[Turn]:
        return self._turns

    def key(self, call: Turn) -> str:
        return call.key

    def session(self, call: Turn) -> str:
        return call.thread.key

    def head_of(self, call: Turn) -> Head:
        return Head(call.thread.agent, call.thread.version, "main" if call.thread.role == "main" else "subagent")

    def logged_head(self, call: Turn) -> list[Part]:
        return call.thread.head

    def length(self, call: Turn) -> int | None:
        return call.length

    def read_tokens(self, call: Turn) -> int:
        return (call.usage.cache_read_tokens if call.usage else None) or 0

    def cached_total(self, call: Turn) -> int:
        return call.cached_total or 0

    def parent(self, call: Turn) -> Turn | None:
        return call.parent

    def set_parent(self, call: Turn, parent: Turn) -> None:
        call.parent = parent

    def starts_cold(self, call: Turn) -> bool:
        return call.parent is None and not call.compaction

    def compacted(self, call: Turn) -> bool:
        return call.compaction

    def by_person(self, call: Turn) -> bool:
        return call.trigger == "user"

    def inputs(self, call: Turn) -> list[Part]:
        return call.inputs

    def reply(self, call: Turn) -> list[Part]:
        return call.reply

    def output_tokens(self, call: Turn) -> int | None:
        return call.usage.output_tokens if call.usage and call.output_complete is not False else None

    def reasoning_tokens(self, call: Turn) -> int | None:
        return call.usage.reasoning_tokens if call.usage else None

    def thoughts(self, parts: list[Part]) -> list[bool]:
        return [part.role == "reasoning" for part in parts]

    def estimates(self, parts: list[Part]) -> list[float]:
        return [part.estimate for part in parts]

    def elastic(self, parts: list[Part]) -> list[bool]:
        return [part.elastic for part in parts]

    def pieces(self, parts: list[Part], tokens: Sequence[int]) -> list[Piece]:
        return [Piece(part.key, count, part.role) for part, count in zip(parts, tokens, strict=True) if count]

    def shares(self, parts: list[Part]) -> list[int] | None:
        shares = self._shares.get(id(parts))
        return None if shares is None else list(shares)

    def share(self, call: Turn, parts: list[Part], tokens: Sequence[int]) -> None:
        self._shares[id(parts)] = tokens


class Whole:
    """Sources that log exact prompts: each becomes what it adds to the recent prompt that it shares most with."""

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
