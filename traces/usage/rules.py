"""Token usage: the one place where every provider's usage object becomes the same five counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traces.usage.counts import Usage, add_known, count
from traces.usage.evidence import Meanings

__all__ = ["Usage", "count", "normalise"]


def normalise(
    usage: Mapping[str, Any] | None,
    provider: str | None = None,
    disjoint: bool | None = None,
    meanings: Meanings | None = None,
    model: str | None = None,
    anyone: bool = False,
) -> Usage:
    """One usage object as inclusive counts.

    Args:
        usage: The object as logged; null, empty or unfamiliar objects give unknown counts.
        provider: Who served the call, where the source says it: consulted only where arithmetic and names leave the
            meaning open.
        disjoint: What the source is known to mean where its arithmetic leaves it open: True when the input figure
            leaves cached tokens out.
        meanings: What the source's other objects showed (`Context.meanings`); None judges the object alone.
        model: The model that was called; each model of a source is judged apart.
        anyone: Anyone's tool may have written the object (a table, a gateway's log), so a meaning that only its names
            suggest is reported as assumed.

    Raises:
        ValueError: A count is negative, not a number, a truth value, or absurdly large (its field is named); or
            `usage` is no object.
    """
    if not usage:
        return Usage()
    if not isinstance(usage, dict):
        raise ValueError("usage is not an object")
    who = (provider or "").lower()
    meanings = Meanings() if meanings is None else meanings
    if who == "anthropic" and not disjoint and (plain := meanings.read_anthropic(usage, who, model or "")) is not None:
        return plain
    passes = usage.get("iterations")
    if isinstance(passes, list) and passes and all(isinstance(one, dict) for one in passes):
        return _added(usage, passes, who, meanings, model or "")
    return meanings.read(usage, who, model or "", disjoint, anyone)


def _added(
    usage: Mapping[str, Any], passes: list[Mapping[str, Any]], who: str, meanings: Meanings, model: str
) -> Usage:
    """Several passes inside one call (a compaction, then the answer): the outer figures are those of the last pass."""
    parts = [meanings.read({**one, "iterations": None}, who, model) for one in passes]
    outer = meanings.read({**usage, "iterations": None}, who, model)
    if all(part.input_tokens is None for part in parts):
        return outer
    sums = [add_known(*values) for values in zip(*(part[:4] for part in parts), strict=True)]
    return Usage(sums[0], sums[1], sums[2], sums[3], outer.reasoning_tokens)
