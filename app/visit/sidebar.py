"""The left side of every page: the dataset picker, filters and settings."""

from __future__ import annotations

import math
from typing import Any

import streamlit as st

from app.visit import state
from app.visit.desk import Desk, desk
from app.visit.known import Known
from app.visit.link import link
from app.visit.notices import reset
from app.visit.question import Drawn
from app.visit.settings import ARRIVALS, ARRIVALS_HELP, BLOCK_HELP, FILTERS, WINDOW_HELP, WINDOWS


def draw(filters: bool) -> str:
    """Draw the picker and, with `filters`, the filters and settings; the name of what is open.

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
    with st.sidebar:
        _share()
    return known.name if known is not None else ""


def pages(place: Any, sections: dict[str, list[Any]]) -> None:
    """Links to all pages that keep the settings; the browser's history gets one entry for each that is followed."""
    with place.container(gap="xxsmall"):
        for title, listed in sections.items():
            if title:
                st.caption(title)
            for page in listed:
                link.page(page, page.title, page.icon)


@st.fragment
def _share() -> None:
    """The link of this page, to copy: made as it is asked for, because parts of a page change alone."""
    shown = st.popover("Link to this page", icon=":material/link:", type="tertiary", on_change="rerun", key="share")
    if shown.open:
        shown.caption("It opens this dataset with these settings, on this server.")
        shown.code(link.address(), language=None, wrap_lines=True)


def _filters(desk: Desk) -> tuple[tuple[str, str], ...]:
    from analysis.store.question import Question

    where: list[tuple[str, str]] = []
    drawn = False
    for axis, label in FILTERS.items():
        frame = desk.query("by_axis", Question(), axis=axis)
        groups = frame.sort("requests", descending=True)["group"].to_list()
        if len(groups) < 2:
            if link.value(axis):
                link.refuse(axis, "cannot be filtered by in this dataset")
            continue
        if not drawn:
            st.sidebar.subheader("Filters")
            drawn = True
        chosen = st.sidebar.multiselect(label, **link.at(axis, groups), placeholder="All")
        where += [(axis, value) for value in chosen]
    return tuple(where)


def _settings(desk: Desk) -> tuple[str, int | None, str]:
    from analysis.store.question import TEXT_BLOCK_TOKENS, block_choice

    window = st.sidebar.selectbox(
        "Window", **link.at("window"), format_func=lambda w: WINDOWS.get(w, w), help=WINDOW_HELP
    )
    if any(st.session_state.get(axis) for axis in FILTERS) or window != "all":
        st.sidebar.button("Reset filters", on_click=reset, icon=":material/restart_alt:", type="tertiary")
    st.sidebar.subheader("Settings")
    arrivals = st.sidebar.selectbox(
        "Arrivals", list(ARRIVALS), format_func=lambda a: f"{ARRIVALS[a]} ({a})" if a in ARRIVALS else a,
        **link.at("arrivals"), help=ARRIVALS_HELP, accept_new_options=True,
    )  # fmt: skip
    native = desk.answer("native", desk.warehouse.native_blocks)
    default = block_choice(None, native) if _one_block_fits(native) else math.lcm(*native)
    least = max(1, math.lcm(*native)) if native else 1
    sizes = [default * k for k in (1, 2, 4, 8)] if least > 1 else [1, 16, 32, TEXT_BLOCK_TOKENS, 128, 256, 512]
    block = st.sidebar.selectbox(
        "Block size, tokens", **link.at("block", sizes, default),
        help=BLOCK_HELP + (f" This trace's own: {least}." if least > 1 else ""),
    )  # fmt: skip
    return arrivals or "recorded", None if block == default and _one_block_fits(native) else block, window or "all"


def _one_block_fits(native: list[int]) -> bool:
    largest = max(native, default=1)
    return all(largest % n == 0 for n in native)
