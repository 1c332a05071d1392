"""SQL: one read-only SELECT over the tables of the open dataset, the views of the question and the named queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.visit import guard, question
from app.visit.link import link
from app.visit.settings import FIRST_SQL
from app.widgets import figures, formats
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    import polars as pl

LEAD = "Ask the dataset in SQL (DuckDB). It is only read: one SELECT, no other files, no network."
MOST_ROWS, MOST_S = 10_000, 20.0
CHARTED = 200
EXAMPLES = {
    "Requests and tokens by model": FIRST_SQL,
    "The longest prompts": "SELECT request_id, session_id, turn, model, prefix_tokens, hit_tokens\n"
    "FROM selected ORDER BY prefix_tokens DESC NULLS LAST LIMIT 20",
    "Hit rate by turn": "SELECT turn, sum(hit_tokens) / sum(prefix_tokens) AS hit_rate, count(*) AS requests\n"
    "FROM selected WHERE turn < 100 GROUP BY turn ORDER BY turn",
    "A named query, filtered": "SELECT * FROM sessions() ORDER BY requests DESC LIMIT 20",
    "How far apart the uses of a prefix lie": "SELECT round(log2(1 + distance_blocks)) AS doublings, "
    "sum(blocks) AS blocks\nFROM runs GROUP BY doublings ORDER BY doublings",
}
VIEWS = {
    "selected": "The requests in the window that pass the filters on the left, with what was computed of each.",
    "facts": "The same of all requests.",
    "runs": "Runs of blocks that a request reuses: which request touched them last, and at what stack distance.",
}


def _documented(asked: question.Asked) -> None:
    from analysis.store.catalog import queries
    from traces.schema import TABLES

    with st.expander("Tables, views and named queries"):
        for name, says in VIEWS.items():
            columns = ", ".join(f"`{column}`" for column in _columns(asked, name))
            st.markdown(f"**{name}**: {says} Columns: {columns}.")
        for name, table in TABLES.items():
            lines = [f"- `{c.name}`{f' ({c.unit})' if c.unit else ''}: {markdown(c.meaning)}" for c in table]
            st.markdown(f"**{name}**\n" + "\n".join(lines))
        named = sorted(queries().values(), key=lambda query: (query.subject, query.name))
        st.markdown("\n".join(f"- `{query.usage}`: {markdown(query.help)}" for query in named))


def _columns(asked: question.Asked, view: str) -> list[str]:
    return asked.desk.warehouse.select(asked.question, f"SELECT * FROM {view} LIMIT 0").columns  # noqa: S608 (ours)


def _chart(frame: pl.DataFrame) -> None:
    """Bars or a line of the first column of numbers over the first column, where that can be drawn."""
    from app.widgets.charts.points import plain_chart

    numbers = [name for name in frame.columns[1:] if frame[name].dtype.is_numeric()]
    if not numbers or not 1 < frame.height <= CHARTED:
        return
    chart = plain_chart(frame, frame.columns[0], numbers[0])
    st.altair_chart(chart, width="stretch", alt=f"{numbers[0]} by {frame.columns[0]}", key="chart-sql")


with guard.page(LEAD):
    from analysis.store.connection import Limits

    asked = question.ask()
    question.facts_line(asked)
    st.caption(
        f"At most {formats.count(MOST_ROWS)} rows and {MOST_S:.0f} s; `tracetower query DATASET --sql` takes "
        "longer ones. Filters, window, arrivals and block size on the left apply to the views."
    )
    with st.expander("Examples"):
        for name, text in EXAMPLES.items():
            st.markdown(name)
            st.code(text, language="sql")
    with st.form("sql-form", border=False):
        text = st.text_area("One SELECT", **link.at("sql"), height=160)
        st.form_submit_button("Run", type="primary", icon=":material/play_arrow:")
    with guard.guarded():
        frame = asked.desk.warehouse.sql(text, asked.question, Limits(MOST_ROWS, MOST_S))
        st.markdown(f"{formats.count(frame.height)} row{'' if frame.height == 1 else 's'}")
        _chart(frame)
        st.dataframe(figures.safe(frame), hide_index=True, placeholder=formats.UNKNOWN)
        figures.downloads("sql", frame, asked.source("", "query", "--sql", text, means="What the statement says."))
    _documented(asked)
