"""What a visitor has open: the datasets of this session, the one that is chosen, their receipts.

One visitor's data is shown to nobody else: an upload is found only by its id, which only its visitor's link has, and
what is computed from it is cached for the session alone. The demo and the folders that the server was started with are
shared.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import StopException

from app.visit.desk import desk
from app.visit.known import DATASET_VARIABLE, DEMO, Known, OutsideRoots, demo, within_roots
from app.visit.link import link
from app.visit.uploads import leases
from app.visit.uploads.leases import Lease

Opened = dict[str, "Known | Lease"]


class _Presence:
    """The connection of a session: Streamlit releases it as the connection ends; the next one gets its own."""

    def __init__(self) -> None:
        self.held: set[Lease] = set()
        self.thread: int | None = None
        """That computes a page for this session."""

    def hold(self, lease: Lease) -> bool:
        self.held.add(lease)
        return lease.hold(id(self))

    def leave(self) -> None:
        for lease in self.held:
            lease.leave(id(self))
        thread, self.thread = self.thread, None
        if thread is not None:
            stop(thread)


def stop(thread: int) -> None:
    """End what a page computes, at its next step in Python; Streamlit alone would wait for its next element."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(StopException))


@contextmanager
def computing() -> Iterator[None]:
    """A page is computed inside: it ends if its visitor leaves."""
    presence = _presence()
    presence.thread = threading.get_ident()
    try:
        yield
    finally:
        presence.thread = None


@st.cache_resource(show_spinner=False, scope="session", on_release=_Presence.leave)
def _presence() -> _Presence:
    return _Presence()


NAMING = ("dataset", "a", "b")
"""Settings that name a dataset."""


def opened() -> dict[str, Known]:
    """The datasets that this visitor has opened, by their value in the link, which may name more."""
    found = _opened()
    for asked in map(link.value, NAMING):
        if asked is not None and asked not in found and (named := resolve(asked)) is not None:
            found[asked] = named
    known = {}
    for value, what in list(found.items()):
        if isinstance(what, Known):
            known[value] = what
        elif not _presence().hold(what):
            del found[value]
        elif what.dataset is not None:
            known[value] = _known(what)
    return known


def _opened() -> Opened:
    found: Opened | None = st.session_state.get("opened")
    if found is None:
        found = st.session_state["opened"] = {}
        if given := os.environ.get(DATASET_VARIABLE):
            path = Path(given)
            found[path.name] = Known(path.name, path, False)
    return found


def resolve(value: str) -> Known | Lease | None:
    """What a value of the link names: the demo, a dataset in a data root, or an upload by its id."""
    if value == DEMO:
        return demo()
    if value.startswith(leases.PREFIX):
        return leases.find(value)
    try:
        path = within_roots(value)
    except OutsideRoots:
        return None
    from traces.dataset.layout import is_dataset

    return Known(value, path, False) if is_dataset(path) else None


def _known(lease: Lease) -> Known:
    return Known(lease.name, lease.dataset, True, lease.id)


def open_dataset(known: Known) -> None:
    """List a dataset in this session and choose it."""
    _opened()[known.value] = known
    st.session_state["choose"] = known.value


def open_lease(lease: Lease) -> None:
    """List an upload in this session, and choose it if it has been read."""
    _opened()[lease.id] = lease
    _presence().hold(lease)
    if lease.dataset is not None:
        st.session_state["choose"] = lease.id


def held() -> list[Lease]:
    """The uploads of this session."""
    return [what for what in _opened().values() if isinstance(what, Lease)]


def lease_of(known: Known) -> Lease | None:
    """The upload that a dataset was read from; None for one that others see too."""
    what = _opened().get(known.value)
    return what if isinstance(what, Lease) else None


def drop(lease: Lease) -> None:
    """Delete an upload."""
    _opened().pop(lease.id, None)
    lease.end()


def receipt(known: Known) -> dict[str, Any] | None:
    """What the ingest said: with the visitor's own file names where it ran on this server."""
    lease = lease_of(known)
    mine = lease.receipt if lease is not None else None
    return mine or desk(known).warehouse.dataset.manifest.get("receipt")


def chosen() -> Known | None:
    """The dataset that the sidebar shows."""
    return opened().get(link.value("dataset"))


def picked() -> Known | None:
    """Draw the dataset picker in the sidebar and return what is chosen; None where nothing is open."""
    chosen = st.session_state.pop("choose", None)
    if chosen is not None:
        link.put("dataset", chosen)
    found = opened()
    _missing(found)
    if not found:
        return None
    names = names_of(found)
    value: str = st.sidebar.selectbox(
        "Dataset", **link.at("dataset", list(found), next(reversed(found))), format_func=lambda v: names.get(v, v)
    )
    return found[value]


def names_of(found: dict[str, Known]) -> dict[str, str]:
    """What each dataset is called, by its value in the link; no two alike."""
    return {value: f"{known.name} ({n})" if n > 1 else known.name for value, known, n in _numbered(found)}


def _missing(found: dict[str, Known]) -> None:
    """Report what the link asks for and this server does not have, or no longer."""
    asked = link.value("dataset")
    if asked is None or asked in found or asked in _opened():
        return
    if asked.startswith(leases.PREFIX):
        kept = f"{leases.lease_s() / 60:g} minutes after the last visit"
        link.refuse("dataset", f"no upload has this id: it has expired, or was mistyped. Uploads are kept {kept}")
    else:
        link.refuse("dataset", "not on this server, or not one that a link may open")


def _numbered(found: dict[str, Known]) -> list[tuple[str, Known, int]]:
    """Each dataset with how many of its name there are up to it."""
    seen: dict[str, int] = {}
    rows = []
    for value, known in found.items():
        seen[known.name] = seen.get(known.name, 0) + 1
        rows.append((value, known, seen[known.name]))
    return rows
