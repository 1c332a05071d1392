"""The assumptions about speed: bands to move, or what was measured instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from app.visit import question
from app.visit.link import link
from app.widgets import formats
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.replica.calibration import Calibration
    from analysis.replica.interactivity import Assumptions, Service

NEEDS = 20
"""Requests with TTFT and cache reads from which a trace can calibrate."""


def assumptions(service: Service, asked: question.Asked | None) -> Assumptions:
    """Draw the bands and the measurements that replace them.

    Raises:
        ValueError: bands that are none.
    """
    from analysis.replica.interactivity import Assumptions

    with st.expander("Assumptions, and measurements in their place", icon=":material/straighten:"):
        one, two, three = st.columns(3)
        mfu = one.slider(
            "Share of peak FLOP/s in prefill (MFU)", **link.at("mfu"), step=0.01,
            help="Not known without a measurement on your engine; 0.2 to 0.5 is common.",
        )  # fmt: skip
        reached = two.slider("Share of HBM bandwidth in decode", **link.at("bandwidth"), step=0.01)
        reached_link = three.number_input(
            "Host link of a GPU, GB/s", **link.at("link"), step=5.0,
            help="1e9 bytes a second, as reached one way.",
        )  # fmt: skip
        found = Assumptions().replace(mfu=mfu, bandwidth_efficiency=reached, link_bytes_per_s=reached_link * 1e9)
        found = _prefill(found, service)
        found = _decode(found, service)
        if asked is not None:
            found = _from_trace(found, service, asked)
    return found


def _points(title: str, what: str, key: str, fixed: str = "") -> tuple[list[float | None], float | None]:
    """Two (what, seconds) pairs and, where asked, one more number; None where empty."""
    st.markdown(f"**{title}**")
    columns = st.columns(5 if fixed else 4)
    values: list[float | None] = []
    for i, (column, label) in enumerate(
        zip(columns, (f"1st: {what}", "takes, s", f"2nd: {what}", "takes, s"), strict=False)
    ):
        values.append(column.number_input(label, **link.at(f"{key}-{i}"), placeholder="measured"))
    more = columns[4].number_input(fixed, **link.at(f"{key}-context")) if fixed else None
    return values, more


def _prefill(found: Assumptions, service: Service) -> Assumptions:
    from analysis.replica.measured import prefill_from_points, with_prefill

    values, _ = _points("Two cold prefills, measured alone", "prompt tokens", "prefill")
    a, s, b, t = values
    if a and s and b and t:
        try:
            measured = prefill_from_points(service, (a, b), (s, t))
            found = with_prefill(found, service, measured)
            _say("MFU", found.mfu[0], measured)
        except ValueError as error:
            st.error(markdown(str(error)), icon=":material/error:")
    return found


def _decode(found: Assumptions, service: Service) -> Assumptions:
    from analysis.replica.measured import decode_from_points, with_decode

    values, context = _points(
        "Two decode steps without drafting", "requests at once", "decode", "context tokens of each"
    )
    a, s, b, t = values
    if a and s and b and t and context:
        try:
            measured = decode_from_points(service, (a, b), float(context), (s, t))
            found = with_decode(found, service, measured)
            _say("Share of the HBM bandwidth", found.bandwidth_efficiency[0], measured)
        except ValueError as error:
            st.error(markdown(str(error)), icon=":material/error:")
    return found


def _from_trace(found: Assumptions, service: Service, asked: question.Asked) -> Assumptions:
    from analysis.replica.measured import prefill_from_trace, with_prefill

    timed = asked.desk.answer(
        f"timed {asked.question!r}",
        lambda: asked.desk.warehouse.sql(
            "SELECT count(*) AS n FROM selected WHERE ttft_s > 0 AND cache_read_tokens < input_tokens", asked.question
        )["n"][0],
    )
    if timed < NEEDS:
        return found
    use = st.checkbox(
        f"Take MFU from this dataset's TTFT ({formats.count(timed)} requests)", **link.at("from-trace"),
        help="Right only if it was recorded with this model on this replica; nothing in a trace says so. TTFT holds "
        "queueing.",
    )  # fmt: skip
    if use:
        try:
            measured = prefill_from_trace(asked.desk.warehouse, asked.question, service)
            found = with_prefill(found, service, measured)
            _say("MFU", found.mfu[0], measured)
        except ValueError as error:
            st.error(markdown(str(error)), icon=":material/error:")
    return found


def _say(name: str, share: float, measured: Calibration) -> None:
    text = (
        f"{name} {share:.3g}, {formats.seconds(measured.fixed_s)} fixed, from {formats.count(measured.points)} points"
    )
    if measured.points > 2:
        text += f"; off by {formats.rate(measured.error_p50)} (median), {formats.rate(measured.error_p90)} (p90)"
    st.success(text, icon=":material/check:")
