"""The tables of the page Why about prompts: transitions, divergences, what-ifs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.widgets import figures, formats
from app.widgets.table import Column, exact_rate, interval, table

if TYPE_CHECKING:
    from analysis.why.misses import Misses
    from app.visit.question import Asked

SMALL_SESSIONS = 20
WHAT_IFS = {
    "as_is": ("As it is", "exact"),
    "block_size": ("Block size", "exact"),
    "ttl": ("Unbounded cache with a TTL", "exact"),
    "without_compaction": ("Without compaction", "recomputed"),
    "without_edits": ("Without rewritten history", "recomputed"),
    "context_cap": ("Prompts cut off", "exact"),
    "output_cached": ("Replies stay cached", "estimate"),
}
"""What-if -> its name, and what its figure rests on."""

KINDS = {
    "clock": "clock or date", "nonce": "random id or nonce", "working_directory": "working directory or git state",
    "tool_schema": "tool order or schema", "stripped_reasoning": "reasoning no longer sent",
    "reminder": "injected reminder", "image": "image", "whitespace": "whitespace or re-serialisation",
    "summary": "summary", "edit": "history edited", "system_change": "head changed", "tail": "end replaced",
    "unrelated": "another prompt", "compaction": "history shortened",
}  # fmt: skip


def answer(asked: Asked, name: str, make: Any) -> Any:
    """What `make` gives for what is asked, made once."""
    return asked.desk.answer(f"why-{name} {asked.question!r}", make)


def transitions(asked: Asked, found: Misses, flags: list[str]) -> None:
    """Transitions in detail with what each loses."""
    from analysis.why.transition_losses import transition_losses

    frame = answer(
        asked, f"transitions {found.causes}", lambda: transition_losses(asked.desk.warehouse, asked.question, found)
    )
    st.subheader("What happened between prompts", anchor=False)
    st.caption(
        "Tokens lost: what the session's last prompt held after the place where this one departs from all before it."
    )
    rows = [
        {
            **row,
            "name": row["transition"].replace("_", " "),
            "rate": row["hit"] / row["prefix_tokens"] if row["prefix_tokens"] else None,
        }
        for row in frame.to_dicts()
    ]
    table(
        rows,
        [
            Column("name", "Transition"), Column("requests", "Requests", formats.count),
            Column("sessions", "Sessions", formats.count), Column("prefix_tokens", "Prompt tokens", formats.tokens),
            Column("rate", "Hit rate", formats.rate), Column("lost_tokens", "Tokens lost", formats.tokens),
            Column("losing_requests", "Requests that lose", formats.count),
        ], "Transitions and what each loses",
    )  # fmt: skip
    means = (
        "What happened between a prompt and those before it in its session, with starts split into warm and cold, "
        "sub-agents and side requests, "
        "and changes of model apart. Pick *transition, in detail* above for where the tokens of each went."
    )
    source = asked.source("", "misses", *flags, "--show", "transitions", "--json", means=means, computed="transitions")
    figures.downloads("transitions", frame, source)


WITHOUT = {
    "what_if_removed": "If removed", "what_if_constant": "If constant", "what_if_moved_to_end": "If at the end",
}  # fmt: skip
LEAST_POINTS = 0.0005
BRINGS = (
    "What it would add to the ceiling. Nothing, below 0.05 points: mostly because what comes after the change differs "
    "too, so that removing the change alone brings nothing back."
)


def divergences(asked: Asked) -> None:
    """What changes between consecutive prompts, what that loses, what its removal would bring."""
    import polars as pl

    from analysis.why import divergences as found_in

    st.subheader("Where consecutive prompts part", anchor=False)
    st.caption(
        "What changes between a prompt and the session's previous one, what that loses, and the ceiling if the "
        "changing line (or block) were removed, always the same, or at the end of the prompt. Recomputed."
    )
    found = answer(asked, "divergences", lambda: found_in.divergences(asked.desk.warehouse, asked.question))
    if not found:
        st.info("No prompt loses anything to a change: each continues its session's last prompt, or an earlier one.")
        return
    ceiling = asked.desk.query("hit_rate", asked.question)["ceiling"][0]
    rows = [
        {
            **row,
            **{name: row[name] - ceiling for name in WITHOUT if row[name] is not None and ceiling is not None},
            "name": KINDS.get(row["kind"], row["kind"]),
            "few": "*" if row["sessions"] < SMALL_SESSIONS else "",
            "part": row["role"].replace("_", " "),
            "message": _message(row),
        }
        for row in found
    ]
    table(
        rows,
        [
            Column("name", "What changes"), Column("part", "In"),
            Column("lost_tokens", "Tokens lost", formats.tokens), Column("requests", "Requests", formats.count),
            Column("sessions", "Sessions", formats.count), Column("few", "Few"),
            Column("message", "Message", formats.count, "Which message part it is in (median), the first being 1."),
            Column("start_token_p50", "At token", formats.count, "Where the prompts part (median)."),
            Column("same_place_requests", "At the same place", formats.count, "Requests at the commonest place."),
            *(Column(name, title, _brings, BRINGS) for name, title in WITHOUT.items()),
        ], "Divergences",
    )  # fmt: skip
    if any(row["sessions"] < SMALL_SESSIONS for row in found):
        st.caption("\\* in fewer than 20 sessions.")
    means = (
        "Consecutive prompts of a session are compared token by token. The what-ifs change the lines in every prompt, "
        "build the tree of prompts anew and count its hits."
    )
    source = asked.source("", "misses", "--show", "divergences", "--json", means=means, computed="divergences")
    figures.downloads("divergences", pl.DataFrame(found, infer_schema_length=None), source)


def _brings(difference: float) -> str:
    return "nothing" if abs(difference) < LEAST_POINTS else formats.points(difference)


def _message(row: dict[str, Any]) -> int | None:
    """Which message part, from 1; hashes do not tell where messages begin."""
    return None if row["message_p50"] is None or row["role"] == "unknown" else row["message_p50"] + 1


def what_ifs(asked: Asked, found: Misses) -> None:
    """What would change the ceiling."""
    import polars as pl

    from analysis.why.edited.what_ifs import what_if_table
    from analysis.why.intervals import what_if_intervals

    warehouse, question = asked.desk.warehouse, asked.question
    frame = answer(
        asked, "what-ifs",
        lambda: what_if_intervals(warehouse, question, found, what_if_table(warehouse, question, found)),
    )  # fmt: skip
    st.subheader("What would change the ceiling", anchor=False)
    st.caption("Of an unbounded cache. 95 % intervals if the hits of each session are known, else a dash.")
    rows = [
        {
            **row,
            "name": WHAT_IFS.get(row["what_if"], (row["what_if"].replace("_", " "), ""))[0],
            "basis": WHAT_IFS.get(row["what_if"], ("", "–"))[1],
            "at": _value(row["what_if"], row["value"]),
            "interval": interval(row["low"], row["high"]),
        }
        for row in frame.to_dicts()
    ]
    table(
        rows,
        [
            Column("name", "What if"), Column("at", "Value"), Column("hit_rate", "Ceiling", exact_rate),
            Column("interval", "95 % interval"), Column("difference", "Difference", formats.points),
            Column("prefix_tokens", "Prompt tokens", formats.tokens), Column("basis", "Basis"),
        ], "What would change the ceiling",
    )  # fmt: skip
    notes = {row["name"]: row.get("note") for row in rows}
    means = "\n".join(f"- **{name}**: {note}" for name, note in notes.items() if note)
    exact = {
        name: frame.filter(pl.col("what_if") == what)["value"].cast(pl.Int64).to_list()
        for name, what in (("block_sizes", "block_size"), ("caps", "context_cap"))
    }
    source = asked.source("", "misses", "--show", "what-ifs", "--json", means=means, computed="what_ifs", values=exact)
    figures.downloads("what-ifs", frame, source)


def _value(name: str, value: float | None) -> str:
    if value is None:
        return formats.UNKNOWN
    if name == "ttl":
        return formats.seconds(value)
    # a block of 1,024 tokens is not one of 1.02 k
    return f"{formats.count(value) if value < 10_000 else formats.tokens(value)} token{'' if value == 1 else 's'}"
