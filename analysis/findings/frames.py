"""The frames that a page or a report shows, from which findings are stated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl

from analysis.headline.curves import curve
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.caches.cache import Cache
from analysis.why.misses import by_group, misses
from analysis.why.provider.gap import provider_gap
from analysis.why.session_losses import remedy_totals, request_losses, session_losses

Keep = Callable[[str, Callable[[], Any]], Any]
"""Makes an answer by its name, or returns the one that was made before."""


class Frames(NamedTuple):
    """What a page or a report shows, and the findings state.

    Attributes:
        workload, hit_rate: the rows of these queries.
        block_size: tokens.
        ordered: whether it is known which session comes before which.
        transitions: the query's rows.
        causes: tokens by cause (`analysis.why.misses.by_group`); None where not computed.
        remedies, sessions: `analysis.why.session_losses`; None where not computed.
        provider: `analysis.why.provider.gap.provider_gap` of all; None where nothing is reported.
        curve: hit rate over capacity; None where it depends on an order that is not known.
    """

    workload: dict[str, Any]
    hit_rate: dict[str, Any]
    block_size: int
    ordered: bool
    transitions: pl.DataFrame
    causes: dict[str, Any] | None = None
    remedies: list[dict[str, Any]] | None = None
    sessions: pl.DataFrame | None = None
    provider: dict[str, Any] | None = None
    curve: pl.DataFrame | None = None


def made_now(name: str, make: Callable[[], Any]) -> Any:
    """A `Keep` that keeps nothing."""
    return make()


def headline_frames(warehouse: Warehouse, question: Question, keep: Keep = made_now) -> Frames:
    """The frames that a report has at once: without losses and without the curve."""

    def query(name: str) -> pl.DataFrame:
        found: pl.DataFrame = keep(f"{name} {question!r} []", lambda: warehouse.query(name, question))
        return found

    prepared = warehouse.prepare(question)
    return Frames(
        query("workload").row(0, named=True), query("hit_rate").row(0, named=True), prepared.block_size,
        not prepared.unanchored, query("transitions"),
    )  # fmt: skip


def all_frames(warehouse: Warehouse, question: Question, keep: Keep = made_now, cache: Cache | None = None) -> Frames:
    """All frames; only the headline's under another program's definition, and where no prompt is known."""
    frames = headline_frames(warehouse, question, keep)
    if question.definition != "tracetower" or frames.hit_rate["ceiling"] is None:
        return frames
    asked = cache or Cache()
    found = keep(f"misses {question!r} {asked!r}", lambda: misses(warehouse, question, asked))
    key = f"{question!r} {found.causes}"
    losses = keep(f"losses {key}", lambda: request_losses(warehouse, question, found))
    remedies, sessions = keep(
        f"remedies {key}",
        lambda: (remedy_totals(warehouse, losses), session_losses(warehouse, question, losses)),
    )
    causes = keep(f"causes {key}", lambda: by_group(warehouse, question, found))
    provider = keep(f"provider all {key}", lambda: provider_gap(warehouse, question, found))
    points = None
    if frames.ordered:
        points = keep(f"curve {question!r} all []", lambda: curve(warehouse, question))
    return frames._replace(
        causes=causes[0] if causes else None, remedies=remedies, sessions=sessions,
        provider=provider[0] if provider else None, curve=points,
    )  # fmt: skip
