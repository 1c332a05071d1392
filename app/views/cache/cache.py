"""Cache: what a KV cache of a given size hits, how many sessions it serves at once, what it should drop first."""

from __future__ import annotations

import streamlit as st

from app.views.cache import at_once, capacity, eviction
from app.visit import findings, guard, notices, question
from app.visit.link import link
from app.widgets import formats

LEAD = "How much a KV cache of a given size hits. Capacity is that of one replica which serves all of these requests."
PARTS = {
    "sizes": ("Sizes", "Hit rate over capacity, time to live and tiers, of one LRU cache; exact at every point."),
    "sessions": ("Sessions at once", "How many sessions a cache serves at once before it thrashes, and what it brings "
                 "to hold some back."),
    "eviction": ("Eviction", "What a full cache should drop first: rules of engines, LRU, and the optimum that no rule "
                 "can beat."),
}  # fmt: skip
"""Part -> its name, and in one sentence what it answers."""


def _ceiling(asked: question.Asked) -> float | None:
    rate: float | None = asked.desk.query("hit_rate", asked.question)["ceiling"][0]
    return rate


with guard.page(LEAD):
    from analysis.store.question import NeedsArrivals

    asked = question.ask()
    question.facts_line(asked)
    findings.draw(asked, "cache")
    ceiling = _ceiling(asked)
    part = st.segmented_control(
        "Part", **link.at("cache-part"), required=True, format_func=lambda name: PARTS[name][0],
        label_visibility="collapsed",
    )  # fmt: skip
    st.caption(PARTS[part][1])
    if ceiling is None:
        st.info(
            "**This trace has no block identity.** It says how long prompts are, not what they share, so no hit rate "
            "can be computed. That needs block hashes (`hash_ids`), token ids, or the text of the prompts.",
            icon=":material/info:",
        )
        link.page("views/data/data.py", label="Open another dataset", icon=":material/database:")
        st.stop()
    if part == "sessions":
        at_once.sessions(asked, ceiling)
        st.stop()
    try:
        asked.desk.warehouse.need_times(asked.desk.warehouse.prepare(asked.question), "a cache")
    except NeedsArrivals:
        st.metric("Ceiling, whatever the order", formats.rate(ceiling), border=True, width=300)
        notices.suggest_arrivals()
        st.stop()
    if ceiling == 0:
        st.info(
            "**Nothing is reused here.** No request shares a full block with an earlier one, so no cache hits "
            "anything. Prompts shorter than a block never hit: a smaller block size may show more.",
            icon=":material/info:",
        )
        st.stop()
    if part == "sizes":
        capacity.sizes(asked, ceiling)
    else:
        eviction.rules(asked, ceiling)
