"""Hardware: does it fit, how many sessions, how fast, and what does a change buy; with or without a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.views.replica import changes, choices, fits, sessions, speed
from app.visit import findings, guard, question

if TYPE_CHECKING:
    from analysis.replica.workload import Workload

LEAD = (
    "Does the model fit, how many sessions, how fast, and what does a change buy? Bytes are derived, speeds estimated."
)


def _workload(asked: question.Asked) -> Workload:
    from analysis.replica.workload import workload_of

    return asked.desk.answer(f"workload {asked.question!r}", lambda: workload_of(asked.desk.warehouse, asked.question))


with guard.page(LEAD):
    asked: question.Asked | None = None
    workload: Workload | None = None
    st.session_state.pop("replica-mark", None)
    with guard.guarded():  # a dataset that cannot be read takes nothing from the arithmetic
        if question.opened() is not None:
            asked = question.ask()
            question.facts_line(asked)
            findings.draw(asked, "hardware")
            workload = _workload(asked)
    if asked is None:
        st.caption(
            "No dataset is open: arithmetic alone. With one, the page counts sessions of its size and its hit rates."
        )
    chosen = choices.choose()
    if chosen is None:
        st.stop()
    fits.draw(chosen)
    st.divider()
    sessions.draw(chosen, asked, workload)
    st.divider()
    rate = (
        workload.runs.rate(chosen.budget.replica_tokens)
        if workload is not None and workload.runs is not None and chosen.budget.fits
        else None
    )
    load = speed.draw(chosen, asked, workload, rate)
    if load is not None:
        st.divider()
        changes.draw(chosen, load, workload)
