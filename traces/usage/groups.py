"""The usage objects of one provider, model and set of names, counted by what they show, and what they decide."""

from __future__ import annotations

from collections import Counter
from typing import Any

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
        self.pairs: Counter[m.Pairs] = Counter()  # of objects whose total fits several pairs of meanings
        self.bare = 0
        self.odd = 0
        self.uncached = 0
        self.examples: dict[tuple[str, tuple[Any, ...]], str] = {}

    def assumed(self, decided: str | None) -> bool:
        """Whether what is read with the meaning `decided` of the whole source (None: its default) is an assumption.

        Cached tokens above an input that usually includes them show that it does not, but not that it leaves out all.
        """
        if decided is None:
            return self.guessed
        shown = any(by in ("total", "parts") for by, _ in self.input)
        return self.anyone and decided == m.OUTSIDE != self.default.input and not shown


def _leading(votes: Votes, bare: int, documented: bool) -> list[str]:
    """The meanings that fit most objects of a group: none where they show none, several where all fit those alike.

    Cached tokens above the input prove that it excludes them. Totals that equal input + output say nothing where they
    do so in such objects too: whoever wrote them added up the two figures. Rare objects that contradict the rest, or
    the documented meaning of their names, are faults of the source.
    """
    shown = {vote: count for vote, count in votes.items() if vote[1]}
    if not shown:
        return []
    exceeding = sum(count for (by, _), count in shown.items() if by == "exceeds")
    including = sum(count for (_, fits), count in shown.items() if m.INCLUDES in fits and m.OUTSIDE not in fits)
    if documented and not including and 0 < exceeding <= RARE * (exceeding + votes["open", ()]):
        return [m.INCLUDES]
    if exceeding and including:
        if exceeding <= RARE * (exceeding + including):
            shown = {vote: count for vote, count in shown.items() if vote[0] != "exceeds"}
        elif bare and not any(by == "total" and m.INCLUDES not in fits for by, fits in shown):
            return [m.OUTSIDE]
    fitting = {meaning: sum(n for (_, fits), n in shown.items() if meaning in fits) for meaning in EVERY}
    best = max(fitting.values())
    leading = [meaning for meaning, count in fitting.items() if count == best]
    return leading if best and (len(leading) == 1 or best == sum(shown.values())) else []


def decision(groups: list[Group]) -> Decision:
    """What the objects of several groups decide together."""
    inputs: Votes = Counter()
    outputs: Votes = Counter()
    for group in groups:
        inputs.update(group.input)
        outputs.update(group.output)
    bare = sum(group.bare for group in groups)
    documented = not any(group.generic or group.default.input != m.INCLUDES for group in groups)
    pairs: Counter[m.Pairs] = sum((group.pairs for group in groups), Counter())
    of_input, of_output = _joint(_leading(inputs, bare, documented), _leading(outputs, 0, False), pairs)
    return of_input, of_output, bool(bare) and of_input == m.OUTSIDE


def _joint(inputs: list[str], outputs: list[str], pairs: Counter[m.Pairs]) -> tuple[str | None, str | None]:
    """The meanings of input and output, each among those that lead, that give the most totals together.

    Where several pairs give as many, what they differ in is not shown.
    """
    if not pairs or not inputs or not outputs:
        return inputs[0] if inputs else None, outputs[0] if outputs else None
    given = {(i, o): sum(n for fits, n in pairs.items() if (i, o) in fits) for i in inputs for o in outputs}
    best = [pair for pair, count in given.items() if count == max(given.values())]
    of_input, of_output = best[0]
    return (
        of_input if all(i == of_input for i, _ in best) else None,
        of_output if all(o == of_output for _, o in best) else None,
    )
