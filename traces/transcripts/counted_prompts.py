"""Builds prompts from a conversation and the provider's counts: lengths come from the counts, structure from the log.

A prompt consists of its parent's prompt, the parent's answer and new messages. The tokens by which it grew are
distributed over the answer and the messages by their estimated lengths. Growth that these cannot explain, and a head
that is not logged (system prompt and tools), become `unobserved`. A `Conversation` says what each call contained.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from traces.records import Base, Piece, Prompt
from traces.text.lengths import split, spread

C = TypeVar("C")
P = TypeVar("P")


class Head(NamedTuple):
    """Identifies a head that sessions share: agent, version, main or subagent."""

    agent: str
    version: str | None
    role: str


class Conversation(Protocol[C, P]):
    """The calls of one source and their parts; a call and a part are whatever the source identifies them by."""

    def calls(self) -> Sequence[C]:
        """All calls in the order of the log."""

    def key(self, call: C) -> str:
        """The request key."""

    def session(self, call: C) -> str:
        """The session of a call."""

    def head_of(self, call: C) -> Head:
        """The head that its prompt begins with."""

    def logged_head(self, call: C) -> list[P]:
        """The parts of that head that the log shows."""

    def length(self, call: C) -> int | None:
        """Tokens of the prompt as the provider counted them."""

    def read_tokens(self, call: C) -> int:
        """Prompt tokens read from the provider's cache; 0 where unknown."""

    def cached_total(self, call: C) -> int:
        """Prompt tokens in the provider's cache after the call; 0 where unknown."""

    def parent(self, call: C) -> C | None:
        """The call whose prompt and answer this one continues."""

    def set_parent(self, call: C, parent: C) -> None:
        """Record that the call continues another call than the log says."""

    def starts_cold(self, call: C) -> bool:
        """Whether it is the first call of a session, so that whatever it reads from the cache was written by
        another."""

    def compacted(self, call: C) -> bool:
        """Whether a summary replaced the history before it."""

    def by_person(self, call: C) -> bool:
        """Whether its prompt ends with a message from the user."""

    def inputs(self, call: C) -> list[P]:
        """The new messages in its prompt."""

    def reply(self, call: C) -> list[P]:
        """Its answer."""

    def output_tokens(self, call: C) -> int | None:
        """Tokens of the answer, where they were counted to its end."""

    def reasoning_tokens(self, call: C) -> int | None:
        """Those of them that are reasoning."""

    def thoughts(self, parts: list[P]) -> list[bool]:
        """Which parts are reasoning."""

    def estimates(self, parts: list[P]) -> list[float]:
        """Estimated provider tokens of each part."""

    def elastic(self, parts: list[P]) -> list[bool]:
        """Which parts have a size that the log does not show (images, documents)."""

    def pieces(self, parts: list[P], tokens: Sequence[int]) -> list[Piece]:
        """The parts with these lengths; parts of length 0 are left out."""

    def shares(self, parts: list[P]) -> list[int] | None:
        """The lengths assigned to an answer's parts; None before that."""

    def share(self, call: C, parts: list[P], tokens: Sequence[int]) -> None:
        """Assign lengths to the parts of the answer of `call`."""


