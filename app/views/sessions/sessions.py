"""Sessions: which of them lose tokens, to what, and where in each; and the prefixes that they share."""

from __future__ import annotations

import streamlit as st

from app.views.sessions import listed, one, prefixes
from app.views.sessions.answers import answers
from app.views.why.controls import cache_controls
from app.visit import guard, notices, question
from app.visit.link import link
from app.widgets import formats
from app.widgets.plain_text import markdown

LEAD = "Which sessions lose tokens that a cache could have served, where in each, and to what."


def _cache(asked: question.Asked) -> tuple[str, object]:
    """The cache that tokens hit or miss in, folded away while it is the unbounded one."""
    chosen = any(link.value(name) is not None for name in ("why-capacity", "why-ttl", "why-replicas"))
    with st.expander("The cache: its size and how long it keeps blocks", expanded=chosen, icon=":material/memory:"):
        size, time = st.columns(2)
        cache = cache_controls(asked, size, time)
    if cache.capacity_tokens is None and cache.ttl_s is None and cache.replicas is None:
        return "an unbounded cache", cache
    return "the cache chosen above", cache


with guard.page(LEAD):
    from analysis.store.question import NeedsArrivals

    asked = question.ask()
    question.facts_line(asked)
    if asked.desk.query("hit_rate", asked.question)["ceiling"][0] is None:
        st.info(
            "**This trace has no block identity.** It says how long prompts are, not what they share, so no session "
            "can be said to lose anything. That needs block hashes (`hash_ids`), token ids, or the prompts' text.",
            icon=":material/info:",
        )
        st.stop()
    chosen = link.value("session")
    names = ["Sessions", "Shared prefixes"]
    tabs = None if chosen is not None else st.tabs(names, default=names[bool(link.value("node"))])
    with st.container() if tabs is None else tabs[0], guard.guarded():
        words, cache = _cache(asked)
        try:
            found = answers(asked, cache)  # type: ignore[arg-type]
        except NeedsArrivals:
            notices.suggest_arrivals()
        else:
            for note in found.found.notes:
                st.caption(markdown(note))
            if found.table().is_empty():
                st.info(
                    f"**This trace names no sessions.** Its {formats.count(asked.selected)} requests stand alone; "
                    "*Why* says what they lose together, and *Shared prefixes* what they have in common.",
                    icon=":material/info:",
                )
            elif chosen is None:
                listed.draw(found, words)
            else:
                one.draw(found, int(chosen), words)
    if tabs is not None:
        with tabs[1], guard.guarded():
            prefixes.draw(asked)
