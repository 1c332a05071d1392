"""The three ways in: the demo, what the visitor sends, and the folders of this server."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import streamlit as st

from app.views.data import progress, sending
from app.visit import known, state
from app.visit.known import Known
from app.visit.link import link
from app.visit.uploads import leases
from app.widgets.plain_text import markdown

MOST_LISTED = 500
MOST_FOLDERS = 5_000


def draw() -> None:
    """The three boxes, and how what is sent or named there is read."""
    demo, sent, server = st.columns(3, gap="medium")
    with demo.container(border=True, height="stretch"):
        st.subheader("Try the demo", anchor=False)
        st.write("Ten real coding-agent sessions with their sub-agents, ready in a second.")
        st.button("Open the demo", type="primary", on_click=_open_demo, icon=":material/play_arrow:", key="open-demo")
    with sent.container(border=True, height="stretch"):
        st.subheader("Send your own", anchor=False)
        sending.draw()
    with server.container(border=True, height="stretch"):
        st.subheader("Open what is on this server", anchor=False)
        _roots()
    sending.how()


def _open_demo() -> None:
    state.open_dataset(known.demo())
    if link.value("arrivals") == "recorded":
        # the same choice as `tracetower demo`, shown in the sidebar and in every command line
        link.put("arrivals", "staggered:600")


def _roots() -> None:
    roots = known.roots()
    if not roots:
        st.write("For traces too large to send. This server was started without folders to read; start it with")
        st.code("tracetower app --data-root DIR", language="bash", wrap_lines=True)
        return
    listed = _datasets()
    if listed:
        more = f"The first {MOST_LISTED} are listed." if len(listed) > MOST_LISTED else None
        st.selectbox(
            f"{len(listed[:MOST_LISTED])} datasets", listed[:MOST_LISTED], None, key="root-dataset", help=more,
            placeholder="Choose one, or type a part of its name", on_change=_open_listed,
        )  # fmt: skip
    names = ", ".join(f"`{markdown(root.name)}`" for root in roots)
    with st.form("path", border=False):
        text = st.text_input(
            "File, folder or dataset", placeholder="team/2026-11", key="path-text",
            help=f"In the folders that this server may read: {names}.",
        )  # fmt: skip
        sent = st.form_submit_button("Open", icon=":material/folder_open:")
    if not sent or not text.strip():
        return
    try:
        path, chosen = known.within_roots(text), sending.options()
    except known.OutsideRoots as error:
        st.error(f"{error}. It may read: {names}.", icon=":material/error:")
        return
    except ValueError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return
    name = known.root_name(path)
    from traces.dataset.layout import is_dataset

    if is_dataset(path):
        state.open_dataset(Known(name, path, False))
    else:
        progress.start(leases.new(name), (str(path),), chosen)
    st.rerun()


def _open_listed() -> None:
    named = state.resolve(st.session_state["root-dataset"] or "")
    if isinstance(named, Known):
        state.open_dataset(named)


@st.cache_data(ttl=10, show_spinner=False)
def _datasets() -> list[str]:
    """Names of the datasets below the data roots; links are not followed, and what is below a dataset is its own."""
    from traces.dataset.layout import is_dataset

    found = []
    walks = (entry for root in known.roots() for entry in os.walk(root))
    for place, folders, _ in islice(walks, MOST_FOLDERS):
        path = Path(place)
        if is_dataset(path):
            folders.clear()
            if path not in known.roots():
                found.append(known.root_name(path))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
    return sorted(found)