class CountedPrompts(Generic[C, P]):
    """The prompts and answers of a conversation.

    The first prompt that continues an answer determines the lengths of its parts. So the lengths of all answers are
    determined before the first prompt is made. Prompts are not stored; request them in the order of the calls.
    """

    def __init__(self, log: Conversation[C, P], digest: Any) -> None:
        self._log = log
        self._digest = digest
        self._shared_heads = _shared_heads(log)
        self._heads: dict[str, list[Piece]] = {}
        self._follow_the_cache()
        for call in log.calls():
            self._settle_before(call)
        for call in log.calls():
            self._settle(call)

    def prompt(self, call: C) -> Prompt | None:
        """The prompt of a call, with the length that the provider reported; None if it reported none."""
        total = self._log.length(call)
        if total is None:
            return None
        base, added = self._extends(call)
        if base is None:
            return Prompt(self._from_head(call, total, added), None, "no_head")
        growth = total - (self._log.length(base) or 0)
        if growth < 0:
            return self._shortened(call, base, total, added)
        return self._extended(call, base, growth, added)

    def reply(self, call: C) -> tuple[Piece, ...]:
        """The answer of a call."""
        parts = self._log.reply(call)
        return tuple(self._log.pieces(parts, self._log.shares(parts) or [0] * len(parts)))

    def _follow_the_cache(self) -> None:
        """A call that read exactly what an earlier call of its session left in the cache continues that call."""
        log = self._log
        left: dict[tuple[str, int], C] = {}
        for call in log.calls():
            session, parent, read = log.session(call), log.parent(call), log.read_tokens(call)
            if read and not (parent is not None and log.cached_total(parent) == read):
                found = left.get((session, read))
                fits = found is not None and (log.length(found) or 0) <= (log.length(call) or 0)
                if found is not None and fits and not log.compacted(call):
                    log.set_parent(call, found)
            total = log.cached_total(call)
            if total:
                left[session, total] = call

    def _extends(self, call: C) -> tuple[C | None, list[P]]:
        """The nearest earlier call of known length, and the parts added since its answer."""
        log = self._log
        added = log.inputs(call)
        base = log.parent(call)
        while base is not None and log.length(base) is None:
            # A call of unknown length has no prompt that could be extended, so its messages count as new here.
            added = log.inputs(base) + log.reply(base) + added
            base = log.parent(base)
        return base, added

    def _settle_before(self, call: C) -> None:
        """Determine the lengths of an answer from the first prompt that continues it, together with the new
        messages."""
        log = self._log
        total = log.length(call)
        if total is None:
            return
        base, added = self._extends(call)
        answer = log.reply(base) if base is not None else []
        if base is None or not answer or log.shares(answer) is not None:
            return
        growth = total - (log.length(base) or 0)
        if growth >= 0:
            estimates = self._reply_estimates(base, answer) + log.estimates(added)
            shares = spread(growth, estimates, [False] * len(answer) + log.elastic(added))
            log.share(base, answer, shares.tokens[: len(answer)])

    def _settle(self, call: C) -> None:
        """Assign estimated lengths to an answer that no prompt continues."""
        answer = self._log.reply(call)
        if answer and self._log.shares(answer) is None:
            estimates = self._reply_estimates(call, answer)
            self._log.share(call, answer, split(round(sum(estimates)), estimates))

    def _extended(self, call: C, base: C, growth: int, added: list[P]) -> Prompt:
        log = self._log
        answer = log.reply(base)
        shares = log.shares(answer) or []
        rest = growth - sum(shares)
        if rest >= 0:
            return Prompt(tuple(self._spread(call, rest, added)), Base(log.key(base)), "no_head")
        # Another continuation of the same answer took more for it than this prompt grew by in all.
        tokens = split(growth, [float(one) for one in shares] + log.estimates(added))
        return Prompt(tuple(log.pieces(answer + added, tokens)), Base(log.key(base), False), "no_head")

    def _shortened(self, call: C, base: C, total: int, added: list[P]) -> Prompt:
        """A prompt shorter than its parent's: history was dropped or rewritten.

        Tokens that the provider read from its cache are certainly kept. Otherwise the prompt of the last turn that the
        user started is kept: the thinking blocks come after it, and the next such turn drops them. Otherwise only the
        head is kept.
        """
        log = self._log
        read = log.read_tokens(call)
        keep = read if read <= min(total, log.length(base) or 0) else 0
        above: C | None = base
        while not keep and above is not None:
            length = log.length(above)
            if length is not None and length <= total and log.by_person(above):
                keep = length
            above = log.parent(above)
        if not keep:
            keep = min(total, sum(piece.tokens for piece in self._heads.get(log.session(base), [])))
        return Prompt(tuple(self._spread(call, total - keep, added)), Base(log.key(base), False, keep), "no_head")

    def _from_head(self, call: C, total: int, added: list[P]) -> tuple[Piece, ...]:
        log = self._log
        visible = min(total, round(sum(log.estimates(added))))
        head = self._heads.get(log.session(call))
        if head is None:
            head = self._head(call, total - visible)
            if not log.compacted(call):
                self._heads[log.session(call)] = head
        pieces: list[Piece] = []
        left = total
        for at, piece in enumerate(head):
            # Parts that all sessions share come before parts of this one; messages get their tokens before the rest.
            tokens = min(piece.tokens, left if at == 0 else max(0, left - visible))
            left -= tokens
            if tokens:
                pieces.append(piece._replace(tokens=tokens))
        return tuple(pieces + self._spread(call, left, added))

    def _head(self, call: C, before: int) -> list[Piece]:
        """The head of a session, made of the `before` tokens before its first messages: shared, logged, and its own."""
        log = self._log
        known = log.logged_head(call)
        estimates = log.estimates(known)
        logged = round(sum(estimates))
        hidden = max(0, before - logged)
        group = log.head_of(call)
        shared = max(0, min(hidden, self._shared_heads.get(group, 0) - logged))
        return [
            Piece(self._digest(f"head:{group.agent}:{group.version}:{group.role}"), shared, "unobserved"),
            *log.pieces(known, split(logged, estimates)),
            Piece(self._digest(f"head of:{log.key(call)}"), hidden - shared, "unobserved"),
        ]

    def _spread(self, call: C, tokens: int, parts: list[P]) -> list[Piece]:
        """`parts` with lengths that add up to `tokens`; tokens that they cannot explain come before them."""
        log = self._log
        shares = spread(tokens, log.estimates(parts), log.elastic(parts))
        hidden = self._digest(f"hidden in:{log.key(call)}") if shares.unobserved else 0
        rest = [Piece(hidden, shares.unobserved, "unobserved")] if shares.unobserved else []
        return rest + log.pieces(parts, shares.tokens)

    def _reply_estimates(self, call: C, answer: list[P]) -> list[float]:
        """Provider tokens of each part of an answer; they add up to its count if it was counted to its end."""
        log = self._log
        estimates, output = log.estimates(answer), log.output_tokens(call)
        if not answer or output is None:
            return estimates
        reasoning, thoughts = log.reasoning_tokens(call), log.thoughts(answer)
        if reasoning and any(thoughts) and reasoning <= output and not all(thoughts):
            # The logged summary is shorter than the reasoning that the provider counted.
            return _divided(estimates, thoughts, reasoning, output - reasoning)
        hidden = [at for at, thought in enumerate(thoughts) if thought and not estimates[at]]
        expected = sum(estimates)
        if hidden and output > expected:
            for at in hidden:  # reasoning of which the log contains only a signature
                estimates[at] = (output - expected) / len(hidden)
            return estimates
        return [float(share) for share in split(output, estimates)]


def _divided(estimates: list[float], thoughts: list[bool], reasoning: int, rest: int) -> list[float]:
    """`reasoning` tokens over the parts that are thoughts, `rest` over the others."""
    shares = [0.0] * len(estimates)
    for kind, tokens in ((True, reasoning), (False, rest)):
        group = [at for at, thought in enumerate(thoughts) if thought is kind]
        for at, share in zip(group, split(tokens, [estimates[at] or 1.0 for at in group]), strict=True):
            shares[at] = float(share)
    return shares


def _shared_heads(log: Conversation[C, P]) -> dict[Head, int]:
    """Tokens of the head that sessions share: the most frequent cache read of a cold start.

    What a first call reads from the cache was written by another session. The smallest of several equally frequent.
    """
    reads: dict[Head, Counter[int]] = defaultdict(Counter)
    for call in log.calls():
        read = log.read_tokens(call)
        if read and log.starts_cold(call):
            reads[log.head_of(call)][read] += 1
    return {key: min(counts, key=lambda read: (-counts[read], read)) for key, counts in reads.items()}
