"""The card of a turn: its figures, its causes in words, what changed from the prompt before it, and its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.sessions.words import plural, transition_means, transition_name
from app.views.why.reported import named
from app.views.why.sessions import COLUMNS as REMEDY_NAMES
from app.views.why.tables import KINDS
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.table import Column, table

if TYPE_CHECKING:
    import polars as pl

AROUND = 2
COLUMNS = [
    Column("turn", "Turn", formats.count), Column("name", "To the last prompt"),
    Column("prefix_tokens", "Prompt tokens", formats.tokens), Column("hit", "Hit", formats.tokens),
    Column("lost_tokens", "Tokens lost", formats.tokens), Column("rewritten", "Rewritten", formats.tokens),
    Column("first_seen", "First seen", formats.tokens), Column("output_tokens", "Reply tokens", formats.tokens),
    Column("gap_s", "Pause before", formats.seconds), Column("model", "Model"),
]  # fmt: skip


def go(turn: int) -> None:
    """Open a turn."""
    link.put("turn", turn)


def draw(turns: pl.DataFrame, number: int) -> None:
    """The card of turn `number`."""
    import polars as pl

    place = turns.with_row_index("place").filter(pl.col("turn") == number)
    if place.is_empty():
        st.warning(f"Turn {number} is not here: the session has no such turn, or the filters leave it out.")
        return
    at, row = int(place["place"][0]), place.row(0, named=True)
    with st.container(border=True):
        st.subheader(f"Turn {number}: {transition_name(row['transition'])}", anchor=False)
        st.markdown(f"**{transition_means(row['transition']).capitalize()}.** {_went(row)}")
        _figures(row)
        for line in (_changed(row), _lost(row), _reported(row), _started(row)):
            if line:
                st.markdown(line)
        around = turns.slice(max(0, at - AROUND), AROUND + 1 + min(at, AROUND))
        st.markdown("**Its neighbours**")
        rows = [{**near, "name": transition_name(near["transition"])} for near in around.to_dicts()]
        table(rows, COLUMNS, "The turns around it")
        with st.container(horizontal=True):
            for step, icon in ((-1, "chevron_left"), (1, "chevron_right")):
                if 0 <= at + step < turns.height:
                    other = int(turns["turn"][at + step])
                    st.button(f"Turn {other}", key=f"go-{step}", on_click=go, args=(other,), icon=f":material/{icon}:")
            st.button("Close", key="turn-close", on_click=link.put, args=("turn", None), icon=":material/close:")


def _figures(row: dict[str, Any]) -> None:
    shown = (
        ("Tokens sent", formats.tokens(row["prefix_tokens"]), "Tokens of the prompt.", ""),
        ("Hit", formats.rate(row["hit"] / row["prefix_tokens"] if row["prefix_tokens"] else None),
         "Tokens read from the chosen cache, of the prompt.", formats.tokens(row["hit"])),
        ("Reply", formats.tokens(row["output_tokens"]), "Tokens generated.", formats.seconds(row["duration_s"])),
        ("Pause before", formats.seconds(row["gap_s"]), "From the end of the session's last request.", "")
        if (row["gap_s"] or 0) >= 0
        else ("Overlap", formats.seconds(-row["gap_s"]), "The session's last request was still running.", ""),
    )  # fmt: skip
    for place, (name, value, help, note) in zip(st.columns(4), shown, strict=True):
        with place:
            figures.metric(name, value, help, note)


def _went(row: dict[str, Any]) -> str:
    """Where the tokens of the prompt went, in the order in which they stand in it."""
    from analysis.sessions.tower import STACK
    from analysis.why.causes import CAUSES

    parts = [f"{formats.tokens(row[name])} {CAUSES[name].label} ({CAUSES[name].means})" for name in STACK if row[name]]
    return f"From the start of the prompt: {', then '.join(parts)}." if parts else "The prompt is empty."


def _changed(row: dict[str, Any]) -> str:
    """What differs from the session's previous prompt."""
    if row["previous_turn"] is None:
        return ""
    before, shared, length = row["previous_turn"], row["shared_previous_tokens"], row["previous_prefix_tokens"]
    common = (
        f"**From turn {before}**: both prompts begin with the same {formats.count(shared)} tokens, of "
        f"{formats.count(length)} in turn {before} and {formats.count(row['prefix_tokens'])} here."
    )
    if shared >= length:
        return f"{common} Nothing that was sent before changed."
    if row["start_token"] is None or row["changed_from_turn"] != before:
        return f"{common} What differs after them is not recorded."
    kind, role, message = row["change_kind"], row["change_role"], row["change_message"]
    textless = role in (None, "unknown")
    what = KINDS.get(kind, str(kind)) if kind else "not known, the trace holds no text" if textless else "no known kind"
    of = "" if textless else f" of a message with the role *{role.replace('_', ' ')}*"
    part = "" if textless or message is None else f", part {message + 1} of the prompt"
    if role == "unobserved":
        of, part = ", in a part of the prompt that the files do not hold", ""
        what = what if kind else "not known"
    lines = ""
    if row["line_token"] is not None:
        was, now = row["previous_line_tokens"], row["line_tokens"]
        sizes = (
            f"{plural(now, 'token')} were put in" if not was
            else f"{plural(was, 'token')} were taken out" if not now
            else f"{plural(was, 'token')} became {formats.count(now)}"
        )  # fmt: skip
        lines = f" There {sizes}."
        if row["resumed_tokens"]:
            again = formats.count(row["resumed_tokens"])
            lines += f" The {again} tokens after that are the same again, but no longer a prefix."
    kept = " The end of the last prompt is still there." if row["keeps_end"] else ""
    return (
        f"{common} They part at token {formats.count(row['start_token'])}{of}{part}. What changed: {what}.{lines}{kept}"
    )


def _lost(row: dict[str, Any]) -> str:
    from analysis.why.session_losses import REMEDIES

    if not row["lost_tokens"]:
        return ""
    parts = [name for name in REMEDY_NAMES if row[name]]
    remedies = "; ".join(
        REMEDIES[name] if len(parts) == 1 else f"{formats.tokens(row[name])}: {REMEDIES[name]}" for name in parts
    )
    lost = "1 token" if row["lost_tokens"] == 1 else f"{formats.tokens(row['lost_tokens'])} tokens"
    return f"**Lost: {lost}.** What would bring that back: {remedies}."


def _reported(row: dict[str, Any]) -> str:
    if row["reported_tokens"] is None:
        return ""
    read, shared = row["reported_tokens"], row["achievable_tokens"]
    why = f" Cause: {named(row['reported_cause'])}." if row["reported_cause"] and read < shared else ""
    more = " That is more than any prompt of this dataset explains." if read > shared else ""
    return (
        f"**The provider** read {plural(read, 'token')} from its cache; an earlier prompt shares "
        f"{formats.count(shared)}.{why}{more}"
    )


def _started(row: dict[str, Any]) -> str:
    if not row["sub_agents"]:
        return ""
    size = formats.tokens(row["sub_agent_tokens"])
    return f"**It started {plural(row['sub_agents'], 'sub-agent')}**, whose prompts have {size} tokens."
