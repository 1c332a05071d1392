"""What the page Why asks: the axis, and the cache that tokens hit or miss in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.visit.link import link
from app.widgets import formats

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from analysis.why.caches.cache import Cache
    from app.visit.question import Asked

AXIS_NAMES = {"transition_detail": "transition, in detail", "work": "work (what the reply does)"}
TTLS = {None: "for ever", 60.0: "1 min", 300.0: "5 min", 3600.0: "1 h"}
INSERTS = {"arrival": "as soon as it arrives", "finish": "once it is computed"}


def axis_name(axis: str) -> str:
    """An axis in people's words."""
    return AXIS_NAMES.get(axis, axis.replace("_", " "))


def controls(asked: Asked) -> tuple[str, Cache]:
    """Draw the controls; the axis and the cache that they say."""
    by, size, time = st.columns(3)
    axis = by.selectbox("By", **link.at("why-by"), format_func=axis_name)
    return axis, cache_controls(asked, size, time)


def cache_controls(asked: Asked, size: DeltaGenerator, time: DeltaGenerator) -> Cache:
    """Draw the controls of the cache, its size and TTL in these two places; the cache that they say."""
    from analysis.why.caches.cache import Cache

    capacity = size.selectbox(
        "Cache size, tokens", **link.at("why-capacity"),
        format_func=lambda n: "unbounded" if n is None else formats.short(n),
        placeholder="unbounded", disabled=asked.unanchored,
        help="One LRU cache; with replicas, the cache of each of them.",
    )  # fmt: skip
    ttl = time.selectbox(
        "Blocks outlive their last use", **link.at("why-ttl"), format_func=TTLS.__getitem__, placeholder=TTLS[None],
        disabled=asked.unanchored,
    )  # fmt: skip
    if asked.unanchored:
        st.caption(
            "The files only tell times inside sessions. Choose *Arrivals* on the left to ask for a cache of some size, "
            "a TTL or replicas, and to see what changes over time."
        )
    replicas, policy, insert = _fleet(asked)
    return Cache() if asked.unanchored else Cache(capacity, ttl, replicas, policy, insert)


def _fleet(asked: Asked) -> tuple[int | None, str | None, str]:
    from analysis.fleet.routers import POLICIES

    changed = link.value("why-replicas") is not None or link.value("why-insert") == "finish"
    with st.expander("Several replicas, prompts in flight", expanded=changed):
        st.caption(
            "Off, there is one cache, and a prompt can be hit as soon as it arrives: nothing is lost to routing or to "
            "prompts in flight."
        )
        left, middle, right = st.columns(3)
        replicas = left.selectbox(
            "Replicas", **link.at("why-replicas"), format_func=lambda n: "one cache" if n is None else str(n),
            placeholder="one cache", disabled=asked.unanchored,
        )  # fmt: skip
        policy = middle.selectbox(
            "Routing policy", **link.at("why-policy"),
            format_func=lambda name: name.replace("_", " "), disabled=asked.unanchored or replicas is None,
        )  # fmt: skip
        middle.caption(POLICIES[policy])
        durations = asked.desk.warehouse.loaded().requests["duration_s"]
        untimed = durations.null_count() == len(durations)
        insert = right.selectbox(
            "A prompt can be hit", **link.at("why-insert"), format_func=INSERTS.__getitem__,
            disabled=asked.unanchored or untimed,
        )  # fmt: skip
        if untimed:
            right.caption("This trace has no durations, so no prompt is known to be in flight.")
    return replicas, None if replicas is None else policy, "arrival" if untimed else insert


def cache_flags(cache: Cache) -> list[str]:
    """The options of `misses` that ask for this cache."""
    flags = [] if cache.capacity_tokens is None else ["--capacity-tokens", str(cache.capacity_tokens)]
    flags += [] if cache.ttl_s is None else ["--ttl", f"{cache.ttl_s:g}"]
    flags += [] if cache.replicas is None else ["--replicas", str(cache.replicas), "--policy", str(cache.policy)]
    return flags + ([] if cache.insert == "arrival" else ["--insert", cache.insert])


def cache_values(cache: Cache, block: int, axis: str = "all") -> dict[str, object] | None:
    """What the equivalent query of the causes takes; None for several replicas and for prompts in flight."""
    if cache.replicas is not None or cache.insert != "arrival" or axis == "transition_detail":
        return None
    capacity = None if cache.capacity_tokens is None else cache.capacity_tokens // block
    return {"axis": axis, "capacity": capacity, "ttl_s": cache.ttl_s}
