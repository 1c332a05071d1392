"""Prompts from full message lists: what each prompt adds to the longest earlier prompt that it begins with.

Logged requests repeat the whole conversation, so each message is flattened and tokenised once and then recognised by
its content. A prompt is recorded as the leading tokens of an earlier prompt and the messages after them. If the
provider
counted the prompt, that count is its length: the growth is distributed over the new messages by their estimates, and a
large excess is `unobserved` (traces.text.lengths). If it did not, the prompt is the tokenizer's ids, exact to the
token.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import xxhash

from traces.calls.entries import MESSAGE_TOKENS, Entry
from traces.records import Base, Context, Piece, Prompt
from traces.text.lengths import PER_TOKEN, PER_TOOL_CALL, split, spread

KNOWN_PLACES = 400_000


class LoggedCall(NamedTuple):
    """A prompt, its length (None if it was not counted and is not exact), and the pieces of its answer."""

    prompt: Prompt | None = None
    tokens: int | None = None
    reply: tuple[Piece, ...] | None = None


class _Place(NamedTuple):
    request_key: str
    tokens: int


class History:
    """The messages and prompts of one source. Memory is bounded: a forgotten prompt is only recorded in full again."""

    def __init__(self, context: Context) -> None:
        self._digest = context.digest
        self._places: OrderedDict[int, _Place] = OrderedDict()
        self._replies: OrderedDict[int, tuple[int, int]] = OrderedDict()  # place -> (entry key, tokens)

    def add(
        self,
        key: str,
        entries: Sequence[Entry],
        total: int | None,
        reply: Sequence[Entry] = (),
        output: int | None = None,
        model: str | None = None,
        hidden: Piece | None = None,
        guess: bool = False,
    ) -> LoggedCall:
        """The prompt of request `key` that consists of `entries`.

        Args:
            key: Unique in the source; later prompts may be recorded as extending this one.
            entries: The whole prompt in the order in which it is sent.
            total: Prompt tokens that the provider counted; None if it did not count them.
            reply: The answer's entries.
            output: Output tokens that the provider counted.
            model: Different models use different tokenizers, so a prompt never extends one of another model.
            hidden: What comes before `entries` and is not in them (stored contents, a chain that is not logged).
            guess: The source gives lengths as the provider counts them, so this one does too: estimated if `total` is
                None.
        """
        exact = (total is None and not guess) or (bool(entries) and all(entry.exact for entry in entries))
        places = _after(self._digest(f"{model}|{exact}|{0 if hidden is None else hidden.key}"), entries)
        start, kept = self._begin(places)
        base = None if start == 0 else kept
        length, whole = total, total or 0
        if exact:
            prompt, ends, length = self._counted(entries, start, base, hidden)
        else:
            if total is None:
                before = kept.tokens if hidden is None or start else hidden.tokens
                whole = before + round(sum(self._estimate(entry, model) for entry in entries[start:]))
            prompt, ends = self._measured(key, entries, places, start, base, whole, hidden, model)
        if not prompt.pieces and prompt.base is None:
            return LoggedCall()
        for at, tokens in zip(places[start:], ends, strict=True):
            self._places[at] = _Place(key, tokens)
        if places and not exact:
            self._places[places[-1]] = _Place(key, whole)
        while len(self._places) > KNOWN_PLACES:
            self._places.popitem(last=False)
        answer = self._answer(places[-1] if places else 0, reply, output, not exact)
        if places:
            prompt = prompt._replace(content=([places[-1], *_after(places[-1], reply)])[-1])
        if hidden is not None:
            return LoggedCall(prompt._replace(completeness="no_head"), total, answer)
        return LoggedCall(prompt, length, answer)

    def _begin(self, places: Sequence[int]) -> tuple[int, _Place]:
        for count in range(len(places), 0, -1):
            found = self._places.get(places[count - 1])
            if found is not None:
                return count, found
        return 0, _Place("", 0)

    def _counted(
        self, entries: Sequence[Entry], start: int, base: _Place | None, hidden: Piece | None
    ) -> tuple[Prompt, list[int], int]:
        at = 0 if base is None else base.tokens
        pieces = [] if base is not None or hidden is None else [hidden]
        at += sum(piece.tokens for piece in pieces)
        ends = []
        for entry in entries[start:]:
            pieces += entry.pieces
            at += entry.tokens
            ends.append(at)
        return Prompt(tuple(pieces), _base(base)), ends, at

    def _measured(
        self,
        key: str,
        entries: Sequence[Entry],
        places: Sequence[int],
        start: int,
        base: _Place | None,
        total: int,
        hidden: Piece | None,
        model: str | None,
    ) -> tuple[Prompt, list[int]]:
        new = entries[start:]
        weights = [self._estimate(entry, model) for entry in new]
        pieces: list[Piece] = []
        at = 0
        if base is not None:
            # The prompt is shorter than the one it extends: the provider dropped something. Only its end is new.
            at = base.tokens if base.tokens <= total else max(0, total - round(sum(weights)))
        elif hidden is not None:
            at = min(hidden.tokens, total)
            pieces.append(hidden._replace(tokens=at))
        shares = self._shares(new, weights, total - at, places[start - 1] if start else None)
        ends = []
        reached = at
        for entry, share in zip(new, shares, strict=True):
            sizes = split(share, [float(piece.tokens) for piece in entry.pieces])
            pieces += [Piece(p.key, n, p.role) for p, n in zip(entry.pieces, sizes, strict=True) if n > 0]
            reached += share if entry.pieces else 0
            ends.append(reached)
        if total > reached:
            pieces.append(Piece(self._digest(f"hidden in:{key}"), total - reached, "unobserved"))
        kept = None if base is None else _Place(base.request_key, at)
        return Prompt(tuple(pieces), _base(kept)), ends

    def _shares(self, new: Sequence[Entry], weights: list[float], growth: int, before: int | None) -> list[int]:
        """Tokens of each new entry. Entries with a certain size get it first.

        Tools and system prompts have the size of their text everywhere, so that prompts of other sessions and files
        share them. A repeated answer has the size with which it was generated.
        """
        fixed: dict[int, int] = {at: round(weights[at]) for at, entry in enumerate(new) if entry.head}
        again = self._replies.get(before) if before is not None else None
        if again is not None and new and new[0].key == again[0]:
            fixed[0] = again[1]
        rest = [at for at in range(len(new)) if at not in fixed]
        left = growth - sum(fixed.values())
        if left < 0.5 * sum(weights[at] for at in rest) or (not rest and left < 0):
            fixed, rest, left = {}, list(range(len(new))), growth
        spread_out = spread(left, [weights[at] for at in rest], [new[at].elastic for at in rest])
        shares = [0] * len(new)
        for at, tokens in fixed.items():
            shares[at] = tokens
        for at, tokens in zip(rest, spread_out.tokens, strict=True):
            shares[at] = tokens
        return shares

    def _estimate(self, entry: Entry, model: str | None) -> float:
        if not entry.pieces:
            return 0.0
        claude = model is not None and "claude" in model
        per_call = PER_TOOL_CALL if claude else MESSAGE_TOKENS
        return entry.tokens * (PER_TOKEN if claude else 1.0) + per_call * len(entry.calls)

    def _answer(
        self, place: int, reply: Sequence[Entry], output: int | None, measured: bool
    ) -> tuple[Piece, ...] | None:
        pieces = [piece for entry in reply for piece in entry.pieces]
        if not pieces:
            return None
        if not measured:
            return tuple(pieces)
        if output is None:
            output = round(sum(self._estimate(entry, None) for entry in reply))
        sizes = split(output, [float(piece.tokens) for piece in pieces])
        if len(reply) == 1:
            self._replies[place] = (reply[0].key, output)
            while len(self._replies) > KNOWN_PLACES:
                self._replies.popitem(last=False)
        return tuple(Piece(p.key, n, p.role) for p, n in zip(pieces, sizes, strict=True) if n > 0)


def _after(place: int, entries: Sequence[Entry]) -> list[int]:
    """A digest of everything up to the end of each entry, where `place` is that of what comes before."""
    places = []
    for entry in entries:
        place = xxhash.xxh3_64_intdigest(place.to_bytes(8, "little") + entry.key.to_bytes(8, "little"))
        places.append(place)
    return places


def _base(place: _Place | None) -> Base | None:
    return None if place is None else Base(place.request_key, False, place.tokens)
