"""What is being read for this visitor, how far it is, and what could not be read."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.views.data import receipt as receipts
from app.visit import state
from app.visit.link import link
from app.visit.uploads import leases
from app.visit.uploads.leases import Lease
from app.visit.uploads.reading import Again
from app.widgets import formats
from app.widgets.plain_text import markdown

EVERY_S = 0.5


def draw() -> None:
    """The bars of what is being read, and why readings gave nothing."""
    _from_link()
    for lease in state.held():
        if lease.progress is not None:
            _bar(lease)
        elif lease.failed is not None:
            _failed(lease)


def _from_link() -> None:
    """Find a reading again after a reload, and go to its dataset once there is one."""
    asked = link.value("reading")
    if asked is None:
        return
    lease = leases.find(asked)
    if lease is None:
        link.refuse("reading", "no upload has this id: it has expired, or was mistyped")
        return
    state.open_lease(lease)
    if lease.progress is None:
        link.put("reading", None)
        if lease.dataset is not None and lease.failed is None:
            st.rerun()  # the sidebar lists it now


@st.fragment(run_every=EVERY_S)
def _bar(lease: Lease) -> None:
    progress = lease.progress
    if progress is None:
        st.rerun()
    assert progress is not None
    share = progress["done"] / progress["total"] if progress["total"] else 0.0
    done = f"{formats.count(progress['done'])} of {formats.count(progress['total'])} files"
    read = f"{formats.count(progress['requests'])} requests · {formats.size(progress['bytes_read'])}"
    text = f"{progress['stage'].capitalize()} · {done} · {read} · {formats.seconds(progress['seconds'])}"
    with st.container(border=True):
        st.markdown(f"**Reading {markdown(lease.name)}**")
        st.progress(min(1.0, share), text=text)
        st.button("Cancel", key=f"cancel-{lease.id}", on_click=lease.cancel, icon=":material/close:")


def _failed(lease: Lease) -> None:
    assert lease.failed is not None
    why, receipt = lease.failed
    kept = "nothing was added to it" if lease.dataset is not None else "nothing was opened"
    st.error(f"**{markdown(lease.name)}: {kept}**: {markdown(why)}."
             + (" Each file and the reason are below; the formats that can be read are at the end of this page."
                if receipt else ""), icon=":material/error:")  # fmt: skip
    if receipt is not None:
        receipts.ways(receipt, partial(read_again, lease), lease.id)
    with st.container(horizontal=True):
        if lease.dataset is not None:
            st.button("Close", key=f"close-{lease.id}", on_click=_close, args=(lease,), icon=":material/close:")
        else:
            st.button("Read it again", key=f"retry-{lease.id}", on_click=read_again, args=(lease,),
                      icon=":material/replay:")  # fmt: skip
            st.button("Delete it", key=f"delete-{lease.id}", on_click=state.drop, args=(lease,),
                      icon=":material/delete:")  # fmt: skip
    if receipt is not None:
        receipts.rejects(None, receipt)


def _close(lease: Lease) -> None:
    lease.failed = None


def start(lease: Lease, inputs: tuple[str, ...], options: dict[str, object], add: bool = False) -> None:
    """Read inputs into a dataset of this session, in the background; the link finds it from now on."""
    state.open_lease(lease)
    lease.read(inputs, options, add)
    link.put("reading", lease.id)


def read_again(lease: Lease, way: Again | None = None, options: dict[str, object] | None = None) -> None:
    """Read everything of an upload again: with one option more, or with other options."""
    if way is not None:
        value = int(way.value) if way.option == "block_tokens" else way.value
        options = {**lease.options, way.option: value}
    start(lease, lease.inputs, lease.options if options is None else options)
