"""Where every prompt token went, on the page Why: causes by group, rates with intervals, a row per request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.views.why import controls as why_controls
from app.views.why import tables as why_tables
from app.visit import question
from app.visit.link.session_rows import of_group, session_rows
from app.widgets import figures, formats
from app.widgets.table import SMALL_NOTE, Column, interval

if TYPE_CHECKING:
    from analysis.why.caches.cache import Cache
    from analysis.why.misses import Misses

MOST_GROUPS = 12


def causes(asked: question.Asked, axis: str, cache: Cache, flags: list[str], found: Misses) -> None:
    """Shares of the prompt tokens by cause for each group of the axis, its rates, and a row per request."""
    import polars as pl

    from analysis.why.causes import CAUSES
    from analysis.why.detailed_axis import grouped_misses
    from app.widgets.charts import bars

    rows = why_tables.answer(
        asked, f"groups {axis} {found.causes}",
        lambda: grouped_misses(asked.desk.warehouse, asked.question, found, axis),
    )  # fmt: skip
    whole = pl.DataFrame(
        [{k: v for k, v in row.items() if k not in ("axis", "first_seen_by_role")} for row in rows],
        infer_schema_length=None,
    )
    kept = whole.sort("prefix_tokens", descending=True)["group"].head(MOST_GROUPS).to_list()
    if axis == "session":
        frame = whole.join(pl.DataFrame({"group": kept}), on="group", how="right", maintain_order="right")
    else:
        frame = whole.filter(pl.col("group").is_in(kept))
        kept = frame["group"].to_list()
    long = pl.concat(
        frame.select(
            "group", cause=pl.lit(about.label), tokens=pl.col(cause), place=pl.lit(place),
            share=pl.col(cause) / pl.col("prefix_tokens"),
        )
        for place, (cause, about) in enumerate(CAUSES.items())
    ).filter(pl.col("tokens") > 0)  # fmt: skip
    by = [*([] if axis == "all" else ["--by", axis])]
    figures.figure(
        "why",
        "Where the prompt tokens went",
        bars.cause_bars(long),
        whole,
        "Shares of prompt tokens by what became of them",
        asked.source(
            "misses",
            "misses",
            *by,
            *flags,
            "--show",
            "causes",
            "--json",
            computed="causes",
            values=why_controls.cache_values(cache, asked.block_size, axis),
        ),
        "Every token is counted once. First seen: no earlier prompt had it. Rewritten: the session's previous prompt "
        "had it, after a change.",
    )
    if len(kept) < whole.height:
        share = int(frame["prefix_tokens"].sum()) / max(1, int(whole["prefix_tokens"].sum()))
        st.caption(
            f"Drawn: the {len(kept)} of {formats.count(whole.height)} groups with the most prompt tokens, "
            f"{formats.rate(share)} of them. All are in the files."
        )
    if axis == "all" and rows and rows[0]["first_seen_by_role"]:
        roles = ", ".join(
            f"{r.replace('_', ' ')} {formats.tokens(n)}" for r, n in rows[0]["first_seen_by_role"].items()
        )
        st.caption(f"First seen, by whose text it is: {roles}.")
    _rates(asked, axis, flags, found, kept)
    _by_request(asked, cache, flags, found)


def _rates(asked: question.Asked, axis: str, flags: list[str], found: Misses, kept: list[str]) -> None:
    """The rate of each group with its interval, and under other weights."""
    from analysis.headline.bootstrap import METHOD
    from analysis.why.intervals import group_rates

    frame = why_tables.answer(
        asked, f"rates {axis} {found.causes}",
        lambda: group_rates(asked.desk.warehouse, asked.question, found, axis, tuple(kept)),
    )  # fmt: skip
    rows = [
        {
            **row,
            "name": f"{row['group']}{' *' if row['small'] else ''}",
            "ends": interval(row["low"], row["high"]),
            "session_id": of_group(axis, row["group"]),
        }
        for row in sorted(frame.to_dicts(), key=lambda row: kept.index(row["group"]))
    ]
    session_rows(
        rows,
        [
            Column("name", "Group"), Column("sessions", "Sessions", formats.count),
            Column("rate", "Hit rate", formats.rate, "Token-weighted: hit tokens / prompt tokens."),
            Column("ends", "95 % interval", None, METHOD),
            Column("rate_per_request", "Mean of requests", formats.rate),
            Column("rate_by_compute", "By attention", formats.rate, "Weighted by the attention that is saved."),
        ], "Hit rates with their intervals", f"rates-{axis}",
    )  # fmt: skip
    by = [] if axis == "all" else ["--by", axis]
    source = asked.source("", "misses", *by, *flags, "--show", "causes", "--json", means=METHOD, computed="rates")
    figures.downloads("rates", frame, source)
    if any(row["small"] for row in rows):
        st.caption(SMALL_NOTE)


def _by_request(asked: question.Asked, cache: Cache, flags: list[str], found: Misses) -> None:
    """A table with one row per request, for download; computed on request."""
    from analysis.why.request_misses import request_misses

    st.caption("The causes of every request, one row per request; they sum to its prompt:")
    figures.downloads(
        "requests",
        lambda: request_misses(asked.desk.warehouse, asked.question, found),
        asked.source(
            "",
            "misses",
            *flags,
            "--per-request",
            "--out",
            "requests.parquet",
            means="One row per request, by arrival: its tokens by cause, what it lost, and what the provider reports.",
            computed="requests",
            values=why_controls.cache_values(cache, asked.block_size),
        ),
    )
