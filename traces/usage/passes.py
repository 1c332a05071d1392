"""One answer, several model calls: the sampling iterations that Anthropic reports inside one usage object.

A compaction, an advisor, a declined attempt before a fallback and each round of a server-side tool is a pass with a
prefill of its own. The outer figures are the sum of the passes that wrote the answer; those of a compaction and of an
advisor are only in `usage.iterations` (Anthropic's guide to compaction, "Understanding usage"; BetaIterationsUsage in
its SDK).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from traces.usage.counts import Usage, add_known
from traces.usage.rules import normalise

APART = ("compaction", "advisor_message")
"""Passes that the outer figures leave out."""


class Pass(NamedTuple):
    """One pass: its kind (message, compaction, advisor_message, fallback_message), its counts, who served it."""

    kind: str
    usage: Usage
    model: str | None = None


def passes(usage: object) -> list[Pass]:
    """The passes of one answer in their order; empty where it had one, or where the log holds only some of them.

    Some gateways add all passes up in the outer figures, so these may be the sum of all, of those that wrote the
    answer, or of the last; figures that fit none of these are taken as they are, as one call.

    Raises:
        ValueError: A count is none.
    """
    logged = usage.get("iterations") if isinstance(usage, dict) else None
    if not isinstance(usage, dict) or not isinstance(logged, list) or not logged:
        return []
    if len(logged) == 1 and isinstance(logged[0], dict) and logged[0].get("type") not in APART:
        return []  # nearly always: one pass, whose counts are the outer figures
    found = []
    for one in logged:
        counts = normalise(one, "anthropic") if isinstance(one, dict) else Usage()
        if counts.input_tokens is None:
            return []
        found.append(Pass(_text(one.get("type")) or "message", counts, _text(one.get("model"))))
    served = [one for one in found if one.kind not in APART]
    outer = normalise({name: value for name, value in usage.items() if name != "iterations"}, "anthropic")
    sums = [_input(found), _input(served), served[-1].usage.input_tokens if served else 0]
    if outer.input_tokens is not None and outer.input_tokens not in sums:
        return []
    if served and served[-1].usage.reasoning_tokens is None:
        last = max(at for at, one in enumerate(found) if one.kind not in APART)
        found[last] = found[last]._replace(usage=found[last].usage._replace(reasoning_tokens=outer.reasoning_tokens))
    return found


def _input(found: list[Pass]) -> int:
    return add_known(*(one.usage.input_tokens for one in found)) or 0


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
