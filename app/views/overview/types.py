"""Trajectory types, on the page Overview: what no cache could hit of each, and their main figures."""

from __future__ import annotations

import streamlit as st

from app.visit import question
from app.widgets import figures, formats
from app.widgets.table import columns_of, table

TYPES = {
    "single": "one request",
    "append": "every prompt extends the one before: the friendliest to a cache",
    "branched": "a prompt went back and continued elsewhere (fork, rewind), or shares nothing with what came before",
    "compacted": "the history was replaced by something shorter",
    "edited": "history was rewritten after the fact, or the system prompt changed: the most hostile to a cache",
}


def by_type(asked: question.Asked) -> None:
    """Bars of what is not reusable, and the table."""
    import polars as pl

    from app.widgets.charts import bars

    frame = asked.desk.query("by_axis", asked.question, axis="trajectory_type").with_columns(
        missed_tokens=pl.col("prefix_tokens") - pl.col("ceiling_hit_tokens")
    )
    source = asked.source(
        "by_axis", "report", "--by", "trajectory_type", "--json", computed="ceiling", values={"axis": "trajectory_type"}
    )
    if frame["ceiling"].null_count() < frame.height:
        words = ", ".join(f"{r['group']} {formats.tokens(r['missed_tokens'])}" for r in frame.iter_rows(named=True))
        figures.figure(
            "by-type",
            "Not reusable, by trajectory type",
            bars.missed_bars(frame),
            frame,
            f"Prompt tokens that no cache could have hit, by trajectory type: {words}",
            source,
            "Prompt tokens that no earlier prompt had, and beside them the ceiling. The most cache-hostile thing that "
            "happened in a session names its type. Rates are close where sessions are long: most tokens of a long "
            "session hit, whatever happened in it.",
        )
    else:
        st.subheader("By trajectory type")
    table(
        frame,
        columns_of(
            "group", "requests", "sessions", "turns_mean", "input_tokens", "input_output_ratio", "missed_tokens",
            "ceiling", "reported", first="Trajectory type",
        ),
        "Main figures by trajectory type",
    )  # fmt: skip
    if frame["ceiling"].null_count() == frame.height:
        figures.downloads(
            "by-type",
            frame,
            source,
        )
    with st.popover("What the types mean", type="tertiary", icon=":material/help:"):
        st.markdown("\n".join(f"- **{name}**: {meaning}" for name, meaning in TYPES.items()))
