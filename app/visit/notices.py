"""What a page says where it has nothing to answer, with the way on."""

from __future__ import annotations

import streamlit as st

from app.visit.link import link
from app.visit.settings import ARRIVALS, FILTERS, WINDOWS
from app.widgets.plain_text import markdown


def reset() -> None:
    """Put filters and window back."""
    for axis in FILTERS:
        link.put(axis, [])
    link.put("window", "all")


def nothing_open() -> None:
    """The empty state: three ways in."""
    st.info(
        "**Nothing is open yet.** Open the bundled demo or your own traces on the Data page, or start with a dataset:",
        icon=":material/inbox:",
    )
    st.code("tracetower ingest ~/.claude/projects -o mine\ntracetower app mine", language="bash")
    link.page("views/data/data.py", label="Go to Data", icon=":material/database:")


def nothing_left(where: tuple[tuple[str, str], ...], window: str) -> None:
    """Say which filter leaves no request, and offer to reset it."""
    named = (
        ", ".join(f"{FILTERS[axis].lower()} = {value}" for axis, value in where) or WINDOWS.get(window, window).lower()
    )
    st.warning(f"**No request is left.** The filter is: {markdown(named)}.", icon=":material/filter_alt_off:")
    st.button("Reset filters", on_click=reset, icon=":material/restart_alt:")


def suggest_arrivals() -> None:
    """Explain why sessions need an arrival model here, and offer one."""
    st.info(
        "**When do these sessions start?** The files give times only inside a session, so all sessions would start at "
        "once. How long a prefix stays in a finite cache, and how old it is at its next use, depends on what arrives "
        "in between. Choose how sessions arrive; nothing is assumed for you.",
        icon=":material/schedule:",
    )
    with st.container(horizontal=True):
        for model, label in list(ARRIVALS.items())[1:]:
            st.button(
                f"{label}", key=f"arrive-{model}", on_click=_set, args=("arrivals", model), help=f"--arrivals {model}",
                type="primary" if model == "staggered:600" else "secondary",
            )  # fmt: skip


_KEYS = {"arrivals": "arrivals", "block_size": "block", "window": "window"}
"""Parameter of a question -> the key of its widget in the sidebar."""


def offer(parameter: str | None, choices: tuple[str, ...]) -> None:
    """A button for each value that would be answered in place of the refused one."""
    key = _KEYS.get(parameter or "")
    if key is None:
        return
    with st.container(horizontal=True):
        for choice in choices[:4]:
            words = ARRIVALS.get(choice) or WINDOWS.get(choice) or f"Blocks of {choice} tokens"
            st.button(words, key=f"offer-{key}-{choice}", on_click=_set, args=(key, choice))


def _set(key: str, value: str) -> None:
    link.put(key, int(value) if key == "block" else value)
