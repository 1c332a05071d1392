"""How many sessions a cache serves at once, on the page Cache."""

from __future__ import annotations

import streamlit as st

from app.visit import guard, question
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.plain_text import markdown
from app.widgets.table import Column, table

NUMBERS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
NAMES = {"none": "all run", "cap": "as many as fit", "footprint": "what fits now"}


@link.fragment
def sessions(asked: question.Asked, ceiling: float) -> None:
    """The controls, the curve, and what it says."""
    with guard.guarded():
        _sessions(asked, ceiling)


def _sessions(asked: question.Asked, ceiling: float) -> None:
    import polars as pl

    from analysis.policies.admission import RULES
    from analysis.policies.at_once import MEANINGS, at_once
    from app.widgets.charts import points

    size, rule = st.columns([1, 2])
    capacity = size.number_input(
        "Cache of a replica, tokens", **link.at("once-capacity"), step=50_000,
        help="What a replica's KV cache holds. The page Hardware says it for a model and a GPU.",
    )  # fmt: skip
    chosen = rule.pills(
        "Which sessions run", **link.at("once-admission"), selection_mode="multi", format_func=NAMES.__getitem__
    )
    rules = [name for name in RULES if name in chosen] or ["none"]
    q = asked.question._replace(arrivals="recorded", window="all")
    if (asked.question.arrivals, asked.question.window) != ("recorded", "all"):
        st.caption("Arrivals and window on the left mean nothing here: N sessions at once are arrivals of their own.")
    found = asked.desk.answer(
        f"at once {q!r} {capacity} {rules}",
        lambda: at_once(asked.desk.warehouse, q, int(capacity), NUMBERS, rules),
    )  # fmt: skip
    if not found["rows"]:
        st.info("This trace has no sessions that could run at once.", icon=":material/info:")
        return
    frame = pl.DataFrame([{**row, "group": NAMES[row["admission"]]} for row in found["rows"]])
    knee = found["knee"]
    st.markdown(f"**Knee: {knee['at_once'] or 'none'}.** {markdown(knee['reason'])}.")
    words = [f"--admission {name}" for name in rules]
    source = asked.source(
        "", "sessions", "--capacity-tokens", str(int(capacity)), "--at-once", ",".join(map(str, NUMBERS)),
        *" ".join(words).split(), means=" ".join(f"**{name}**: {says}." for name, says in MEANINGS.items()),
    )  # fmt: skip
    figures.figure(
        "at-once", "Hit rate by sessions at once", points.at_once_lines(frame, ceiling, knee["at_once"]), frame,
        "Hit rate of one LRU cache by the number of sessions at once", source,
        "Each user sends one session after another. Exact for these arrivals; the dashed line is the ceiling.",
    )  # fmt: skip
    for name in rules:
        st.caption(f"{NAMES[name].capitalize()}: {markdown(RULES[name])}.")
    table(
        frame,
        [
            Column("at_once", "Sessions at once", formats.count), Column("group", "Which run"),
            Column("hit_rate", "Hit rate", formats.rate), Column("recomputed_tokens", "Computed again", formats.tokens),
            Column("duration_s", "Takes", formats.seconds, MEANINGS["duration_s"]),
            Column("wait_s_p50", "Median wait", formats.seconds, MEANINGS["wait_s_p50"]),
            Column("wait_s_p99", "p99 wait", formats.seconds),
        ], "Sessions at once",
    )  # fmt: skip
    if found["left_out"]:
        st.caption(f"The trace has {formats.count(found['sessions'])} top-level sessions, so no more can be at once.")
