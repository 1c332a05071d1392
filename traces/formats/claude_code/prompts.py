"""From calls to prompts: the provider's counts are the lengths, the transcript is the structure.

A prompt is its parent's, the parent's answer and the new messages; what it grew by is spread over these. The head
(system prompt and tools) is never in a transcript: it is what the first prompt holds beyond its visible messages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from traces.formats.claude_code.chains import Chain, Chains
from traces.formats.claude_code.parts import CALL
from traces.formats.claude_code.store import META, RESULT, TranscriptStore
from traces.records import ROLES, Base, Piece, Prompt
from traces.text.lengths import output_estimate, split, spread


class _Head(NamedTuple):
    shared: Piece
    private: Piece


class Prompts:
    """Tells the prompts of the calls of a transcript.

    An answer's lengths are settled by the first prompt that continues it, so every prompt is worked out once before the
    first is told; told prompts are not kept.
    """

    def __init__(self, chains: Chains, digest: Any) -> None:
        self.chains = chains
        self.store: TranscriptStore = chains.store
        self.calls = self.store.calls
        self.digest = digest
        self.shared = _shared_heads(chains)
        self.heads: dict[str, _Head] = {}
        self._follow_the_cache()
        for call in range(len(self.calls)):
            self._settle_before(call)
        for call in range(len(self.calls)):
            self._settle(call)

    def prompt(self, call: int) -> Prompt | None:
        """The prompt of a call, as long as the provider says; None where it does not say. Ask in the order of calls."""
        total = self.calls.input_tokens(call)
        if total is None:
            return None
        base, added = self._extends(call)
        if base < 0:
            return Prompt(self._from_head(call, total, added), None, "no_head")
        growth = total - (self.calls.input_tokens(base) or 0)
        if growth < 0:
            return self._shortened(call, base, total, added)
        return self._extended(call, base, growth, added)

    def reply(self, call: int) -> tuple[Piece, ...]:
        """The answer of a call."""
        parts = self.store.reply(call)
        return tuple(self._pieces(parts, [self.store.parts.share[part] for part in parts]))

    def output_estimate(self, call: int) -> int | None:
        """Estimated output tokens, where the recorded figure is none or a partial one."""
        if self._output(call) is not None:
            return None
        parts, reply = self.store.parts, self.store.reply(call)
        return output_estimate(sum(parts.counted[part] for part in reply), sum(map(parts.calls, reply)))

    def _follow_the_cache(self) -> None:
        """Where a call read exactly what an earlier call of its session left in the cache, that call is its parent."""
        left: dict[tuple[str, int], int] = {}
        for call in range(len(self.calls)):
            session, parent = self.chains.chain(call).key, self.chains.parent[call]
            read = self.calls.read_tokens(call)
            if read and not (parent >= 0 and self.calls.cached_total(parent) == read):
                found = left.get((session, read), -1)
                fits = found >= 0 and (self.calls.input_tokens(found) or 0) <= (self.calls.input_tokens(call) or 0)
                if fits and not self.chains.compacted[call]:
                    self.chains.parent[call] = found
            total = self.calls.cached_total(call)
            if total:
                left[session, total] = call

    def _extends(self, call: int) -> tuple[int, list[int]]:
        """The nearest call before of known length (-1: none), and the parts that came since its answer."""
        added = self._given(call)
        base = self.chains.parent[call]
        while base >= 0 and self.calls.input_tokens(base) is None:
            # A call of unknown length has no prompt to extend: its own messages are new here.
            added = self._given(base) + self.store.reply(base) + added
            base = self.chains.parent[base]
        return base, added

    def _given(self, call: int) -> list[int]:
        return [part for at in self.chains.inputs(call) for part in self.store.parts_of(at)]

    def _settle_before(self, call: int) -> None:
        """Settle the lengths of the answer that a prompt is the first to continue, together with its new messages."""
        total, share = self.calls.input_tokens(call), self.store.parts.share
        if total is None:
            return
        base, added = self._extends(call)
        answer = self.store.reply(base) if base >= 0 else []
        growth = total - (self.calls.input_tokens(base) or 0) if base >= 0 else -1
        if growth < 0 or not answer or share[answer[0]] >= 0:
            return
        estimates = self._reply_estimates(base, answer) + self._estimates(added)
        shares = spread(growth, estimates, [False] * len(answer) + self._elastic(added))
        for part, tokens in zip(answer, shares.tokens, strict=False):
            share[part] = tokens

    def _extended(self, call: int, base: int, growth: int, added: list[int]) -> Prompt:
        answer = self.store.reply(base)
        told = [self.store.parts.share[part] for part in answer]
        rest = growth - sum(told)
        if rest >= 0:
            shares = spread(rest, self._estimates(added), self._elastic(added))
            pieces = self._pieces(added, shares.tokens) + self._hidden(call, shares.unobserved)
            return Prompt(tuple(pieces), Base(self.calls.key[base]), "no_head")
        # Another continuation of the same answer took more for it than this prompt grew by in all.
        tokens = split(growth, [float(one) for one in told] + self._estimates(added))
        return Prompt(tuple(self._pieces(answer + added, tokens)), Base(self.calls.key[base], False), "no_head")

    def _shortened(self, call: int, base: int, total: int, added: list[int]) -> Prompt:
        """A prompt below its parent's length: history was dropped or rewritten.

        What the provider read from its cache is certainly kept. Otherwise the prompt of the last turn that a person
        started is: after it come the thinking blocks, which the next such turn drops.
        """
        length = self.calls.input_tokens(base) or 0
        read = self.calls.read_tokens(call)
        keep = read if read <= min(total, length) else 0
        above = base
        while not keep and above >= 0:
            before = self.calls.input_tokens(above)
            if before is not None and before <= total and self._by_person(above):
                keep = before
            above = self.chains.parent[above]
        head = self.heads.get(self.chains.chain(base).key)
        if not keep and head is not None:
            keep = min(total, head.shared.tokens + head.private.tokens)
        shares = spread(total - keep, self._estimates(added), self._elastic(added))
        pieces = self._hidden(call, shares.unobserved) + self._pieces(added, shares.tokens)
        return Prompt(tuple(pieces), Base(self.calls.key[base], False, keep), "no_head")

    def _from_head(self, call: int, total: int, added: list[int]) -> tuple[Piece, ...]:
        visible = min(total, round(sum(self._estimates(added))))
        chain = self.chains.chain(call)
        head = self.heads.get(chain.key)
        if head is None:
            hidden = total - visible
            shared = min(hidden, self.shared.get((chain.version, _role(chain)), 0))
            head = _Head(
                Piece(self.digest(f"head:claude_code:{chain.version}:{_role(chain)}"), shared, "unobserved"),
                Piece(self.digest(f"head of:{self.calls.key[call]}"), hidden - shared, "unobserved"),
            )
            if not self.chains.compacted[call]:
                self.heads[chain.key] = head
        shared = min(head.shared.tokens, total)
        private = min(head.private.tokens, max(0, total - shared - visible))
        pieces = [head.shared._replace(tokens=shared), head.private._replace(tokens=private)]
        shares = spread(total - shared - private, self._estimates(added), self._elastic(added))
        pieces += self._pieces(added, shares.tokens) + self._hidden(call, shares.unobserved)
        return tuple(piece for piece in pieces if piece.tokens)

    def _hidden(self, call: int, tokens: int) -> list[Piece]:
        return [Piece(self.digest(f"hidden in:{self.calls.key[call]}"), tokens, "unobserved")] if tokens else []

    def _pieces(self, parts: Sequence[int], tokens: Sequence[int]) -> list[Piece]:
        keys, codes = self.store.parts.key, self.store.parts.code
        told = zip(parts, tokens, strict=True)
        return [Piece(keys[part], count, ROLES[codes[part] & (CALL - 1)]) for part, count in told if count]

    def _estimates(self, parts: list[int]) -> list[float]:
        return list(map(self.store.parts.estimate, parts))

    def _elastic(self, parts: list[int]) -> list[bool]:
        return list(map(self.store.parts.elastic, parts))

    def _settle(self, call: int) -> None:
        """Give an answer that no prompt continues its estimated lengths."""
        answer = self.store.reply(call)
        if answer and self.store.parts.share[answer[0]] < 0:
            estimates = self._reply_estimates(call, answer)
            for part, tokens in zip(answer, split(round(sum(estimates)), estimates), strict=True):
                self.store.parts.share[part] = tokens

    def _output(self, call: int) -> int | None:
        """Output tokens, where they were counted to the end."""
        return self.calls.output_tokens(call) if self.calls.stop[call] else None

    def _reply_estimates(self, call: int, answer: list[int]) -> list[float]:
        """Provider tokens of each part of an answer; where the answer was counted to its end they add up to that."""
        output = self._output(call)
        table, estimates = self.store.parts, self._estimates(answer)
        if not answer or output is None:
            return estimates
        hidden = [at for at, part in enumerate(answer) if table.role(part) == "reasoning" and not table.counted[part]]
        expected = sum(estimates)
        if hidden and output > expected:
            for at in hidden:  # thinking of which only the signature is kept
                estimates[at] = (output - expected) / len(hidden)
            return estimates
        return [float(share) for share in split(output, estimates)]

    def _by_person(self, call: int) -> bool:
        lines = self.store.lines
        given = self.chains.inputs(call)
        return any(not lines.flags[at] & (META | RESULT) for at in given)


def _shared_heads(chains: Chains) -> dict[tuple[str | None, str], int]:
    """(version, role) -> tokens of the head that sessions share: the most frequent cache read of a cold start.

    What a first call reads from the cache was written by another session. The smallest of several equally frequent.
    """
    reads: dict[tuple[str | None, str], Counter[int]] = defaultdict(Counter)
    for chain in chains.by_key.values():
        if not len(chain.calls):
            continue
        first = chain.calls[0]
        read = chains.store.calls.read_tokens(first)
        if read and chains.parent[first] < 0 and not chains.dangling[first]:
            reads[chain.version, _role(chain)][read] += 1
    return {key: min(counts, key=lambda read: (-counts[read], read)) for key, counts in reads.items()}


def _role(chain: Chain) -> str:
    return "main" if chain.role == "main" else "subagent"
