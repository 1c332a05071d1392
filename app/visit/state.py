"""What a visitor has open: the datasets of this session, the one that is chosen, their receipts.

One visitor's data is shown to nobody else: it lies in a folder of the session, is listed only in the session, and what
is computed from it is cached for the session alone. The demo and the folders that the server was started with are
shared.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import streamlit as st

from app.visit.desk import desk
from app.visit.known import DATASET_VARIABLE, DEMO, Known, OutsideRoots, demo, within_roots
from app.visit.link import link


def opened() -> dict[str, Known]:
    """The datasets that this visitor has opened, by name; a link may name the demo or one in a data root."""
    found: dict[str, Known] | None = st.session_state.get("opened")
    if found is None:
        found = st.session_state["opened"] = {}
        if given := os.environ.get(DATASET_VARIABLE):
            path = Path(given)
            found[path.name] = Known(path.name, path, False)
    _from_link(found)
    return found


def _from_link(found: dict[str, Known]) -> None:
    asked = link.value("dataset")
    if asked is None or asked in found:
        return
    if asked == DEMO:
        found[DEMO] = demo()
        return
    try:
        path = within_roots(asked)
    except OutsideRoots:
        return
    from traces.dataset.layout import is_dataset

    if is_dataset(path):
        found[asked] = Known(asked, path, False)


def open_dataset(known: Known, receipt: dict[str, Any] | None = None) -> None:
    """List a dataset in this session and choose it; `receipt` is shown on the Data page."""
    opened()[known.name] = known
    st.session_state.setdefault("receipts", {})[known.name] = receipt
    st.session_state["choose"] = known.name


def receipt(known: Known) -> dict[str, Any] | None:
    """What the ingest said: with the visitor's own file names where it ran in this session."""
    mine: dict[str, Any] | None = st.session_state.get("receipts", {}).get(known.name)
    return mine or desk(known).warehouse.dataset.manifest.get("receipt")


def picked() -> Known | None:
    """Draw the dataset picker in the sidebar and return what is chosen; None where nothing is open."""
    found = opened()
    asked = link.value("dataset")
    if asked is not None and asked not in found and "choose" not in st.session_state:
        link.refuse("dataset", "not on this server, or not one that this link may open")
    if not found:
        return None
    state = st.session_state
    if "choose" in state:
        link.put("dataset", state.pop("choose"))
    name: str = st.sidebar.selectbox("Dataset", **link.at("dataset", list(found), next(reversed(found))))
    return found[name]
