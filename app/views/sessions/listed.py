"""The list of sessions: sorted, searched, and a click away from each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.sessions.answers import Answers
from app.views.why.sessions import COLUMNS, MEANS, SHORT, file_names
from app.visit.link import link
from app.visit.link.session_rows import HINT
from app.widgets import figures, formats
from app.widgets.table import Column, table

if TYPE_CHECKING:
    import polars as pl

PAGE_ROWS = 200
ORDERS = {
    "lost_tokens": "tokens lost", "prefix_tokens": "prompt tokens", "turns": "turns", "length_s": "length in time",
    "sub_agents": "sub-agents", "hit_rate": "hit rate, lowest first", "start_s": "start, first to last",
}  # fmt: skip
ASCENDING = ("hit_rate", "start_s")


def draw(found: Answers, words: str) -> None:
    """What is lost by all sessions, the controls, and the table; a row opens its session."""
    whole = found.table()
    names = file_names(found.asked)
    if "inferred" in found.asked.desk.warehouse.loaded().requests["session_source"]:
        st.caption("This trace does not name all sessions: those without a name are prompts that extend one another.")
    _summary(whole, words)
    order, cause, text = _controls(whole, bool(names))
    shown = _searched(whole, cause, text, names).sort(
        cause if cause != "all" and order == "lost_tokens" else order, "prefix_tokens", "session_id",
        descending=[order not in ASCENDING, True, False], nulls_last=True,
    )  # fmt: skip
    if shown.is_empty():
        st.warning(
            "**No session is left.** Search for something else, or choose another cause.",
            icon=":material/search_off:",
        )
        st.button("Show all sessions", on_click=_reset, icon=":material/restart_alt:")
        return
    page = _page(shown.height)
    rows = [_row(row, names) for row in shown.slice((page - 1) * PAGE_ROWS, PAGE_ROWS).to_dicts()]
    present = [name for name in COLUMNS if int(whole[name].sum())]
    st.caption(HINT)
    picked = table(rows, _columns(present), "Sessions", key=f"sessions-{order}-{cause}-{page}", pick=True)
    if picked is not None:
        link.put("turn", None)
        link.put("session", picked["session_id"])
        st.rerun()
    source = found.asked.source(
        "", "misses", *found.flags, "--show", "sessions", "--json", means=MEANS, computed="sessions",
        values=None if cause != "all" or not shown["reported_rate"].is_null().all() else found.values,
    )  # fmt: skip
    figures.downloads("sessions", shown, source)


def _summary(whole: pl.DataFrame, words: str) -> None:
    from analysis.why.session_losses import REMEDIES

    lost, prompt = int(whole["lost_tokens"].sum()), int(whole["prefix_tokens"].sum())
    if whole["reported_rate"].is_not_null().any():
        words += " or in the provider's"
    losing = whole.filter(whole["lost_tokens"] > 0)
    if not lost:
        st.markdown(
            f"None of the {formats.count(whole.height)} sessions loses a token in {words}. "
            "Choose a cache of some size above to see what it would lose."
        )
        return
    worst = losing.sort("lost_tokens", descending=True).row(0, named=True)
    share, most = formats.rate(lost / prompt, 2), formats.tokens(worst["lost_tokens"])
    st.markdown(
        f"**{formats.count(losing.height)} of {formats.count(whole.height)} sessions lose {formats.tokens(lost)} "
        f"tokens** in {words}, {share} of their prompts. Session {worst['session_id']} loses most, {most}. "
        f"What would bring most of them back: {REMEDIES[worst['remedy']]}."
    )


def _controls(whole: pl.DataFrame, named: bool) -> tuple[str, str, str]:
    first, second, third = st.columns(3)
    order = first.selectbox("Sort by", **link.at("sessions-sort"), format_func=ORDERS.__getitem__)
    present = ["all", *(name for name in COLUMNS if int(whole[name].sum()))]
    cause = second.selectbox(
        "Tokens lost to", **link.at("sessions-cause", present, "all"),
        format_func=lambda name: "anything, or nothing" if name == "all" else COLUMNS[name],
        help="Only sessions that lose tokens to this, those that lose most to it first.",
    )  # fmt: skip
    text = third.text_input(
        "Search", **link.at("sessions-find"), placeholder="id, agent, model, type" + (", file name" if named else "")
    )
    return str(order), str(cause), str(text or "")


def _searched(whole: pl.DataFrame, cause: str, text: str, names: dict[str, str]) -> pl.DataFrame:
    """The sessions that lose tokens to a cause and hold a text in what names them."""
    import polars as pl

    frame = whole if cause == "all" else whole.filter(pl.col(cause) > 0)
    if not text.strip():
        return frame
    label = pl.col("input_label").replace(names) if names else pl.col("input_label")
    places = [label, *(pl.col(name) for name in ("agent", "model", "trajectory_type", "role"))]
    sought = text.strip().lower()
    hits = [place.fill_null("").str.to_lowercase().str.contains(sought, literal=True) for place in places]
    return frame.filter(pl.any_horizontal(pl.col("session_id").cast(pl.String) == sought, *hits))


def _page(rows: int) -> int:
    pages = -(-rows // PAGE_ROWS)
    if pages == 1:
        return 1
    if int(link.value("sessions-page") or 1) > pages:
        link.put("sessions-page", pages)
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    page = int(left.number_input("Page", **(link.at("sessions-page") | {"max_value": pages})))
    first = (page - 1) * PAGE_ROWS
    right.caption(
        f"Sessions {formats.count(first + 1)} to {formats.count(min(rows, first + PAGE_ROWS))} "
        f"of {formats.count(rows)}."
    )
    return page


def _row(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    more = "" if row["models"] < 2 else f" and {row['models'] - 1} more"
    return {
        **row,
        "input": names.get(row["input_label"], row["input_label"]),
        "model": None if row["model"] is None else f"{row['model']}{more}",
        "sub_agents": row["sub_agents"] or None,
        "what": SHORT.get(row["remedy"], formats.UNKNOWN),
    }


def _columns(present: list[str]) -> list[Column]:
    return [
        Column("session_id", "Session", str), Column("lost_tokens", "Tokens lost", formats.tokens),
        Column("what", "Most comes back by"), Column("turns", "Turns", formats.count),
        Column("prefix_tokens", "Prompt tokens", formats.tokens),
        Column("hit_rate", "Hit rate", formats.rate, "In the cache chosen above."),
        Column("length_s", "Length", formats.seconds, "From the first arrival to the end of the last request."),
        Column("sub_agents", "Sub-agents", formats.count), Column("agent", "Agent"), Column("model", "Model"),
        Column("trajectory_type", "Type"), Column("input", "From"),
        Column("reported_rate", "Reported", formats.rate, "What the provider reports, of the same prompts."),
        *(Column(name, f"Lost: {COLUMNS[name].lower()}", formats.tokens) for name in present),
    ]  # fmt: skip


def _reset() -> None:
    link.put("sessions-cause", "all")
    link.put("sessions-find", "")
    link.put("sessions-page", 1)
