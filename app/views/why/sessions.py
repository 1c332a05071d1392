"""The sessions to look at first, on the page Why: tokens lost by what would bring them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.why.tables import answer
from app.visit.link import link
from app.visit.link.session_rows import session_rows
from app.widgets import figures, formats
from app.widgets.table import Column, table

if TYPE_CHECKING:
    from analysis.why.misses import Misses
    from app.visit.question import Asked

MOST = 100
SHORT = {
    "longer_ttl": "Longer TTL", "more_capacity": "Larger cache", "same_replica": "Same replica",
    "wait": "Wait for the running prompt", "keep_history": "Keep the history", "go_on_from_last": "Go on from the last",
    "cache_marks": "Cache marks", "provider_rules": "Provider's minimum or step", "unexplained": "Not known",
}  # fmt: skip
"""Remedy -> its name."""
COLUMNS = {
    "longer_ttl": "TTL", "more_capacity": "Capacity", "same_replica": "Routing", "wait": "Running",
    "keep_history": "History", "go_on_from_last": "Branches", "cache_marks": "Marks", "provider_rules": "Minimum, step",
    "unexplained": "Not known",
}  # fmt: skip
"""Remedy -> heading of the tokens that it would bring back."""

MEANS = (
    "Shared tokens that missed are lost in the cache chosen above, or in the provider's (achievable minus reported). "
    "Each token counts once: for each request the larger of the two losses. Added to that are the tokens of the "
    "session's last prompt after the place where the next prompt differs from all earlier ones: a history to keep as "
    "it was sent, or a prompt to continue from (forks and rewinds)."
)


def sessions(asked: Asked, found: Misses, flags: list[str], values: dict[str, object] | None) -> None:
    """Totals by remedy, a choice of remedy, and the sessions that lose most."""
    from analysis.why.session_losses import REMEDIES, remedy_totals, request_losses, session_losses

    warehouse, question = asked.desk.warehouse, asked.question

    def make() -> Any:
        losses = request_losses(warehouse, question, found)
        return remedy_totals(warehouse, losses), session_losses(warehouse, question, losses)

    totals, frame = answer(asked, f"sessions {found.causes}", make)
    st.subheader("Sessions to look at first", anchor=False)
    if not totals:
        st.info("Nothing is lost that a session, a cache or the provider could bring back.", icon=":material/check:")
        return
    st.caption("Tokens that each remedy would bring back, in the cache chosen above and in the provider's.")
    table(
        [{**row, "name": SHORT[row["remedy"]]} for row in totals],
        [
            Column("name", "Remedy"), Column("lost_tokens", "Tokens lost", formats.tokens),
            Column("requests", "Requests", formats.count), Column("sessions", "Sessions", formats.count),
            Column("meaning", "What brings them back"),
        ], "Tokens lost by remedy",
    )  # fmt: skip
    if frame.is_empty():
        st.info("This trace names no sessions, so none can be listed.", icon=":material/info:")
        return
    present = [row["remedy"] for row in totals]
    chosen = st.pills(
        "Sessions that this would help", **link.at("why-remedy", ["all", *present]), required=True,
        format_func=lambda name: SHORT.get(name, "All"),
    )  # fmt: skip
    shown = frame
    if chosen in present:
        shown = frame.filter(frame[chosen] > 0).sort(chosen, descending=True, maintain_order=True)
    names = file_names(asked)
    rows = [
        {**row, "input": names.get(row["input_label"], row["input_label"]), "what": SHORT[row["remedy"]]}
        for row in shown.head(MOST).to_dicts()
    ]
    if shown.height > MOST:
        st.caption(f"The first {MOST} of {formats.count(shown.height)} sessions; all are in the files below.")
    session_rows(
        rows,
        [
            Column("session_id", "Session", str), Column("input", "From"), Column("trajectory_type", "Type"),
            Column("requests", "Requests", formats.count),
            Column("lost_tokens", "Tokens lost", formats.tokens), Column("what", "Most comes back by"),
            Column("hit_rate", "Hit rate", formats.rate, "In the cache chosen above."),
            Column("reported_rate", "Reported", formats.rate, "What the provider reports, of the same prompts."),
            *(Column(name, COLUMNS[name], formats.tokens, f"Tokens: {REMEDIES[name]}.") for name in present),
        ], "Sessions by tokens lost", f"why-sessions-{chosen}",
    )  # fmt: skip
    only = ["--remedy", chosen] if chosen in present else []
    if not frame["reported_rate"].is_null().all() or only:
        values = None  # the query knows nothing of the provider's losses, and lists all sessions
    source = asked.source(
        "", "misses", *flags, "--show", "sessions", *only, "--json", means=MEANS, computed="sessions", values=values
    )
    figures.downloads("missing-sessions", shown, source)


def file_names(asked: Asked) -> dict[str, str]:
    """The visitor's own file names; of data that others may see too, the labels have to do."""
    if not asked.known.private:
        return {}
    from traces.dataset.input_names import input_names

    return input_names(asked.desk.warehouse.dataset)
