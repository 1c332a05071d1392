"""The usage objects of one provider, model and set of names, counted by what they show, and what they decide."""

from __future__ import annotations

from collections import Counter

from traces.usage import meaning as m

RARE = 0.05
"""Up to this share of a group's objects may contradict the rest and be taken for faults of the source."""


Decision = tuple[str | None, str | None, bool]
"""Meaning of the input, meaning of the output (None: not shown), whether totals leave cached tokens out."""

Votes = Counter[tuple[str, tuple[str, ...]]]
"""What objects showed, with their count: (by, the meanings that fit); by as in `traces.usage.meaning.Shown`."""

EVERY = (m.INCLUDES, m.OUTSIDE, m.READ_OUTSIDE, m.WRITE_OUTSIDE, m.WITHIN, m.APART)


class Group:
    """The objects of one provider, model and set of names, counted by what they showed of each meaning."""

    def __init__(self, default: m.Default, generic: bool, stated: bool, anyone: bool) -> None:
        self.default = default
        self.guessed = (anyone and not stated) or generic  # where nothing shows a meaning, it is an assumption
        self.anyone = anyone
        self.generic = generic  # nobody documents what these names mean together
        self.input: Votes = Counter()  # of objects with cached tokens
        self.output: Votes = Counter()  # of objects with reasoning
        self.bare = 0
        self.odd = 0
        self.uncached = 0
        self.examples: dict[tuple[str, tuple[str, ...]], str] = {}

    def assumed(self, decided: str | None) -> bool:
        """Whether what is read with the meaning `decided` of the whole source (None: its default) is an assumption.

        Cached tokens above an input that usually includes them show that it does not, but not that it leaves out all.
        """
        if decided is None:
            return self.guessed
        shown = any(by in ("total", "parts") for by, _ in self.input)
        return self.anyone and decided == m.OUTSIDE != self.default.input and not shown


def _decided(votes: Votes, bare: int, documented: bool) -> str | None:
    """The meaning that the objects of a group show; None where they show none or as many show another.

    Cached tokens above the input prove that it excludes them. Totals that equal input + output say nothing where they
    do so in such objects too: whoever wrote them added up the two figures. Rare objects that contradict the rest, or
    the documented meaning of their names, are faults of the source.
    """
    shown = {vote: count for vote, count in votes.items() if vote[1]}
    if not shown:
        return None
    exceeding = sum(count for (by, _), count in shown.items() if by == "exceeds")
    including = sum(count for (_, fits), count in shown.items() if m.INCLUDES in fits and m.OUTSIDE not in fits)
    if documented and not including and 0 < exceeding <= RARE * (exceeding + votes["open", ()]):
        return m.INCLUDES
    if exceeding and including:
        if exceeding <= RARE * (exceeding + including):
            shown = {vote: count for vote, count in shown.items() if vote[0] != "exceeds"}
        elif bare and not any(by == "total" and m.INCLUDES not in fits for by, fits in shown):
            return m.OUTSIDE
    fitting = {meaning: sum(n for (_, fits), n in shown.items() if meaning in fits) for meaning in EVERY}
    best = max(fitting.values())
    leading = [meaning for meaning, count in fitting.items() if count == best]
    return leading[0] if best and (len(leading) == 1 or best == sum(shown.values())) else None


def decision(groups: list[Group]) -> Decision:
    """What the objects of several groups decide together."""
    inputs: Votes = Counter()
    outputs: Votes = Counter()
    for group in groups:
        inputs.update(group.input)
        outputs.update(group.output)
    bare = sum(group.bare for group in groups)
    documented = not any(group.generic or group.default.input != m.INCLUDES for group in groups)
    of_input = _decided(inputs, bare, documented)
    return of_input, _decided(outputs, 0, False), bool(bare) and of_input == m.OUTSIDE
