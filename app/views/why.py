"""Why: where every prompt token went, where prompts part, what that loses and what would bring it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app import figures, formats, sidebar, why_tables

if TYPE_CHECKING:
    import polars as pl

    from analysis.misses import Cache, Misses

LEAD = "Where every prompt token went: hit, or lost for one cause, and what would bring it back."
AXES = ("all", "trajectory_type", "role", "transition", "trigger", "model", "agent", "turn", "gap", "prompt_length")
NAMES = {
    "hit": "hit", "in_flight": "in flight", "routing": "routing", "ttl": "TTL", "capacity": "capacity",
    "block_rounding": "block rounding", "rewritten": "rewritten", "first_seen": "first seen",
}  # fmt: skip
TTLS = {None: "for ever", 60.0: "1 min", 300.0: "5 min", 3600.0: "1 h"}
SIZES = (None, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000)
MOST_GROUPS = 12


def _misses(asked: sidebar.Asked, cache: Cache) -> Misses:
    from analysis.misses import misses

    return asked.desk.answer(
        f"misses {asked.question!r} {cache!r}", lambda: misses(asked.desk.warehouse, asked.question, cache)
    )


def _controls(asked: sidebar.Asked) -> tuple[str, Cache]:
    from analysis.misses import Cache

    by, size, time = st.columns(3)
    axis = by.selectbox("By", AXES, format_func=lambda a: a.replace("_", " "), key="why-by", bind="query-params")
    capacity = size.selectbox(
        "Cache size, tokens", SIZES, format_func=lambda n: "unbounded" if n is None else formats.short(n),
        key="why-capacity", disabled=asked.unanchored, help="One LRU cache that serves all of these requests.",
    )  # fmt: skip
    ttl = time.selectbox(
        "Blocks outlive their last use", list(TTLS), format_func=TTLS.__getitem__, key="why-ttl",
        disabled=asked.unanchored,
    )  # fmt: skip
    return axis, Cache() if asked.unanchored else Cache(capacity, ttl)


def _where(asked: sidebar.Asked, axis: str, cache: Cache, found: Misses) -> None:
    import polars as pl

    from app import why_charts

    frame = asked.desk.query("misses", asked.question, axis=axis, causes=found.causes)
    kept = frame.sort("prefix_tokens", descending=True)["group"].head(MOST_GROUPS).to_list()
    frame = frame.filter(pl.col("group").is_in(kept))
    long = pl.concat(
        frame.select(
            "group", cause=pl.lit(name), tokens=pl.col(cause), place=pl.lit(place),
            share=pl.col(cause) / pl.col("prefix_tokens"),
        )
        for place, (cause, name) in enumerate(NAMES.items())
    ).filter(pl.col("tokens") > 0)  # fmt: skip
    flags = [*([] if axis == "all" else ["--by", axis])]
    flags += [] if cache.capacity_tokens is None else ["--capacity-tokens", str(cache.capacity_tokens)]
    flags += [] if cache.ttl_s is None else ["--ttl", f"{cache.ttl_s:g}"]
    figures.figure(
        "why", "Where the prompt tokens went", why_charts.cause_bars(long), frame,
        "Shares of prompt tokens by what became of them", asked, "misses", asked.command("misses", *flags, "--json"),
        "Every token is counted once. First seen: no earlier prompt had it. Rewritten: the session's previous prompt "
        "had it, behind a change.",
    )  # fmt: skip
    _rates(asked, axis, found)


def _rates(asked: sidebar.Asked, axis: str, found: Misses) -> None:
    """The rate of each group with its interval."""
    import polars as pl

    from analysis.bootstrap import rates_by_group

    def make() -> pl.DataFrame:
        groups = asked.desk.warehouse.grouped(asked.question, axis).select("row", "group")
        rows = found.rows.join(groups, on="row", how="inner", maintain_order="left")
        session = asked.desk.warehouse.loaded().session[rows["row"].to_numpy()]
        alone = pl.when(pl.col("session") < 0).then(-1 - pl.col("row")).otherwise("session")
        return rates_by_group(rows.with_columns(session=pl.Series(session)).with_columns(session=alone))

    frame = why_tables.answer(asked, f"rates {axis} {found.causes}", make).sort("group").head(MOST_GROUPS)
    with st.expander("How sure are these rates?"):
        st.caption(
            "95 % intervals from drawing sessions anew (bootstrap); groups of fewer than 20 sessions are marked *. "
            "Beside the token-weighted rate: the mean of the requests, and weighted by the attention that is saved."
        )
        rows = [
            {
                "Group": f"{row['group']}{' *' if row['small'] else ''}",
                "Sessions": formats.count(row["sessions"]),
                "Hit rate": formats.rate(row["rate"]),
                "95 % interval": f"{formats.rate(row['low'])} – {formats.rate(row['high'])}",
                "Mean of requests": formats.rate(row["rate_per_request"]),
                "By attention": formats.rate(row["rate_by_compute"]),
            }
            for row in frame.to_dicts()
        ]
        st.dataframe(rows, hide_index=True)


def _time(asked: sidebar.Asked) -> None:
    from app import why_charts

    block = asked.block_size
    st.subheader("Over time", anchor=False)
    for key, query, chart, note, alt, params in (
        ("rate-over-time", "hit_rate_over_time", why_charts.rate_over_time,
         "Each point is a stretch of time, the line all so far; shaded: warming up.", "Hit rate over time", {}),
        ("working-set", "working_set", why_charts.working_set_area,
         "Distinct tokens that the requests of a stretch touch: what a cache must hold for it.",
         "Working set over time", {"block": block}),
        ("reuse-age", "reuse_age", lambda f: why_charts.age_lines(f, block),
         "How long ago a block was last used when it leaves a cache of that size: its age at eviction.",
         "Age at eviction by cache size", {"block": block}),
    ):  # fmt: skip
        frame = asked.desk.query(query, asked.question, **params)
        if frame.height > 1:
            figures.figure(
                key, "", chart(frame), frame, alt, asked, query,
                asked.command("query", query, *[f"{k}={v}" for k, v in params.items()]), note,
            )  # fmt: skip
    busy = asked.desk.query("session_load", asked.question)
    if not busy.is_empty():
        st.caption("Requests that a session has in flight at once, and how much of its life it has any:")
        st.dataframe(
            [
                {
                    "In flight at most": formats.count(row["in_flight_at_most"]),
                    "Sessions": formats.count(row["sessions"]),
                    "Requests": formats.count(row["requests"]),
                    "Duty cycle": formats.rate(row["duty_cycle_p50"]),
                }
                for row in busy.to_dicts()
            ],
            hide_index=True,
        )


with sidebar.page(LEAD):
    from analysis.question import NeedsArrivals

    asked = sidebar.ask()
    sidebar.facts_line(asked)
    if asked.desk.query("hit_rate", asked.question, block=asked.block_size)["ceiling"][0] is None:
        st.info(
            "**This trace has no block identity.** It says how long prompts are, not what they share, so nothing can "
            "be said about why they miss. That needs block hashes (`hash_ids`), token ids, or the text of the prompts.",
            icon=":material/info:",
        )
        st.stop()
    axis, cache = _controls(asked)
    try:
        found = _misses(asked, cache)
    except NeedsArrivals:
        sidebar.suggest_arrivals()
        st.stop()
    _where(asked, axis, cache, found)
    for part in (why_tables.sessions, why_tables.transitions):
        with sidebar.guarded():
            part(asked, found)
    with sidebar.guarded():
        why_tables.divergences(asked)
    for part in (why_tables.provider, why_tables.what_ifs):
        with sidebar.guarded():
            part(asked, found)
    if not asked.unanchored:
        with sidebar.guarded():
            _time(asked)
