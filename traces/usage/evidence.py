"""What the usage objects of one source show together: the meaning of its figures, and the sentence that says so.

A source is read once with the meaning that each object shows by itself or that its names usually have. The objects are
counted by group (provider, model, names) and by what they showed. At the end the groups are decided; where a decision
differs from what was assumed for an object, the source is read again with the decisions (`traces.intake.reading`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from traces.records import Evidence
from traces.usage import meaning as m
from traces.usage.counts import MAX_TOKENS, Usage
from traces.usage.findings import ODD
from traces.usage.groups import EVERY, Decision, Group, Votes, decision
from traces.usage.name_cache import by_names
from traces.usage.names import CONVENTION, GENERIC, Figures, figures

_SAID = {
    m.INCLUDES: "input includes cached tokens",
    m.OUTSIDE: "input excludes cached tokens",
    m.READ_OUTSIDE: "input excludes tokens read from the cache and includes those written to it",
    m.WRITE_OUTSIDE: "input includes tokens read from the cache and excludes those written to it",
    m.WITHIN: "output includes reasoning tokens",
    m.APART: "output excludes reasoning tokens",
}
_PROOF: dict[str, str | dict[bool, str]] = {
    "total": "totals agree",
    "exceeds": {True: "cached tokens exceed it", False: "reasoning exceeds it"},
    "parts": "its uncached part is given beside it",
    "name": "the names say so",
    "open": "assumed from the names or the provider",
}
_GROUPS = 512
"""Groups of one source that are kept apart; the objects of further ones are decided with those of the same names."""


Key = tuple[str, str, str]
"""Provider, model, and the names with what they usually mean."""

_OPEN: Decision = (None, None, False)


_EXCEEDS = ("exceeds", (m.OUTSIDE,))
_ANTHROPIC = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
_NOT_COUNTED = {"cache_creation", "service_tier", "server_tool_use", "iterations", "inference_geo", "speed"}


@by_names(256)
def _is_plain(names: tuple[str, ...]) -> bool:
    return {*names} <= {*_ANTHROPIC, *_NOT_COUNTED}


class Meanings:
    """Reads the usage objects of one source and counts what they show.

    Args:
        decisions: What an earlier pass over the source decided by group.
    """

    def __init__(self, decisions: Mapping[Key, Decision] | None = None) -> None:
        self._decisions = decisions or {}
        self._groups: dict[Key, Group] = {}
        self._of_lengths: dict[tuple[tuple[str, ...], str, str, bool | None], tuple[str, str, Group]] = {}
        self.open = False  # an object was read whose meaning the rest of the source may change
        self.objects = 0

    def read(
        self,
        usage: Mapping[str, Any],
        provider: str = "",
        model: str = "",
        disjoint: bool | None = None,
        anyone: bool = False,
    ) -> Usage:
        """One usage object as inclusive counts; errors as `traces.usage.rules.normalise`."""
        if len(usage) == 2:
            counts = self._lengths(usage, provider, model, disjoint)
            if counts is not None:
                return counts
        found, plan = figures(usage)
        if found == Figures():
            return Usage()
        default = m.default_of(plan.styles, provider, disjoint)
        key: Key = (provider, model, plan.label if disjoint is None else f"{plan.label} {disjoint}")
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= _GROUPS:
                key = ("", "", key[2])
            stated = disjoint is not None or provider in m.STATED
            quiet = stated or CONVENTION in plan.styles
            group = Group(default, GENERIC in plan.styles and not stated, quiet, anyone)
            self._groups[key] = group
        self.objects += 1
        names = {kind: path[0] for kind, path in plan.places if len(path) == 1} if len(usage) == 2 else {}
        if len(plan.places) == 2 and names.keys() == {"input", "output"} and len(self._groups) < _GROUPS:
            self._of_lengths[tuple(usage), provider, model, disjoint] = names["input"], names["output"], group
        weighed = m.weigh(found, GENERIC not in plan.styles)
        of_input, of_output, bare = self._decisions.get(key, _OPEN)
        self._count(group, found, weighed, "total" in plan.kinds)
        return m.usage(
            found,
            chosen(weighed.input, of_input, default.input, bare),
            chosen(weighed.output, of_output, default.output, False),
        )

    def _lengths(self, usage: Mapping[str, Any], provider: str, model: str, disjoint: bool | None) -> Usage | None:
        """As `read`, for an input and an output and nothing else, which no meaning changes; None for any other."""
        known = self._of_lengths.get((tuple(usage), provider, model, disjoint))
        if known is None:
            return None
        of_input, of_output, group = known
        given, made = usage[of_input], usage[of_output]
        if not (type(given) is type(made) is int and 0 <= given < MAX_TOKENS and 0 <= made < MAX_TOKENS):
            return None
        self.objects += 1
        group.uncached += 1
        return Usage(given, None, None, made)

    def read_anthropic(self, usage: Mapping[str, Any], provider: str, model: str) -> Usage | None:
        """As `read`, for the plain usage of Anthropic's answers, ten times as fast; None for any other.

        These are nearly all the objects of coding agents. They hold no total, so nothing in their source can show that
        the input includes cached tokens, and no decision changes how they are read.
        """
        fresh, read, written, output = map(usage.get, _ANTHROPIC)
        if not type(fresh) is type(read) is type(written) is type(output) is int or not _is_plain(tuple(usage)):
            return None
        plain = min(fresh, read, written, output) >= 0 and max(fresh, read, written, output) < MAX_TOKENS
        split = usage.get("cache_creation")
        if not plain or usage.get("iterations") or (split and not written and any(split.values())):
            return None
        key = (provider, model, "anthropic")
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= _GROUPS:
                return None
            group = self._groups[key] = Group(m.Default(m.OUTSIDE, m.WITHIN), False, False, False)
        self.objects += 1
        if not read and not written:
            group.uncached += 1
        else:
            group.input[_EXCEEDS if read > fresh or written > fresh else ("open", ())] += 1
        return Usage(fresh + read + written, read, written, output)

    def _count(self, group: Group, found: Figures, weighed: m.Weighed, totals: bool) -> None:
        group.odd += weighed.odd_total
        if weighed.odd_total:
            group.examples.setdefault(("odd", ()), _figures_of(found))
        for shown, votes in ((weighed.input, group.input), (weighed.output, group.output)):
            if shown.by == "same":
                continue
            vote = (shown.by or "open", shown.fits if shown.meaning else ())
            votes[vote] += 1
            group.examples.setdefault(vote, _figures_of(found))
        if weighed.pairs:
            group.pairs[weighed.pairs] += 1
            group.examples.setdefault(("pairs", weighed.pairs), _figures_of(found))
        group.uncached += weighed.input.by == "same"
        group.bare += weighed.bare_total
        flips = totals or group.generic or group.default.input == m.INCLUDES
        if weighed.input.by in ("", "exceeds") or (weighed.input.by == "total" and weighed.input.meaning == m.INCLUDES):
            self.open = self.open or flips
        if weighed.output.by == "":
            self.open = self.open or totals or group.generic or group.default.output == m.WITHIN

    def decisions(self) -> dict[Key, Decision]:
        """What the source decided by group.

        A group that shows nothing takes what all groups of its names show together, then, where its names are nobody's
        in particular, what the whole source shows.
        """
        if len(self._groups) == 1:
            return {key: decision([group]) for key, group in self._groups.items()}
        pools: dict[str | None, list[Group]] = {None: list(self._groups.values())}
        for key, group in self._groups.items():
            pools.setdefault(key[2], []).append(group)
        pooled = {pool: decision(groups) for pool, groups in pools.items()}
        settled: dict[Key, Decision] = {}
        for key, group in self._groups.items():
            own, wide, widest = decision([group]), pooled[key[2]], pooled[None]
            settled[key] = (
                own[0] or wide[0] or (widest[0] if group.generic else None),
                own[1] or wide[1] or (widest[1] if group.generic else None),
                own[2] or (own[0] is None and wide[2]),
            )
        return settled

    def decide(self, decisions: Mapping[Key, Decision]) -> None:
        """Read what comes by `decisions`."""
        self._decisions = decisions

    def changed_by(self, decisions: Mapping[Key, Decision]) -> bool:
        """Whether an object that was read so far would be read otherwise under `decisions`."""
        for key, group in self._groups.items():
            (of_input, of_output, bare), before = decisions.get(key, _OPEN), self._decisions.get(key, _OPEN)
            for votes, now, was, default in (
                (group.input, (of_input, bare), (before[0], before[2]), group.default.input),
                (group.output, (of_output, False), (before[1], False), group.default.output),
            ):
                for vote in votes:
                    shown = _shown(vote)
                    if chosen(shown, now[0], default, now[1]) != chosen(shown, was[0], default, was[1]):
                        return True
        return False

    def evidence(self) -> list[Evidence]:
        """What the source showed, meaning by meaning, with what contradicts it."""
        decisions = self.decisions()
        found: list[Evidence] = []
        for key, group in self._groups.items():
            of_input, of_output, bare = decisions[key]
            found += _evidence(group, group.input, of_input or group.default.input, bare, group.assumed(of_input))
            found += _evidence(group, group.output, of_output or group.default.output, False, group.assumed(of_output))
            if group.odd:
                found.append(Evidence(ODD, 0, (), group.odd, group.examples["odd", ()]))
            found += [
                Evidence(ODD, 0, (), count, group.examples["pairs", pairs])
                for pairs, count in group.pairs.items()
                if _read(group, pairs, decisions[key]) not in pairs
            ]
        uncached = sum(group.uncached for group in self._groups.values())
        if uncached and not any(group.input for group in self._groups.values()):
            found.append(Evidence("no cached tokens are reported, so input is the whole prompt", uncached, ()))
        return found


def _shown(vote: tuple[str, tuple[str, ...]]) -> m.Shown:
    by, fits = vote
    return m.Shown("" if by == "open" else by, fits[0] if fits else "", fits or EVERY)


def chosen(shown: m.Shown, decided: str | None, default: str, bare: bool) -> str:
    """The meaning that an object is read with.

    What its own arithmetic shows comes first, with two exceptions: a total that leaves cached tokens out shows nothing,
    and a rare object with more cached tokens than input stays as it was logged.
    """
    if shown.by == "exceeds":
        return decided if decided == m.INCLUDES else shown.meaning
    if shown.by in ("total", "parts"):
        return decided or default if bare and shown.meaning == m.INCLUDES else shown.meaning
    for meaning in (decided, default):
        if meaning is not None and meaning in shown.fits:
            return meaning
    return decided or default if not shown.fits or shown.by else shown.fits[0]


def _read(group: Group, pairs: m.Pairs, decided: Decision) -> tuple[str, str]:
    """The meanings that an object is read with whose total fits several pairs of them."""
    inputs, outputs = (m.Shown("", "", tuple(dict.fromkeys(side))) for side in zip(*pairs, strict=True))
    return (
        chosen(inputs, decided[0], group.default.input, decided[2]),
        chosen(outputs, decided[1], group.default.output, False),
    )


def _evidence(group: Group, votes: Votes, decided: str, bare: bool, assumed: bool) -> list[Evidence]:
    of_input = votes is group.input
    read_as: Counter[str] = Counter()
    proofs: dict[str, Counter[str]] = {}
    contradicting, example = 0, ""
    for vote, count in votes.items():
        by, fits = vote
        said = decided if not fits or decided in fits else chosen(_shown(vote), decided, decided, bare)
        read_as[said] += count
        proof = _PROOF[by]
        if not fits or said in fits:
            proofs.setdefault(said, Counter())[proof if isinstance(proof, str) else proof[of_input]] += count
        if fits and decided not in fits and not (bare and m.INCLUDES in fits):
            contradicting += count
            example = example or group.examples[vote]
    return [
        Evidence(
            _SAID[said],
            count,
            tuple(sorted(proofs.get(said, Counter()).items())),
            contradicting if said == decided else 0,
            example if said == decided else "",
            sum(n for (by, _), n in votes.items() if by in ("open", "exceeds")) if assumed and said == decided else 0,
        )
        for said, count in read_as.items()
    ]


def _figures_of(f: Figures) -> str:
    """An object's figures as a text that names no content."""
    names = {"input": "input", "fresh": "uncached input", "whole": "whole input", "read": "cache read",
             "written": "cache write", "output": "output", "reasoning": "reasoning", "total": "total"}  # fmt: skip
    return ", ".join(f"{said} {value:,}" for name, said in names.items() if (value := getattr(f, name)) is not None)
