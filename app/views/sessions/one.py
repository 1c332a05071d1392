"""One session: its figures, its tower, the turns that lose most, and the turn that is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.sessions import turn as turn_card
from app.views.sessions.answers import Answers
from app.views.sessions.words import lower, plural, transition_name
from app.views.why.sessions import SHORT, file_names
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.plain_text import markdown
from app.widgets.table import table

if TYPE_CHECKING:
    import polars as pl

MOST_MARKS = 60
WORST = 5
MEANS = (
    "A stack per turn, as high as its prompt: the tokens in the order in which they stand in it, by what became of "
    "them in the chosen cache. They sum to the prompt."
)


def draw(found: Answers, session_id: int, words: str) -> None:
    """The session, or that it is not among those that are selected."""
    st.button("All sessions", on_click=_back, icon=":material/arrow_back:", type="tertiary")
    whole = found.table()
    row = whole.filter(whole["session_id"] == session_id)
    if row.is_empty():
        st.warning(
            f"**Session {session_id} is not here.** This dataset has no such session, or the filters leave none of its "
            "requests.", icon=":material/filter_alt_off:",
        )  # fmt: skip
        return
    turns = found.turns(session_id)
    _head(found, row.row(0, named=True), words)
    _worst(turns)
    first, last = _window(turns)
    picked = _pictures(found, turns, first, last)
    if picked != st.session_state.get("tower-picked"):  # else the click is an old one, and a button came after it
        st.session_state["tower-picked"] = picked
        if picked is not None and picked != link.value("turn"):
            link.put("turn", picked)
            st.rerun()
    if (opened := link.value("turn")) is not None:
        turn_card.draw(turns, int(opened))
    _all_turns(found, turns, session_id)


def _back() -> None:
    link.clear("session", "turn", "turns-from", "turns-to")


def _head(found: Answers, row: dict[str, Any], words: str) -> None:
    names = file_names(found.asked)
    about = [
        row["agent"], row["model"], None if row["role"] in (None, "main", "unknown") else f"a {row['role']}",
        names.get(row["input_label"], row["input_label"]),
        None if row["length_s"] is None else f"{formats.seconds(row['length_s'])} long",
        plural(row["sub_agents"], "sub-agent") if row["sub_agents"] else None,
    ]  # fmt: skip
    st.header(f"Session {row['session_id']}", anchor=False)
    st.markdown(" · ".join(markdown(str(part)) for part in about if part))
    if row["parent_session_id"] is not None:
        st.button(
            f"Started by session {row['parent_session_id']}", on_click=_open, args=(row["parent_session_id"],),
            icon=":material/arrow_upward:", type="tertiary",
        )  # fmt: skip
    back = f"Comes back by: {lower(SHORT[row['remedy']])}" if row["remedy"] else "nothing is lost"
    for place, (name, value, help, note) in zip(
        st.columns(4),
        (
            ("Turns", formats.count(row["turns"]), "Selected requests of the session with a known prompt.", ""),
            ("Tokens sent", formats.tokens(row["prefix_tokens"]), "Tokens of all prompts together.", ""),
            ("Hit rate", formats.rate(row["hit_rate"]), f"Tokens read from {words}, of all prompt tokens.", ""),
            ("Tokens lost", formats.tokens(row["lost_tokens"]), "Tokens that a remedy would bring back.", back),
        ),
        strict=True,
    ):  # fmt: skip
        with place:
            figures.metric(name, value, help, note)


def _open(session_id: int) -> None:
    _back()
    link.put("session", session_id)


def _window(turns: pl.DataFrame) -> tuple[int, int]:
    """The turns to draw; a choice where there are too many for one picture."""
    from analysis.sessions.tower import MOST_TURNS

    least, most = int(turns["turn"][0]), int(turns["turn"][-1])
    if turns.height <= MOST_TURNS:
        return least, most
    for name in ("turns-from", "turns-to"):
        if (given := link.value(name)) is not None and not least <= given <= most:
            if name in st.query_params:
                link.refuse(name, f"must be from {least} to {most} here")
            link.clear(name)  # else it is another session's
    left, right, note = st.columns([1, 1, 2], vertical_alignment="bottom")
    ends = {"min_value": least, "max_value": most}
    first = left.number_input("From turn", **{**link.at("turns-from", default=least), **ends})
    last = right.number_input("To turn", **{**link.at("turns-to", default=most), **ends})
    low, high = sorted((int(first), int(last)))
    if high - low >= MOST_TURNS:
        note.caption(
            f"Each column stands for several turns and shows the one that lost most. Up to {MOST_TURNS} turns are "
            "drawn one by one."
        )
    return low, high


def _pictures(found: Answers, turns: pl.DataFrame, first: int, last: int) -> int | None:
    """The tower and the pauses below it; the turn that was clicked."""
    import polars as pl

    from analysis.sessions.tower import shown_turns, tower
    from analysis.why.causes import CAUSES
    from app.widgets.charts import rectangles

    shown = shown_turns(turns, first, last)
    if shown.is_empty():
        st.info("No turn of the session is in this range.", icon=":material/info:")
        return None
    named = pl.col("transition").map_elements(transition_name, return_dtype=pl.String)
    parts = (
        tower(shown)
        .join(turns.select("turn", "transition"), on="turn", how="left", maintain_order="left")
        .with_columns(
            cause=pl.col("cause").replace_strict({name: about.label for name, about in CAUSES.items()}),
            transition=named.fill_null("not known"),
        )
    )
    inside = turns.filter(pl.col("turn").is_between(first, last))
    broken = inside.filter(pl.col("transition") != "append", pl.col("previous_turn").is_not_null())
    losing = broken if broken.height <= MOST_MARKS else broken.filter(pl.col("lost_tokens") > 0)
    marks = losing.sort("lost_tokens", descending=True).head(MOST_MARKS).sort("turn")
    unread = _unread(shown)
    triangles = marks.select("turn", y="prefix_tokens", transition=named)
    chart = rectangles.tower_chart(parts, triangles, unread, link.value("turn"))
    st.subheader("Where the tokens of each turn went", anchor=False)
    says = "▼: the prompt does not simply extend the one before it. " if not marks.is_empty() else ""
    says += "" if unread.is_empty() else "Outlined: an earlier prompt shares it, and the provider did not read it. "
    more = f"Marked are {marks.height} of {formats.count(broken.height)}, those that lost most. "
    more = more if marks.height < broken.height else ""
    st.caption(f"{says}{more}Click a turn to open it. Shift and scroll zooms, dragging moves, a double click resets.")
    event = st.altair_chart(
        chart, width="stretch", alt=_alt(turns), key=f"tower-{first}-{last}", on_select="rerun",
        selection_mode=rectangles.PICK,
    )  # fmt: skip
    if shown["longest_gap_s"].max() or int(shown["started"].sum()):
        below = shown.select("x0", "x1", gap_s="longest_gap_s", sub_agents="started")
        diamonds = " ◆: it started sub-agents." if int(shown["started"].sum()) else ""
        st.altair_chart(rectangles.gap_strip(below), width="stretch", alt="Pauses before each turn", key="pauses")
        st.caption(f"The pause before each turn, from the end of the one before it.{diamonds}")
    figures.downloads(
        "tower", turns, found.asked.source(
            "session_turns", "query", "session_turns", f"session={link.value('session')}", means=MEANS,
        ), chart,
    )  # fmt: skip
    points = event.selection.get(rectangles.PICK) or []
    return int(points[0]["turn"]) if points and "turn" in points[0] else None


def _unread(shown: pl.DataFrame) -> pl.DataFrame:
    """What the provider did not read although an earlier prompt shares it, where it is enough to be seen."""
    import polars as pl

    seen = int(shown["prefix_tokens"].max() or 0) // 100  # type: ignore[arg-type]
    missed = pl.col("achievable_tokens") - pl.col("reported_tokens")
    places = {"y0": "reported_tokens", "y1": "achievable_tokens"}
    return shown.filter(missed > seen).select("turn", "x0", "x1", tokens=missed, **places)


def _alt(turns: pl.DataFrame) -> str:
    worst = turns.sort("lost_tokens", descending=True).row(0, named=True)
    return f"Prompt tokens of {turns.height} turns by what became of them; turn {worst['turn']} lost most"


def _worst(turns: pl.DataFrame) -> None:
    """A button for each turn that lost most."""
    least = max(1, int(turns["lost_tokens"].sum()) // 100)  # what matters less is not worth a button
    losing = turns.filter(turns["lost_tokens"] >= least).sort("lost_tokens", descending=True).head(WORST)
    if losing.is_empty():
        st.caption("No turn of this session loses tokens.")
        return
    st.markdown("**The turns that lost most**")
    with st.container(horizontal=True):
        for row in losing.to_dicts():
            st.button(
                f"Turn {row['turn']}: {formats.tokens(row['lost_tokens'])}", key=f"worst-{row['turn']}",
                on_click=turn_card.go, args=(row["turn"],), help=transition_name(row["transition"]),
            )  # fmt: skip


def _all_turns(found: Answers, turns: pl.DataFrame, session_id: int) -> None:
    """Every turn as a table; a row opens its turn."""
    with st.expander(f"All {plural(turns.height, 'turn')} as a table", icon=":material/table_rows:"):
        rows = [{**row, "name": transition_name(row["transition"])} for row in turns.head(2000).to_dicts()]
        picked = table(rows, turn_card.COLUMNS, "Turns", key=f"turns-{session_id}", pick=True)
        if turns.height > len(rows):
            st.caption(f"The first {formats.count(len(rows))}; all are in the files above.")
    if picked is not None and picked["turn"] != st.session_state.get("turn-row"):
        st.session_state["turn-row"] = picked["turn"]
        link.put("turn", picked["turn"])
        st.rerun()
