"""Data: open the demo, a folder of the server, or what the visitor sends; the receipt; rejects; formats."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.views.data import progress, ways_in
from app.views.data import receipt as receipts
from app.visit import findings, guard, question, state
from app.visit.known import Known
from app.visit.link import link
from app.widgets import formats
from app.widgets.plain_text import markdown
from app.widgets.table import texts

LEAD = "Open traces of coding agents or of a serving system, and see what a KV cache could reuse of them."


def _show_formats() -> None:
    from traces.intake.registry import READERS, reader

    summaries = {name: dict(reader(name).SUMMARY) for name in sorted(READERS)}
    parts = list(dict.fromkeys(part for s in summaries.values() for part in s))
    rows: dict[str, list[str]] = {"Format": list(summaries)}
    for part in parts:
        rows[part.capitalize()] = [s.get(part, formats.UNKNOWN) for s in summaries.values()]
    texts(rows, "Formats that can be read and what each carries", row_height=60)


def _answer() -> None:
    """What the dataset says in a sentence or a few, where the question on the left can be answered."""
    drawn = st.session_state["drawn"]
    if not drawn.where and drawn.window == "all":
        findings.draw(question.ask(), "data")


def _show_open(known: Known) -> None:
    """The receipt of what is open, the way on, and what was not used."""
    with st.spinner("Opening"):
        receipt = state.receipt(known)
    st.subheader(f"Receipt: {markdown(known.name)}", anchor=False)
    if receipt is None:
        st.caption("This dataset came without a receipt.")
    else:
        receipts.show(receipt)
        lease = state.lease_of(known)
        if lease is not None and lease.added:
            st.caption("This is the receipt of what was added last. The other pages show the whole dataset.")
        if lease is not None and lease.inputs:
            receipts.ways(receipt, partial(progress.read_again, lease), lease.id)
    with guard.guarded():
        _answer()
    with st.container(horizontal=True):
        link.page("views/overview/overview.py", label="See the overview", icon=":material/insights:")
        link.page("views/cache/cache.py", label="See what a cache of a size would hit", icon=":material/memory:")
    if receipt is not None:
        receipts.rejects(known, receipt)
        receipts.download(known.name, receipt)
    st.divider()


with guard.page(LEAD):
    progress.draw()
    with guard.guarded():
        known = question.opened()
        if known is not None:
            _show_open(known)
    ways_in.draw()
    with st.expander("Formats that can be read", icon=":material/description:"), guard.guarded():
        _show_formats()
