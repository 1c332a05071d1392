"""The tables of the page Why: sessions, transitions, divergences, the provider's cache, what-ifs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app import figures, formats

if TYPE_CHECKING:
    from analysis.misses import Misses
    from app.sidebar import Asked

WHAT_IFS = {
    "as_is": "As it is",
    "block_size": "Block size",
    "ttl": "Unbounded cache with a TTL",
    "without_compaction": "Without compaction, at most",
    "without_edits": "Without rewritten history, at most",
    "context_cap": "Prompts cut off",
    "output_cached": "Replies stay cached, at most",
}
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


def divergences(asked: Asked) -> None:
    """What changes between consecutive prompts, what that loses, what its removal would bring."""
    import polars as pl

    from analysis import divergences as found_in

    st.subheader("Where consecutive prompts part", anchor=False)
    st.caption(
        "What changes between a prompt and the session's previous one, what that loses, and the ceiling if the "
        "changing line (or block) were removed, always the same, or at the end of the prompt. Recomputed."
    )
    found = answer(asked, "divergences", lambda: found_in.divergences(asked.desk.warehouse, asked.question))
    if not found:
        st.info("No prompt loses anything to a change: every one begins as its session's last did.")
        return
    rows = [
        {
            "What changes": KINDS.get(row["kind"], row["kind"]),
            "In": row["role"].replace("_", " "),
            "Requests": formats.count(row["requests"]),
            "Sessions": formats.count(row["sessions"]),
            "Tokens lost": formats.tokens(row["lost_tokens"]),
            "At token": formats.count(row["start_token_p50"]),
            "At the same place": formats.count(row["same_place_requests"]),
            "If removed": formats.rate(row["what_if_removed"], 2),
            "If constant": formats.rate(row["what_if_constant"], 2),
            "If at the end": formats.rate(row["what_if_moved_to_end"], 2),
        }
        for row in found
    ]
    st.dataframe(rows, hide_index=True)
    figures.downloads("divergences", pl.DataFrame(found), asked, "misses", asked.command("misses", "--json"))


def transitions(asked: Asked, found: Misses) -> None:
    """Transitions in detail with what each loses."""
    from analysis.transition_losses import transition_losses

    frame = answer(
        asked, f"transitions {found.causes}", lambda: transition_losses(asked.desk.warehouse, asked.question, found)
    )
    st.subheader("What happened between prompts", anchor=False)
    rows = [
        {
            "Transition": row["transition"].replace("_", " "),
            "Requests": formats.count(row["requests"]),
            "Sessions": formats.count(row["sessions"]),
            "Prompt tokens": formats.tokens(row["prefix_tokens"]),
            "Hit": formats.rate(row["hit"] / row["prefix_tokens"] if row["prefix_tokens"] else None),
            "Tokens lost": formats.tokens(row["lost_tokens"]),
            "Requests that lose": formats.count(row["losing_requests"]),
        }
        for row in frame.to_dicts()
    ]
    st.dataframe(rows, hide_index=True)


def sessions(asked: Asked, found: Misses) -> None:
    """The sessions to look at first."""
    frame = asked.desk.query("missing_sessions", asked.question, causes=found.causes, most=20)
    if frame.is_empty():
        return
    st.subheader("Sessions to look at first", anchor=False)
    rows = [
        {
            "Session": str(row["session_id"]),
            "Type": row["trajectory_type"] or formats.UNKNOWN,
            "Requests": formats.count(row["requests"]),
            "Hit rate": formats.rate(row["hit_rate"]),
            "Tokens lost": formats.tokens(row["lost_tokens"]),
            "What brings them back": row["what_brings_it_back"],
        }
        for row in frame.to_dicts()
    ]
    st.dataframe(rows, hide_index=True)
    command = asked.command("query", "missing_sessions")
    figures.downloads("missing-sessions", frame, asked, "missing_sessions", command)


def provider(asked: Asked, found: Misses) -> None:
    """Reported against achievable, with a cause for every loss, and how often the provider's cache survived."""
    from analysis.provider_gap import provider_gap

    rows = answer(asked, "provider", lambda: provider_gap(asked.desk.warehouse, asked.question, found, "model"))
    if not rows:
        return
    st.subheader("Reported by the provider against achievable", anchor=False)
    shown = []
    for row in rows:
        causes = ", ".join(
            f"{cause.replace('_', ' ')} {formats.tokens(n)}" for cause, n in row["lost_by_cause"].items()
        )
        shown.append(
            {
                "Model": row["group"],
                "Requests": formats.count(row["requests"]),
                "Achievable": formats.rate(row["achievable_rate"]),
                "Reported": formats.rate(row["reported_rate"]),
                "Gap": formats.points(row["gap_rate"]),
                "Tokens lost to": causes or formats.UNKNOWN,
                "Above achievable": formats.count(row["above_ceiling_requests"]),
            }
        )
    st.dataframe(shown, hide_index=True)
    frame = asked.desk.query("cache_survival", asked.question)
    if frame.is_empty():
        return
    st.caption("How often the provider's cache outlived the time to the session's next request:")
    st.dataframe(
        [
            {
                "Time between": row["gap"],
                "Requests": formats.count(row["pairs"]),
                "Survived": formats.rate(row["survived"] / row["pairs"]),
                "Tokens lost": formats.tokens(row["lost_tokens"]),
            }
            for row in frame.to_dicts()
        ],
        hide_index=True,
    )
    figures.downloads("survival", frame, asked, "cache_survival", asked.command("query", "cache_survival"))


def what_ifs(asked: Asked, found: Misses) -> None:
    """What would change the ceiling."""
    from analysis.what_ifs import what_if_table

    frame = answer(asked, "what-ifs", lambda: what_if_table(asked.desk.warehouse, asked.question, found))
    st.subheader("What would change the ceiling", anchor=False)
    rows = [
        {
            "What if": WHAT_IFS[row["what_if"]],
            "Value": _value(row["what_if"], row["value"]),
            "Ceiling": formats.rate(row["hit_rate"], 2),
            "Difference": formats.points(row["difference"]),
        }
        for row in frame.to_dicts()
    ]
    st.dataframe(rows, hide_index=True)
    figures.downloads("what-ifs", frame, asked, "misses", asked.command("misses", "--json"))


def _value(name: str, value: float | None) -> str:
    if value is None:
        return formats.UNKNOWN
    return formats.seconds(value) if name == "ttl" else f"{formats.tokens(value)} tokens"
