"""What a full cache should drop first, on the page Cache."""

from __future__ import annotations

import streamlit as st

from app.visit import guard, question
from app.visit.link import link
from app.widgets import figures
from app.widgets.plain_text import markdown


@link.fragment
def rules(asked: question.Asked, ceiling: float) -> None:
    """A choice of rules, their hit rates by capacity, and how much of the distance to the optimum they close."""
    with guard.guarded():
        _rules(asked, ceiling)


def _rules(asked: question.Asked, ceiling: float) -> None:
    import polars as pl

    from analysis.policies.eviction import RULES
    from analysis.policies.policy_curve import in_words, policy_curve
    from app.widgets.charts import lines

    chosen = st.pills("What leaves first", **link.at("cache-rules"), selection_mode="multi")
    asked_for = [name for name in RULES if name in chosen] or ["lru"]
    frame = asked.desk.answer(
        f"eviction {asked.question!r} {asked_for}",
        lambda: policy_curve(asked.desk.warehouse, asked.question, asked_for),
    )
    st.markdown(f"**{markdown(in_words(frame))}**")
    drawn = frame.with_columns(group=pl.col("policy"))
    means = " ".join(f"**{name}**: {says}." for name, says in RULES.items() if name in asked_for)
    words = " ".join(f"--policy {name}" for name in asked_for).split()
    figures.figure(
        "eviction", "Hit rate by what leaves first", lines.capacity_lines(drawn, ceiling), frame,
        "Hit rate over capacity under eviction rules", asked.source("", "curve", *words, "--json", means=means),
        "Replayed at each point, exact under one model: whatever the rule, a block leaves only after those behind it, "
        "and the running prompt goes last. belady knows the future: a bound, not a rule to run.",
    )  # fmt: skip
    for name in asked_for:
        st.caption(f"**{name}**: {markdown(RULES[name])}.")
