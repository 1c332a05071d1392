"""The frame of every page: its lead, errors without tracebacks, the filters and settings on the left as one `Asked`."""

from __future__ import annotations

import logging
import secrets
import shlex
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.visit import state

if TYPE_CHECKING:
    from analysis.store.question import Question

FILTERS = {
    "trajectory_type": "Trajectory type",
    "role": "Role",
    "model": "Model",
    "agent": "Agent",
    "source": "Source",
}
"""Axes that can be filtered by, in the order they are drawn; an axis with one value is not drawn."""

ARRIVALS = {
    "recorded": "As recorded",
    "staggered:600": "A session every 10 min",
    "poisson:60": "60 sessions an hour, at random",
    "closed:8": "8 sessions at a time",
}
WINDOWS = {"all": "All requests", "last:0.5": "Last half", "last:0.25": "Last quarter", "last:0.1": "Last tenth"}

ARRIVALS_HELP = (
    "When sessions start; times inside a session stay as recorded. Own values: `staggered:SECONDS`, "
    "`poisson:PER_HOUR`, `poisson:PER_HOUR:SEED`, `closed:SESSIONS_AT_A_TIME`."
)
BLOCK_HELP = (
    "Tokens of a KV block. Only full blocks of a prompt's start can hit. Must be a multiple of the trace's own blocks; "
    "vLLM uses 16 and SGLang 1 unless told otherwise."
)
WINDOW_HELP = "Which requests count, by arrival. Earlier requests still warm the cache."

log = logging.getLogger("tracetower")


class Asked(NamedTuple):
    """What a page answers: the open dataset, the question, and how many requests it selects of how many."""

    known: state.Known
    desk: state.Desk
    question: Question
    block_size: int
    selected: int
    total: int
    unanchored: bool

    def command(self, verb: str, *extra: str) -> str:
        """The command line that gives the same figures."""
        q = self.question
        flags: list[str] = []
        if q.block_size is not None:
            flags += ["--block-size", str(q.block_size)]
        if q.arrivals != "recorded":
            flags += ["--arrivals", q.arrivals]
        if q.window != "all":
            flags += ["--window", q.window]
        for axis, value in q.where:
            flags += ["--where", f"{axis}={value}"]
        name = (
            "DATASET"
            if self.known.private
            else f"{self.known.name}-dataset"
            if self.known.name == state.DEMO
            else self.known.name
        )
        return shlex.join(["tracetower", verb, name, *flags, *extra])


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

    if isinstance(error, (NotADataset, BadQuestion, NothingUsable, UnknownFormat, state.OutsideRoots)):
        st.error(plain(str(error)), icon=":material/error:")
        if isinstance(error, NotADataset) and st.session_state.get("page"):
            st.page_link("views/data/data.py", label="Open another dataset", icon=":material/database:")
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


def plain(text: str) -> str:
    """Text without Markdown's meaning."""
    for sign in "\\`*_[]$<>~#:":
        text = text.replace(sign, f"\\{sign}")
    return text


class _Drawn(NamedTuple):
    """What the sidebar of this run says: what is open, filters, arrivals, block size, window; or why it could not."""

    known: state.Known | None
    where: tuple[tuple[str, str], ...] = ()
    arrivals: str = "recorded"
    block: int | None = None
    window: str = "all"
    error: Exception | None = None


def draw(filters: bool) -> None:
    """Draw the picker and, with `filters`, the filters and settings.

    Called by the entry script, before the page: what all pages share keeps its values and its place in the link.
    """
    known: state.Known | None = None
    try:
        known = state.picked()
        drawn = _Drawn(known)
        if known is not None and filters:
            desk = state.desk(known)
            drawn = _Drawn(known, _filters(desk), *_settings(desk))
    except Exception as error:
        drawn = _Drawn(known, error=error)  # shown by the page, under its title
    st.session_state["drawn"] = drawn


def opened() -> state.Known | None:
    """The dataset that is chosen; None where nothing is open.

    Raises:
        traces.dataset.layout.NotADataset: if it cannot be opened.
    """
    drawn: _Drawn = st.session_state["drawn"]
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
        nothing_open()
        st.stop()
    from analysis.store.question import Question

    drawn: _Drawn = st.session_state["drawn"]
    desk = state.desk(known)
    question = Question(block_size=drawn.block, arrivals=drawn.arrivals, window=drawn.window, where=drawn.where)
    prepared = desk.warehouse.prepare(question)
    selected = desk.query("by_axis", question, axis="all")
    count = int(selected["requests"].sum())
    if count == 0:
        _nothing_left(drawn.where, drawn.window)
        st.stop()
    return Asked(known, desk, question, prepared.block_size, count, prepared.requests, prepared.unanchored)


def nothing_open() -> None:
    """The empty state: three ways in."""
    st.info(
        "**Nothing is open yet.** Open the bundled demo or your own traces on the Data page, or start with a dataset:",
        icon=":material/inbox:",
    )
    st.code("tracetower ingest ~/.claude/projects -o mine\ntracetower app mine", language="bash")
    st.page_link("views/data/data.py", label="Go to Data", icon=":material/database:")


def _nothing_left(where: tuple[tuple[str, str], ...], window: str) -> None:
    named = (
        ", ".join(f"{FILTERS[axis].lower()} = {value}" for axis, value in where) or WINDOWS.get(window, window).lower()
    )
    st.warning(f"**No request is left.** The filter is: {plain(named)}.", icon=":material/filter_alt_off:")
    st.button("Reset filters", on_click=reset, icon=":material/restart_alt:")


def reset() -> None:
    """Put filters and window back."""
    for axis in FILTERS:
        if axis in st.session_state:
            st.session_state[axis] = []
    st.session_state["window"] = "all"


def _filters(desk: state.Desk) -> tuple[tuple[str, str], ...]:
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


def _settings(desk: state.Desk) -> tuple[str, int | None, str]:
    import math

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


def suggest_arrivals() -> None:
    """Explain why sessions need an arrival model here, and offer one."""
    st.info(
        "**When do these sessions start?** The files only say how much time passes inside a session, so all of them "
        "would start at once. How long a prefix stays in a cache of finite size, and how old it is when it is "
        "asked for again, depends on what arrives in between. Choose how sessions arrive; nothing is assumed for you.",
        icon=":material/schedule:",
    )
    with st.container(horizontal=True):
        for model, label in list(ARRIVALS.items())[1:]:
            st.button(
                f"{label}", key=f"arrive-{model}", on_click=_set_arrivals, args=(model,), help=f"--arrivals {model}",
                type="primary" if model == "staggered:600" else "secondary",
            )  # fmt: skip


def _set_arrivals(model: str) -> None:
    st.session_state["arrivals"] = model


def facts_line(asked: Asked, extra: Any = "") -> None:
    """Under the title: what is shown, of what, by which definition."""
    from app.widgets import formats

    q = asked.question
    parts = [
        f"**{plain(asked.known.name)}**",
        f"{formats.count(asked.selected)} of {formats.count(asked.total)} requests",
        f"blocks of {asked.block_size} tokens",
        "arrivals as recorded"
        if q.arrivals == "recorded"
        else ARRIVALS.get(q.arrivals, f"arrivals {q.arrivals}").lower(),
    ]
    if q.window != "all":
        parts.append(WINDOWS.get(q.window, q.window).lower())
    st.markdown(" · ".join(parts) + str(extra))
