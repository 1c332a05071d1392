"""Time, on the page Why: gaps, TTLs, hit rate and working set over time, ages, busy sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.charts import bars, lines
from app.widgets.table import Column, table

if TYPE_CHECKING:
    from app.visit.question import Asked

TTLS_S = (30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
MARKED_TTLS_S = (300.0, 3600.0)
MOST_TYPES = 6
AGES = "Age at eviction: how long ago a block was last used when an LRU cache of that size evicts it."


def gaps_and_ttl(asked: Asked) -> None:
    """How long prefixes have to be kept, by what the request answers; and what a TTL keeps, by trajectory type."""
    import polars as pl

    left, right = st.columns(2)
    gaps = asked.desk.query("gaps", asked.question)
    with left:
        if gaps.is_empty():
            st.info("No two requests of a session have known times.", icon=":material/info:")
        else:
            figures.figure(
                "why-gaps", "Gaps by trigger", bars.gap_bars(gaps), gaps, "Gaps between requests by trigger",
                asked.source("gaps", "query", "gaps"),
                "How long a session's prefix has to stay in the cache.",
            )  # fmt: skip
    given = {"block": asked.block_size, "ttls": list(TTLS_S)}
    by_type = asked.desk.query("ttl_curve", asked.question, axis="trajectory_type", **given)
    known = by_type.filter(pl.col("prefix_tokens") > 0)
    if known.is_empty():
        return
    largest = known.group_by("group").agg(pl.col("prefix_tokens").first()).sort("prefix_tokens", descending=True)
    drawn = known.filter(pl.col("group").is_in(largest["group"].head(MOST_TYPES).to_list()))
    with right:
        figures.figure(
            "why-ttl",
            "TTL by trajectory type",
            lines.ttl_lines(drawn, None, MARKED_TTLS_S),
            by_type,
            "Hit rate of an unbounded cache over its TTL by trajectory type",
            asked.source(
                "ttl_curve",
                "query",
                "ttl_curve",
                "axis=trajectory_type",
                f"block={asked.block_size}",
                "ttls=" + ",".join(f"{t:g}" for t in TTLS_S),
            ),
            "What an unbounded cache hits that forgets what was not used for so long.",
        )
        link.page(
            "views/cache/cache.py", label="More sizes and TTLs, by any axis, on Cache size", icon=":material/memory:"
        )


def over_time(asked: Asked) -> None:
    """Hit rate over time with its warm-up, the working set, the age of what is evicted, and busy sessions."""
    block = asked.block_size
    st.subheader("Over time", anchor=False)
    for key, query, chart, note, alt, params in (
        ("rate-over-time", "hit_rate_over_time", lines.rate_over_time,
         "Each point is a stretch of time, the line all so far; shaded: warming up.", "Hit rate over time", {}),
        ("working-set", "working_set", bars.working_set_bars,
         "Distinct tokens that the requests of a stretch touch: what a cache must hold for it.",
         "Working set over time", {"block": block}),
        ("reuse-age", "reuse_age", lambda f: lines.age_lines(f, block),
         "How long ago what is re-used was last used, by the cache size that it takes to keep it so long.",
         "Age of what is re-used by cache size", {"block": block}),
    ):  # fmt: skip
        frame = asked.desk.query(query, asked.question, **params)
        if frame.height > 1:
            figures.figure(
                key,
                "",
                chart(frame),
                frame,
                alt,
                asked.source(query, "query", query, *[f"{k}={v}" for k, v in params.items()]),
                note,
            )
    _evicted(asked)
    busy = asked.desk.query("session_load", asked.question)
    if busy.is_empty():
        return
    st.caption("Requests that a session has in flight at once, and how much of its life it has any:")
    table(
        busy.to_dicts(),
        [
            Column("in_flight_at_most", "In flight at most", formats.count),
            Column("sessions", "Sessions", formats.count), Column("requests", "Requests", formats.count),
            Column("duty_cycle_p50", "Duty cycle", formats.rate, "Median of the sessions."),
        ], "Sessions by requests in flight",
    )  # fmt: skip
    figures.downloads("session-load", busy, asked.source("session_load", "query", "session_load"))


def _evicted(asked: Asked) -> None:
    """How long ago a block was last used when an LRU cache of some size evicts it, replayed."""
    from analysis.headline.eviction_age import eviction_age
    from analysis.store.question import BadQuestion, NeedsArrivals

    try:
        frame = asked.desk.answer(
            f"eviction-age {asked.question!r}", lambda: eviction_age(asked.desk.warehouse, asked.question)
        )
    except (NeedsArrivals, BadQuestion):
        return  # the page says above that times are not known
    if frame.height > 1:
        figures.figure(
            "eviction-age", "", lines.age_lines(frame, asked.block_size), frame, "Age at eviction by cache size",
            asked.source(
                "", "misses", "--show", "ages", "--json", means=AGES, computed="eviction_age",
                values={"capacity": frame["capacity_blocks"][-1]},
            ), AGES,
        )  # fmt: skip
