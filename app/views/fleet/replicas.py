"""Routing: which routing policy, how many replicas, and is any replica overloaded; beside it what luck alone does."""

from __future__ import annotations

import streamlit as st

from app.views.fleet import choices, luck, results, runs
from app.visit import findings, guard, notices, question

LEAD = "Which policy, how many replicas, and is any replica overloaded? The whole trace is replayed over each fleet."


def _asked() -> question.Asked:
    """What the sidebar asks, of the whole trace: replicas serve all of it."""
    asked = question.ask()
    if not asked.question.where and asked.question.window == "all":
        question.facts_line(asked)
        return asked
    whole = asked._replace(question=asked.question._replace(where=(), window="all"), selected=asked.total)
    question.facts_line(whole)
    st.caption("Replicas serve the whole trace: the filters and the window on the left do not apply here.")
    return whole


def _draw(asked: question.Asked) -> None:
    from analysis.store.question import NeedsArrivals

    findings.draw(asked, "routing")
    try:
        routed = runs.routed_of(asked)
    except NeedsArrivals:
        notices.suggest_arrivals()
        luck.draw(50, 5)
        return
    sent = choices.form(runs.durations_known(asked))
    mark = f"{asked.known.name} {asked.question!r}"
    if sent is not None:
        st.session_state["fleet-sent"] = (mark, sent)
    kept: tuple[str, choices.Settings] | None = st.session_state.get("fleet-sent")
    if kept is None or kept[0] != mark:
        if kept is not None:
            st.caption("The dataset or the settings on the left have changed since the last run.")
        luck.draw(50, 5)
        return
    try:
        run = runs.run(asked, routed, kept[1])
    except ValueError as error:  # what the form or the replay refuses, in words for people
        choices.refused(error)
        return
    results.draw(asked, run)


with guard.page(LEAD):
    if question.opened() is None:
        notices.nothing_open()
        luck.draw(50, 5)
    else:
        _draw(_asked())
