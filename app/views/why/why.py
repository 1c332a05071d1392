"""Why: where every prompt token went, where prompts part, what that loses and costs, and what would bring it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from app.views.why import causes as why_causes
from app.views.why import controls as why_controls
from app.views.why import cost as why_cost
from app.views.why import reported as why_reported
from app.views.why import sessions as why_sessions
from app.views.why import tables as why_tables
from app.views.why import time as why_time
from app.visit import findings, guard, notices, question
from app.visit.link import link
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.why.caches.cache import Cache
    from analysis.why.misses import Misses

LEAD = "Where every prompt token went: hit, or lost for one cause, and what would bring it back."


class Part(NamedTuple):
    """A part of the page: its name, and in one sentence what it answers."""

    title: str
    says: str


PARTS = {
    "causes": Part("Causes", "Every prompt token counted once: hit, first seen, rewritten, or lost for one cause."),
    "sessions": Part("Sessions", "Which sessions lose most, what brings that back, and what happened between prompts."),
    "provider": Part("Provider", "What the provider's cache read, against what it could have read."),
    "what-if": Part("What-if", "Where consecutive prompts part, and the hit rate if that did not happen."),
    "cost": Part("Cost", "What the requests cost at list prices, and what each cause of loss costs."),
}


def _misses(asked: question.Asked, cache: Cache) -> Misses:
    from analysis.why.misses import misses

    return asked.desk.answer(
        f"misses {asked.question!r} {cache!r}", lambda: misses(asked.desk.warehouse, asked.question, cache)
    )


def _draw(part: str, asked: question.Asked, axis: str, cache: Cache, found: Misses) -> None:
    flags = why_controls.cache_flags(cache)
    if part == "causes":
        why_causes.causes(asked, axis, cache, flags, found)
        if not asked.unanchored:
            for part_of_time in (why_time.gaps_and_ttl, why_time.over_time):
                with guard.guarded():
                    part_of_time(asked)
    elif part == "sessions":
        with guard.guarded():
            why_sessions.sessions(asked, found, flags, why_controls.cache_values(cache, asked.block_size))
        with guard.guarded():
            why_tables.transitions(asked, found, flags)
    elif part == "provider":
        why_reported.provider(asked, found, flags)
    else:
        with guard.guarded():
            why_tables.divergences(asked)
        with guard.guarded():
            why_tables.what_ifs(asked, found)


with guard.page(LEAD):
    from analysis.store.question import NeedsArrivals

    asked = question.ask()
    question.facts_line(asked)
    part = st.segmented_control(
        "Part", **link.at("why-part"), required=True, format_func=lambda name: PARTS[name].title,
        label_visibility="collapsed",
    )  # fmt: skip
    st.caption(PARTS[part].says)
    if part == "cost":
        why_cost.costs(asked)
        st.stop()
    if asked.desk.query("hit_rate", asked.question)["ceiling"][0] is None:
        st.info(
            "**This trace has no block identity.** It says how long prompts are, not what they share, so nothing can "
            "be said about why they miss. That needs block hashes (`hash_ids`), token ids, or the text of the prompts.",
            icon=":material/info:",
        )
        st.stop()
    first = st.container()
    axis, cache = why_controls.controls(asked)
    try:
        found = _misses(asked, cache)
    except NeedsArrivals:
        notices.suggest_arrivals()
        st.stop()
    with first:
        findings.draw(asked, "why", cache)
    for note in found.notes:
        st.caption(markdown(note))
    _draw(part, asked, axis, cache, found)
