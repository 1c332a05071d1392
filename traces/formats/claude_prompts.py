"""From calls to prompts: the provider's counts are the lengths, the transcript is the structure.

A prompt is its parent's, the parent's answer and the new messages; what it grew by is spread over these. The head
(system prompt and tools) is never in a transcript: it is what the first prompt holds beyond its visible messages.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

from traces.formats.claude_chains import Call, Chain, Transcript, texts
from traces.formats.claude_lines import Part
from traces.lengths import output_estimate, split, spread
from traces.records import Base, Piece, Prompt


class Told(NamedTuple):
    """A call with its prompt (None where its usage is unknown)."""

    prompt: Prompt | None
    reply: tuple[Piece, ...]
    output_tokens_estimate: int | None


class _Head(NamedTuple):
    shared: Piece
    private: Piece


class PromptBuilder:
    """Tells the prompts of one transcript, in the order of its calls."""

    def __init__(self, transcript: Transcript, digest: Any) -> None:
        self.transcript = transcript
        self.digest = digest
        self.shared = _shared_heads(transcript)
        self.heads: dict[str, _Head] = {}
        self.replies: dict[str, list[Piece]] = {}
        self.totals: dict[tuple[str, int], Call] = {}

    def build(self) -> dict[str, Told]:
        """Call key -> what is told of it."""
        prompts: dict[str, Prompt | None] = {}
        for call in self.transcript.calls:
            prompts[call.key] = self._prompt(call)
            if call.cached_total:
                self.totals[call.session, call.cached_total] = call
        return {
            call.key: Told(prompts[call.key], tuple(self._reply(call)), _estimated_output(call))
            for call in self.transcript.calls
        }

    def _prompt(self, call: Call) -> Prompt | None:
        total = call.input_tokens
        if total is None:
            return None
        added = texts(call.inputs)
        base = call.parent
        found = self._provider_parent(call)
        if found is not None:
            base = found
        while base is not None and base.input_tokens is None:
            # A call of unknown length has no prompt to extend: its own messages are new here.
            added = texts(base.inputs) + base.reply + added
            base = base.parent
        if base is None:
            return Prompt(self._from_head(call, total, added), None, "no_head")
        before = base.input_tokens or 0
        if total < before:
            return self._shortened(call, base, total, added)
        return self._extended(call, base, total - before, added)

    def _provider_parent(self, call: Call) -> Call | None:
        """The call of this session after which the cache held exactly what this call read from it."""
        parent, read = call.parent, call.read_tokens
        if not read or call.compaction or (parent is not None and parent.cached_total == read):
            return None
        found = self.totals.get((call.session, read))
        if found is None or (found.input_tokens or 0) > (call.input_tokens or 0):
            return None
        return found

    def _extended(self, call: Call, base: Call, growth: int, added: list[Part]) -> Prompt:
        told = self.replies.get(base.key)
        if told is None:
            estimates = _reply_estimates(base)
            shares = spread(
                growth,
                estimates + [part.estimate for part in added],
                [False] * len(estimates) + [part.elastic for part in added],
            )
            count = len(estimates)
            self.replies[base.key] = _pieces(base.reply, shares.tokens[:count])
            pieces = _pieces(added, shares.tokens[count:]) + self._hidden(call, shares.unobserved)
            return Prompt(tuple(pieces), Base(base.key), "no_head")
        rest = growth - sum(piece.tokens for piece in told)
        if rest >= 0:
            shares = spread(rest, [part.estimate for part in added], [part.elastic for part in added])
            pieces = _pieces(added, shares.tokens) + self._hidden(call, shares.unobserved)
            return Prompt(tuple(pieces), Base(base.key), "no_head")
        # Another continuation of the same answer took more for it than this prompt grew by in all.
        weights = [float(piece.tokens) for piece in told] + [part.estimate for part in added]
        shares = spread(growth, weights, [False] * len(weights))
        again = [piece._replace(tokens=tokens) for piece, tokens in zip(told, shares.tokens, strict=False)]
        pieces = [piece for piece in again if piece.tokens] + _pieces(added, shares.tokens[len(told) :])
        return Prompt(tuple(pieces), Base(base.key, False), "no_head")

    def _shortened(self, call: Call, base: Call, total: int, added: list[Part]) -> Prompt:
        """A prompt below its parent's length: history was dropped or rewritten.

        What the provider read from its cache is certainly kept. Otherwise the prompt of the last turn that a person
        started is: after it come the thinking blocks, which the next such turn drops.
        """
        read = call.read_tokens or 0
        keep = read if 0 < read <= total and read <= (base.input_tokens or 0) else 0
        above: Call | None = base
        while not keep and above is not None:
            if above.input_tokens is not None and above.input_tokens <= total and _by_person(above):
                keep = above.input_tokens
            above = above.parent
        head = self.heads.get(base.session)
        if not keep and head is not None:
            keep = min(total, head.shared.tokens + head.private.tokens)
        shares = spread(total - keep, [part.estimate for part in added], [part.elastic for part in added])
        pieces = self._hidden(call, shares.unobserved) + _pieces(added, shares.tokens)
        return Prompt(tuple(pieces), Base(base.key, False, keep), "no_head")

    def _from_head(self, call: Call, total: int, added: list[Part]) -> tuple[Piece, ...]:
        visible = min(total, round(sum(part.estimate for part in added)))
        head = self.heads.get(call.session)
        if head is None:
            chain = self.transcript.chains[call.session]
            hidden = total - visible
            shared = min(hidden, self.shared.get((chain.version, _role(chain)), 0))
            head = _Head(
                Piece(self.digest(f"head:claude_code:{chain.version}:{_role(chain)}"), shared, "unobserved"),
                Piece(self.digest(f"head of:{call.key}"), hidden - shared, "unobserved"),
            )
            if not call.compaction:
                self.heads[call.session] = head
        shared = min(head.shared.tokens, total)
        private = min(head.private.tokens, max(0, total - shared - visible))
        pieces = [head.shared._replace(tokens=shared), head.private._replace(tokens=private)]
        shares = spread(total - shared - private, [part.estimate for part in added], [part.elastic for part in added])
        pieces += _pieces(added, shares.tokens) + self._hidden(call, shares.unobserved)
        return tuple(piece for piece in pieces if piece.tokens)

    def _hidden(self, call: Call, tokens: int) -> list[Piece]:
        return [Piece(self.digest(f"hidden in:{call.key}"), tokens, "unobserved")] if tokens else []

    def _reply(self, call: Call) -> list[Piece]:
        told = self.replies.get(call.key)
        if told is not None:
            return told
        estimates = _reply_estimates(call)
        return _pieces(call.reply, split(round(sum(estimates)), estimates))


def _shared_heads(transcript: Transcript) -> dict[tuple[str | None, str], int]:
    """(version, role) -> tokens of the head that sessions share: the most frequent cache read of a cold start.

    What a first call reads from the cache was written by another session. The smallest of several equally frequent.
    """
    reads: dict[tuple[str | None, str], Counter[int]] = defaultdict(Counter)
    for chain in transcript.chains.values():
        first = chain.calls[0] if chain.calls else None
        if first is not None and first.read_tokens and first.parent is None and not first.dangling:
            reads[chain.version, _role(chain)][first.read_tokens] += 1
    return {key: min(counts, key=lambda read: (-counts[read], read)) for key, counts in reads.items()}


def _role(chain: Chain) -> str:
    return "main" if chain.role == "main" else "subagent"


def _by_person(call: Call) -> bool:
    return any(not line.results and not line.meta for line in call.inputs)


def _reply_estimates(call: Call) -> list[float]:
    """Provider tokens of each part of an answer; where the answer was counted to its end they add up to that."""
    estimates = [part.estimate for part in call.reply]
    output = call.usage.output_tokens if call.usage else None
    if not estimates or output is None or call.stop_reason is None:
        return estimates
    hidden = [at for at, part in enumerate(call.reply) if part.role == "reasoning" and not part.counted]
    expected = sum(estimates)
    if hidden and output > expected:
        for at in hidden:  # thinking of which only the signature is kept
            estimates[at] = (output - expected) / len(hidden)
        return estimates
    return [float(share) for share in split(output, estimates)]


def _estimated_output(call: Call) -> int | None:
    if call.stop_reason is not None and call.usage is not None and call.usage.output_tokens is not None:
        return None
    return output_estimate(sum(part.counted for part in call.reply), sum(part.calls for part in call.reply))


def _pieces(parts: list[Part], tokens: list[int]) -> list[Piece]:
    return [Piece(part.key, count, part.role) for part, count in zip(parts, tokens, strict=True) if count]
