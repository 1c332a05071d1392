"""The frame of every page: its lead, and errors as messages with the next step instead of tracebacks."""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from app.visit import notices
from app.visit.known import OutsideRoots
from app.visit.link import link
from app.widgets.plain_text import markdown

log = logging.getLogger("tracetower")


@contextmanager
def page(lead: str) -> Iterator[None]:
    """A page below its title: what it is for, and errors as a message with the next step; tracebacks go to the log."""
    st.caption(lead)
    with guarded():
        yield


@contextmanager
def guarded() -> Iterator[None]:
    """Show an error inside the block as a message: what happened and what to do. Never shows a traceback."""
    try:
        yield
    except Exception as error:
        show_error(error)


def show_error(error: Exception) -> None:
    """An error as a message. What this program says itself is shown; anything else only gets a reference to the log."""
    from analysis.store.question import BadQuestion
    from traces.dataset.layout import NotADataset
    from traces.intake.ingest import NothingUsable
    from traces.intake.registry import UnknownFormat

    if isinstance(error, (NotADataset, BadQuestion, NothingUsable, UnknownFormat, OutsideRoots)):
        st.error(markdown(str(error)), icon=":material/error:")
        if isinstance(error, NotADataset) and st.session_state.get("page"):
            link.page("views/data/data.py", label="Open another dataset", icon=":material/database:")
        if isinstance(error, BadQuestion):
            notices.offer(error.parameter, error.choices)
        return
    reference = secrets.token_hex(4)
    # the message of an unforeseen error may quote data or a file's name, so only its kind and its place are logged
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("error %s: %s\n%s", reference, type(error).__name__, frames)
    st.error(
        f"This could not be computed ({type(error).__name__}). The dataset may be damaged: ingest it again. "
        f"If that does not help, report it with the reference **{reference}** from the server's log.",
        icon=":material/error:",
    )
