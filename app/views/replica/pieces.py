"""Small pieces of the page Hardware: bands, and the formulas of a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from app.widgets import figures, formats


def band(ends: tuple[float, float] | list[float], written: Callable[[float], str]) -> str:
    """A range in short: 240–590 ms, 0.9–2.1 s, 420 ms – 1.1 s; one value where both ends are written alike."""
    first, last = (written(end) for end in ends)
    if first == last:
        return first
    number, _, unit = first.partition(formats.SPACE)
    if unit == last.partition(formats.SPACE)[2]:
        return f"{number}–{last}"
    return f"{first} – {last}"


def sessions(value: float) -> str:
    """A number of sessions: 3.6, 417."""
    return formats.plain(value, 1 if value < 99.5 else 0)


def speed(value: float) -> str:
    """Tokens a second: 87, 1.24 k."""
    return formats.tokens(round(value, 1) if value < 100 else round(value))


def behind(
    label: str, formulas: Sequence[tuple[str, str]], command: str = "", notes: Sequence[str] = (), computed: str = ""
) -> None:
    """A popover with each formula and its source, what to keep in mind, and the command that prints the same.

    Args:
        label: what the button says.
        formulas: (formula, source) pairs.
        command: a command line, or "".
        notes: sentences.
        computed: the figure's name in `analysis.headline.computed.COMPUTED`, or "".
    """
    with st.popover(label, type="tertiary", icon=":material/function:"):
        for formula, source in formulas:
            st.code(formula, language=None, wrap_lines=True)
            st.caption(f"Source: {source}")
        for note in notes:
            st.markdown(f"- {note}")
        if computed:
            figures.computing(computed)
        if command:
            st.markdown("The same on the command line:")
            st.code(command, language="bash", wrap_lines=True)
