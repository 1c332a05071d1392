"""The question of a page: the open dataset and what the sidebar says."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.visit import notices
from app.visit.desk import Desk, desk
from app.visit.known import DEMO, Known
from app.visit.settings import ARRIVALS, WINDOWS
from app.widgets import formats
from app.widgets.figures import Source
from app.widgets.flags import question_flags
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.store.question import Question


class Asked(NamedTuple):
    """What a page answers: the open dataset, the question, and how many requests it selects of how many."""

    known: Known
    desk: Desk
    question: Question
    block_size: int
    selected: int
    total: int
    unanchored: bool

    def command(self, verb: str, *extra: str) -> str:
        """The command line that gives the same figures."""
        q = self.question
        flags = question_flags(q.block_size, q.arrivals, q.window, q.where)
        name = self.known.name
        shown = "DATASET" if self.known.private else f"{name}-dataset" if name == DEMO else name
        return shlex.join(["tracetower", verb, shown, *flags, *extra])

    def source(
        self, query: str, *words: str, means: str = "", computed: str = "", values: dict[str, object] | None = None
    ) -> Source:
        """Where a figure comes from: a query of the catalogue ("": none) and the command line `words`, which give it.

        `means` says what a figure is that no query gives; `computed` and `values` are as in `Source`.
        """
        if self.question.definition != "tracetower":
            values = None
        return Source(self.known.name, query, self.command(*words), means, computed, values)


class Drawn(NamedTuple):
    """What the sidebar of this run says: what is open, filters, arrivals, block size, window; or why it could not."""

    known: Known | None
    where: tuple[tuple[str, str], ...] = ()
    arrivals: str = "recorded"
    block: int | None = None
    window: str = "all"
    error: Exception | None = None


def opened() -> Known | None:
    """The dataset that is chosen; None where nothing is open.

    Raises:
        traces.dataset.layout.NotADataset: if it cannot be opened.
    """
    drawn: Drawn = st.session_state["drawn"]
    if drawn.error is not None:
        raise drawn.error
    return drawn.known


def ask() -> Asked:
    """The question that the sidebar asks. Stops the page where there is nothing to answer.

    Raises:
        traces.dataset.layout.NotADataset, analysis.store.question.BadQuestion: as messages of `page`.
    """
    known = opened()
    if known is None:
        notices.nothing_open()
        st.stop()
    from analysis.store.question import Question

    drawn: Drawn = st.session_state["drawn"]
    asked_desk = desk(known)
    question = Question(block_size=drawn.block, arrivals=drawn.arrivals, window=drawn.window, where=drawn.where)
    prepared = asked_desk.warehouse.prepare(question)
    selected = asked_desk.query("by_axis", question, axis="all")
    count = int(selected["requests"].sum())
    if count == 0:
        notices.nothing_left(drawn.where, drawn.window)
        st.stop()
    return Asked(known, asked_desk, question, prepared.block_size, count, prepared.requests, prepared.unanchored)


def facts_line(asked: Asked, extra: Any = "") -> None:
    """Under the title: what is shown, of what, by which definition."""
    q = asked.question
    parts = [
        f"**{markdown(asked.known.name)}**",
        f"{formats.count(asked.selected)} of {formats.count(asked.total)} requests",
        f"blocks of {asked.block_size} tokens",
        "arrivals as recorded"
        if q.arrivals == "recorded"
        else ARRIVALS.get(q.arrivals, f"arrivals {q.arrivals}").lower(),
    ]
    if q.window != "all":
        parts.append(WINDOWS.get(q.window, q.window).lower())
    st.markdown(" · ".join(parts) + str(extra))
