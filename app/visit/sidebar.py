"""The left side of every page: the dataset picker, filters and settings."""

from __future__ import annotations

import math

import streamlit as st

from app.visit import state
from app.visit.desk import Desk, desk
from app.visit.known import Known
from app.visit.notices import reset
from app.visit.question import Drawn
from app.visit.settings import ARRIVALS, ARRIVALS_HELP, BLOCK_HELP, FILTERS, WINDOW_HELP, WINDOWS


def draw(filters: bool) -> None:
    """Draw the picker and, with `filters`, the filters and settings.

    Called by the entry script, before the page: what all pages share keeps its values and its place in the link.
    """
    known: Known | None = None
    try:
        known = state.picked()
        drawn = Drawn(known)
        if known is not None and filters:
            found = desk(known)
            drawn = Drawn(known, _filters(found), *_settings(found))
    except Exception as error:
        drawn = Drawn(known, error=error)  # shown by the page, under its title
    st.session_state["drawn"] = drawn


def _filters(desk: Desk) -> tuple[tuple[str, str], ...]:
    from analysis.store.question import Question

    where: list[tuple[str, str]] = []
    drawn = False
    for axis, label in FILTERS.items():
        frame = desk.query("by_axis", Question(), axis=axis)
        groups = frame.sort("requests", descending=True)["group"].to_list()
        if len(groups) < 2:
            continue
        if not drawn:
            st.sidebar.subheader("Filters")
            drawn = True
        chosen = st.sidebar.multiselect(label, groups, key=axis, bind="query-params", placeholder="All")
        where += [(axis, value) for value in chosen]
    return tuple(where)


def _settings(desk: Desk) -> tuple[str, int | None, str]:
    from analysis.store.question import TEXT_BLOCK_TOKENS, block_choice

    window = st.sidebar.selectbox(
        "Window",
        list(WINDOWS),
        format_func=lambda w: WINDOWS.get(w, w),
        key="window",
        bind="query-params",
        help=WINDOW_HELP,
    )
    if any(st.session_state.get(axis) for axis in FILTERS) or window != "all":
        st.sidebar.button("Reset filters", on_click=reset, icon=":material/restart_alt:", type="tertiary")
    st.sidebar.subheader("Settings")
    arrivals = st.sidebar.selectbox(
        "Arrivals", list(ARRIVALS), format_func=lambda a: f"{ARRIVALS[a]} ({a})" if a in ARRIVALS else a,
        key="arrivals", bind="query-params", help=ARRIVALS_HELP, accept_new_options=True,
    )  # fmt: skip
    native = desk.answer("native", desk.warehouse.native_blocks)
    default = block_choice(None, native) if _one_block_fits(native) else math.lcm(*native)
    least = max(1, math.lcm(*native)) if native else 1
    sizes = [default * k for k in (1, 2, 4, 8)] if least > 1 else [1, 16, 32, TEXT_BLOCK_TOKENS, 128, 256, 512]
    block = st.sidebar.selectbox(
        "Block size, tokens", sizes, index=sizes.index(default), key="block", bind="query-params",
        help=BLOCK_HELP + (f" This trace's own: {least}." if least > 1 else ""),
    )  # fmt: skip
    return arrivals or "recorded", None if block == default and _one_block_fits(native) else block, window or "all"


def _one_block_fits(native: list[int]) -> bool:
    largest = max(native, default=1)
    return all(largest % n == 0 for n in native)
