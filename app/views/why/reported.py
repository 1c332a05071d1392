"""Reported against achievable, on the page Why: what the provider's cache lost, and to what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.why.tables import answer
from app.visit.link import link
from app.visit.link.session_rows import of_group, session_rows
from app.widgets import figures, formats
from app.widgets.table import Column, interval, table

if TYPE_CHECKING:
    from analysis.why.misses import Misses
    from app.visit.question import Asked

CAUSE_NAMES = {"ttl_5m": "TTL, over 5 min", "ttl_1h": "TTL, over 1 h", "unobserved_head": "unseen head"}
MOST = 200
ENDS = ("achievable_low", "achievable_high", "reported_low", "reported_high", "gap_low", "gap_high")


def provider(asked: Asked, found: Misses, flags: list[str]) -> None:
    """Reported against achievable by model, session or day, with a cause for every loss; and the cache's survival."""
    from analysis.why.intervals import provider_intervals
    from analysis.why.provider.gap import ABOVE_REASONS, CAUSES, provider_gap

    warehouse, question = asked.desk.warehouse, asked.question
    st.subheader("Reported by the provider against achievable", anchor=False)
    if not answer(asked, "provider all", lambda: provider_gap(warehouse, question, found, "all")):
        st.info("The source reports no cache reads for prompts that are known.", icon=":material/info:")
        return
    axis = st.segmented_control(
        "Reported by", **link.at("why-reported"), required=True,
        format_func=str.capitalize, label_visibility="collapsed",
    )  # fmt: skip
    rows = answer(asked, f"provider {axis}", lambda: provider_gap(warehouse, question, found, axis))
    ends = answer(
        asked, f"provider-ends {axis}", lambda: provider_intervals(warehouse, question, found, axis).to_dicts()
    )
    intervals = {row["group"]: row for row in ends}
    causes = _met(rows, "lost_by_cause")
    reasons = _met(rows, "above_by_reason")
    shown = [
        {**_row(row, intervals.get(row["group"], {}), causes, reasons), "session_id": of_group(axis, row["group"])}
        for row in rows
    ]
    st.caption(
        "Achievable: shared with an earlier prompt, to the token. The gap is what was lost, less what was read above "
        "what is known to be shared: a counting problem, or a head that is not in the files. It is not clamped."
    )
    session_rows(
        shown[:MOST],
        [
            Column("name", str(axis).capitalize()), Column("requests", "Requests", formats.count),
            Column("achievable_rate", "Achievable", formats.rate), Column("achievable", "95 % interval"),
            Column("reported_rate", "Reported", formats.rate), Column("reported", "95 %, reported"),
            Column("gap_rate", "Gap", formats.points),
        ], "Reported against achievable", f"reported-{axis}",
    )  # fmt: skip
    _tokens(shown[:MOST], str(axis), causes, reasons)
    if len(rows) > MOST:
        st.caption(f"The {MOST} that lose most of {formats.count(len(rows))}; all are in the files.")
    if any(row["name"] != row["group"] for row in shown):
        st.caption("\\* fewer than 20 sessions: the interval says little. A dash: fewer than two.")
    import polars as pl

    flat = pl.DataFrame(shown, infer_schema_length=None).drop("name", "achievable", "reported", "session_id")
    lines = "\n".join(f"- **{named(name)}**: {text}" for name, text in {**CAUSES, **ABOVE_REASONS}.items())
    means = f"The first that fits, in this order:\n\n{lines}"
    source = asked.source(
        "",
        "misses",
        *flags,
        "--by",
        str(axis),
        "--show",
        "reported",
        "--json",
        means=means,
        computed="reported",
        values={"axis": axis},
    )
    figures.downloads("reported", flat, source)
    _survival(asked)


def _tokens(rows: list[dict[str, Any]], axis: str, causes: list[str], reasons: list[str]) -> None:
    """The gap in tokens: lost by cause, and read above what is known to be shared, by why."""
    from analysis.why.provider.gap import ABOVE_REASONS, CAUSES

    if not causes and not reasons:
        return
    st.caption(
        "The gap in tokens: what was not read, by cause, and what was read above what is known to be shared, by why."
    )
    session_rows(
        rows,
        [
            Column("name", axis.capitalize()), Column("gap_tokens", "Gap", formats.tokens),
            *(Column(f"lost {c}", _capital(named(c)), formats.tokens, CAUSES.get(c)) for c in causes),
            *(Column(f"above {r}", f"Above: {named(r)}", formats.tokens, ABOVE_REASONS.get(r)) for r in reasons),
            *([Column("above_ceiling_requests", "Requests above", formats.count)] if reasons else []),
        ], "The gap in tokens by cause", f"gap-{axis}",
    )  # fmt: skip


def _met(rows: list[dict[str, Any]], column: str) -> list[str]:
    """The causes that lose anything, in the order of most tokens."""
    sums: dict[str, int] = {}
    for row in rows:
        for name, tokens in row[column].items():
            sums[name] = sums.get(name, 0) + tokens
    return sorted(sums, key=lambda name: -sums[name])


def named(cause: str) -> str:
    """A cause in people's words."""
    return CAUSE_NAMES.get(cause, cause.replace("_", " "))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _row(row: dict[str, Any], ends: dict[str, Any], causes: list[str], reasons: list[str]) -> dict[str, Any]:
    small = 1 < ends.get("sessions", 0) < 20
    return {
        "group": row["group"],
        "name": f"{row['group']}{' *' if small else ''}",
        **{name: ends.get(name) for name in ENDS},
        "requests": row["requests"],
        "achievable_rate": row["achievable_rate"],
        "achievable": interval(ends.get("achievable_low"), ends.get("achievable_high")),
        "reported_rate": row["reported_rate"],
        "reported": interval(ends.get("reported_low"), ends.get("reported_high")),
        "gap_rate": row["gap_rate"],
        "gap_tokens": row["gap_tokens"],
        **{f"lost {cause}": row["lost_by_cause"].get(cause, 0) for cause in causes},
        **{f"above {reason}": row["above_by_reason"].get(reason, 0) for reason in reasons},
        "above_ceiling_requests": row["above_ceiling_requests"],
    }


def _survival(asked: Asked) -> None:
    frame = asked.desk.query("cache_survival", asked.question)
    if frame.is_empty():
        return
    st.caption("How often the provider's cache outlived the time to the session's next request:")
    table(
        [{**row, "rate": row["survived"] / row["pairs"]} for row in frame.to_dicts()],
        [
            Column("gap", "Time between"), Column("pairs", "Requests", formats.count),
            Column("survived", "Survived", formats.count, "Read at least 90 % of what the last one left."),
            Column("rate", "Share", formats.rate), Column("whole", "Read all of it", formats.count),
            Column("lost_tokens", "Tokens lost", formats.tokens),
        ], "Survival of the provider's cache",
    )  # fmt: skip
    figures.downloads("survival", frame, asked.source("cache_survival", "query", "cache_survival"))
