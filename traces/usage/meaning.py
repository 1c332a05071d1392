"""What the figures of one usage object mean, by arithmetic before names.

Two things differ between writers: whether the input holds the cached tokens, and whether the output holds the
reasoning. A total that equals one sum of the parts and no other decides both. Cached tokens above the input cannot be
in it. What one object leaves open is decided by the others of its source (`traces.usage.evidence`), then by its names.
"""

from __future__ import annotations

from typing import NamedTuple

from traces.usage.counts import Usage
from traces.usage.names import BESIDE, EXCLUDES, GENERIC, Figures

INCLUDES, OUTSIDE, READ_OUTSIDE, WRITE_OUTSIDE = "includes", "excludes", "excludes read", "excludes write"
"""Input includes cached tokens; excludes them; excludes what was read and holds what was written; the reverse."""

WITHIN, APART = "within", "apart"
"""Reasoning is part of the output figure; stands beside it."""

EXCLUDING_PROVIDERS = ("anthropic", "claude", "bedrock")
"""Providers whose input figure leaves the cached tokens out; matched as parts of the name."""

STATED = ("inclusive", "goose")
"""What readers pass as the provider where the input is known to include cached tokens."""


class Default(NamedTuple):
    """What is assumed where nothing shows it: a meaning of the input and one of the output."""

    input: str = INCLUDES
    output: str = WITHIN


class Shown(NamedTuple):
    """What one object shows of one of the two meanings.

    `by`: "same" (every meaning gives the same count), "name", "total", "parts", "exceeds" (cached above input, or
    reasoning above output), or "" (nothing shows it). `meaning` is set for total, parts and
    exceeds. `fits`: the meanings that are possible.
    """

    by: str
    meaning: str = ""
    fits: tuple[str, ...] = ()


Pairs = tuple[tuple[str, str], ...]
"""Meanings of the input and of the output."""


class Weighed(NamedTuple):
    """An object's figures weighed: what it shows of input and output. `odd_total`: its total equals no sum."""

    input: Shown
    output: Shown
    odd_total: bool = False
    bare_total: bool = False  # the total is input + output though the input cannot hold the cached tokens
    pairs: Pairs = ()  # meanings of input and output that give the total together, where it decides neither alone


def default_of(styles: frozenset[str], provider: str, disjoint: bool | None) -> Default:
    """The usual meaning of names; the provider decides where they leave it open, `disjoint` in any case."""
    excludes = EXCLUDES in styles
    if disjoint is not None or provider in STATED:
        excludes = bool(disjoint)
    elif GENERIC in styles and not excludes:
        excludes = any(name in provider for name in EXCLUDING_PROVIDERS)
    return Default(OUTSIDE if excludes else INCLUDES, APART if BESIDE in styles else WITHIN)


def prompt(f: Figures, meaning: str) -> int | None:
    """All prompt tokens under a meaning of the input."""
    if f.whole is not None:
        return f.whole
    read, written = f.read or 0, f.written or 0
    if f.fresh is not None and (f.input is None or f.input == f.fresh):
        return f.fresh + read + written + (f.tools or 0)
    if f.input is None:
        return None
    base = f.input + (f.tools or 0)
    if meaning == OUTSIDE:
        return base + read + written + (f.more_input or 0)
    return base + (read if meaning == READ_OUTSIDE else written if meaning == WRITE_OUTSIDE else 0)


def answer(f: Figures, meaning: str) -> int | None:
    """All output tokens under a meaning of the output."""
    if f.output is None:
        return f.reasoning if meaning == APART else None
    return f.output + ((f.reasoning or 0) + (f.more_output or 0) if meaning == APART else 0)


def usage(f: Figures, input_meaning: str, output_meaning: str) -> Usage:
    """The five counts under the two meanings."""
    return Usage(prompt(f, input_meaning), f.read, f.written, answer(f, output_meaning), f.reasoning)


def weigh(f: Figures, documented: bool) -> Weighed:
    """What the arithmetic of one object shows.

    Reads and writes that only together exceed the input may overlap where the names are `documented` ones.
    """
    cached = (f.read or 0) + (f.written or 0)
    named = f.whole is not None or (f.fresh is not None and f.input in (None, f.fresh))
    most = max(f.read or 0, f.written or 0) if documented else cached
    exceeds = f.input is not None and most > f.input + (f.tools or 0)
    reasons = f.reasoning or 0
    over = f.output is not None and reasons > f.output
    inputs = [INCLUDES] if f.input is None or not cached + (f.more_input or 0) else _possible(f, exceeds)
    outputs = (
        [WITHIN] if not reasons + (f.more_output or 0) or f.output is None else [APART] if over else [WITHIN, APART]
    )
    split = _split(f, cached)
    if split is not None and not named:
        inputs, named = [split], True
    of_input = Shown("name" if named else "same" if inputs == [INCLUDES] and not exceeds else "", "", tuple(inputs))
    of_output = Shown("exceeds" if over else "same" if len(outputs) == 1 else "", APART if over else "", tuple(outputs))
    if split is not None:
        of_input = of_input._replace(by="parts", meaning=split)
    if f.total is None or (f.input is None and f.fresh is None and f.whole is None) or f.output is None:
        return Weighed(_exceeding(of_input, exceeds, named), of_output)
    pairs = [(i, o) for i in inputs for o in outputs if (prompt(f, i) or 0) + (answer(f, o) or 0) == f.total]
    bare = not pairs and exceeds and f.total in ((f.input or 0) + f.output, (f.input or 0) + f.output + reasons)
    if not pairs:
        return Weighed(_exceeding(of_input, exceeds, named), of_output, not bare, bare)
    if not of_input.by:
        of_input = _agreed(of_input, [i for i, _ in pairs], {i: prompt(f, i) for i in inputs})
    if not of_output.by:
        fitting = [o for i, o in pairs if not of_input.meaning or prompt(f, i) == prompt(f, of_input.meaning)]
        of_output = _agreed(of_output, fitting, {o: answer(f, o) for o in outputs})
    joint = () if of_input.by or of_output.by else tuple(pairs)
    return Weighed(_exceeding(of_input, exceeds, named), of_output, pairs=joint)


def _possible(f: Figures, exceeds: bool) -> list[str]:
    inputs = [OUTSIDE] if exceeds else [INCLUDES, OUTSIDE]
    if f.input is not None and f.total is not None:
        # One part outside, the other inside: only ever where a total says so.
        inputs += [READ_OUTSIDE] if (f.written or 0) <= f.input else []
        inputs += [WRITE_OUTSIDE] if (f.read or 0) <= f.input else []
    return inputs


def _split(f: Figures, cached: int) -> str | None:
    """The meaning that a second figure of the input shows: one of the two holds the cached tokens."""
    for other in (f.fresh, f.second_input):
        if other is not None and f.input is not None and cached and f.input == other + cached:
            return INCLUDES
    return None


def _exceeding(shown: Shown, exceeds: bool, named: bool) -> Shown:
    if not exceeds or named or shown.by:
        return shown
    return Shown("exceeds", OUTSIDE, (OUTSIDE,))


def _agreed(shown: Shown, meanings: list[str], counts: dict[str, int | None]) -> Shown:
    """What a total says: one meaning, or several that give one count; else it only narrows what is possible."""
    values = {counts[meaning] for meaning in meanings}
    if len(values) == 1:
        return Shown("total", meanings[0], tuple(meanings))
    return shown._replace(fits=tuple(dict.fromkeys(meanings)))
