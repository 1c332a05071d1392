"""The prefixes that prompts share, as an icicle: width is requests, depth is tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.table import Column, table

if TYPE_CHECKING:
    import polars as pl

    from analysis.sessions.icicle import Icicle
    from app.visit.question import Asked

LARGEST = 100
MEANS = (
    "The prefix tree of the selected prompts. A rectangle is a stretch of prefix: as wide as the requests that share "
    "it, as high as it is long in tokens, so its area is the prompt tokens in it. A stretch goes on as long as 80 % of "
    "its requests do; those that leave it are drawn at its right, at their mean depth."
)


def draw(asked: Asked) -> None:
    """The picture from the chosen node down; a click makes a stretch the root."""
    import polars as pl

    from analysis.sessions.icicle import icicle
    from app.widgets.charts import rectangles

    root = int(link.value("node") or 0)
    nodes = len(asked.desk.warehouse.loaded().tree.parent)
    if root >= nodes:
        link.refuse("node", "no such stretch in this dataset")
        root = 0
    found = asked.desk.answer(
        f"icicle {root} {asked.question!r}", lambda: icicle(asked.desk.warehouse, asked.question, root)
    )
    if found.rectangles.is_empty():
        st.info("No selected prompt has a known prefix here.", icon=":material/info:")
        if root:
            st.button("Show all prefixes", on_click=link.put, args=("node", 0), icon=":material/zoom_out_map:")
        return
    _words(found, root)
    frame = found.rectangles.with_columns(
        words=pl.when(pl.col("part") == "branches")
        .then(pl.format("{} small branches, drawn as one", "nodes"))
        .otherwise(pl.lit("shared prefix")),
        role=pl.col("role").replace("unknown", None).str.replace_all("_", " ").fill_null(formats.UNKNOWN),
        session=pl.col("session_id").cast(pl.String).fill_null("several or unknown"),
    )
    chart = rectangles.icicle_chart(frame, found.requests)
    event = st.altair_chart(
        chart, width="stretch", alt="Prefixes by the requests that share them", key=f"icicle-{root}", on_select="rerun",
        selection_mode=rectangles.PICK,
    )  # fmt: skip
    figures.downloads("prefixes", found.rectangles, asked.source("", "report", "--json", means=MEANS), chart)
    picked = _largest(frame)
    points = event.selection.get(rectangles.PICK) or []
    chosen = int(points[0]["node"]) if points and "node" in points[0] else picked
    if chosen is not None and chosen != root:
        link.put("node", chosen)
        st.rerun()


def _largest(frame: pl.DataFrame) -> int | None:
    """The stretches that hold most prompt tokens, as a table; the node of the row that is chosen."""
    with st.expander("The largest stretches as a table", icon=":material/table_rows:"):
        shared = frame.filter(frame["part"] == "shared").unique("node", keep="first", maintain_order=True)
        rows = shared.sort("tokens", descending=True).head(LARGEST).to_dicts()
        columns = [
            Column("y0", "From token", formats.count), Column("distinct_tokens", "Length", formats.tokens),
            Column("requests", "Requests", formats.count), Column("tokens", "Prompt tokens", formats.tokens),
            Column("role", "Mostly"), Column("session", "Session"),
        ]  # fmt: skip
        st.caption("Click a row to look below it.")
        picked = table(rows, columns, "Largest stretches", key=f"stretches-{rows[0]['node'] if rows else 0}", pick=True)
    return None if picked is None else int(picked["node"])


def _words(found: Icicle, root: int) -> None:
    factor = found.prompt_tokens / found.distinct_tokens if found.distinct_tokens else None
    top = int(found.rectangles.sort("y0")["y0"][0])
    below = f" after token {formats.count(top)}" if root else ""
    sent, distinct = formats.tokens(found.prompt_tokens), formats.tokens(found.distinct_tokens)
    st.markdown(
        f"{formats.count(found.requests)} requests send **{sent} prompt tokens**{below}, of which **{distinct} are "
        f"distinct**: each is sent {formats.factor(factor)}."
    )
    small = found.rectangles.filter(found.rectangles["part"] == "branches")
    grey = "" if small.is_empty() else (
        f" Grey: {formats.count(int(small['nodes'].sum()))} branches of fewer than "
        f"{formats.count(found.least_requests)} requests, neighbours drawn as one of mean depth; inside them each "
        f"token is sent {formats.factor(int(small['tokens'].sum()) / int(small['distinct_tokens'].sum()))}."
    )  # fmt: skip
    st.caption(
        "A rectangle is a stretch of prefix, as wide as the requests that share it and as deep as it is long: what is "
        f"wide and deep is what a cache reuses most. Click one to look below it.{grey}"
    )
    if root:
        sessions = found.rectangles["session_id"].unique()
        with st.container(horizontal=True):
            st.button("Show all prefixes", on_click=link.put, args=("node", 0), icon=":material/zoom_out_map:")
            if len(sessions) == 1 and sessions[0] is not None:
                st.button(
                    f"Open session {sessions[0]}, whose requests these are", on_click=link.put,
                    args=("session", sessions[0]), icon=":material/forum:",
                )  # fmt: skip
