"""Compare: two datasets side by side: what makes them incomparable, differences with intervals, curves on one axis."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.visit import guard, state
from app.visit.desk import Desk, desk
from app.visit.link import link
from app.visit.question import opened
from app.widgets import figures, formats
from app.widgets.figures import Source
from app.widgets.flags import question_flags
from app.widgets.labels import label
from app.widgets.plain_text import markdown
from app.widgets.table import Column, table

if TYPE_CHECKING:
    import polars as pl

    from app.visit.known import Known

LEAD = "Two datasets side by side: what differs by more than the chance of which sessions were recorded."
DRAWN = (
    "ceiling", "input_output_ratio", "input_tokens_mean", "input_tokens_p50", "input_tokens_p99", "output_tokens_mean",
    "output_tokens_p50", "turns_mean", "turns_p50", "new_tokens_mean", "new_tokens_p50", "gap_s_mean", "gap_s_p50",
)  # fmt: skip
"""Metrics of the picture, where they have an interval; the table has all."""


def _profile(held: Desk, block: int | None, arrivals: str) -> dict[str, Any]:
    from analysis.profile.compare import profile_of

    found: dict[str, Any] = held.answer(
        f"profile {block} {arrivals}", lambda: profile_of(held.warehouse, block, arrivals)
    )
    return found


def _picture(rows: list[dict[str, Any]], names: tuple[str, str], source: Source) -> None:
    import polars as pl

    from app.widgets.charts.points import forest

    shown = [
        {"metric": label(row["metric"]).words, "change": row["difference"] / row["a"],
         "low": row["interval"][0] / row["a"], "high": row["interval"][1] / row["a"]}
        for row in rows if row["interval"] is not None and row["a"] and row["metric"] in DRAWN
    ]  # fmt: skip
    if not shown:
        st.info("No figure has an interval on both sides: that needs at least two top-level sessions each.")
        return
    frame = pl.DataFrame(shown)
    figures.figure(
        "differences", "Differences", forest(frame), frame,
        f"Relative differences of {names[1]} from {names[0]} with 95 % intervals", source,
        f"{markdown(names[1])} against {markdown(names[0])}, with 95 % intervals. Where an interval holds 0, chance in "
        "the choice of sessions explains the difference. Drawn from −100 % to +200 %.",
    )  # fmt: skip


def _curves(sides: tuple[Desk, Desk], names: tuple[str, str], block: int | None, arrivals: str, source: Source) -> None:
    import polars as pl

    from analysis.headline.curves import curve
    from analysis.store.question import NeedsArrivals, Question
    from app.widgets.charts import lines

    asked = Question(block_size=block, arrivals=arrivals)
    parts: list[pl.DataFrame] = []
    for held, name in zip(sides, names, strict=True):
        try:
            frame = held.answer(f"curve {asked!r} all []", lambda h=held: curve(h.warehouse, asked))  # type: ignore[misc]
        except NeedsArrivals:
            st.info("Hit rates over capacity need arrivals: choose *Arrivals* on the left.", icon=":material/info:")
            return
        parts.append(frame.with_columns(group=pl.lit(name)))
    both = pl.concat(parts)
    figures.figure(
        "both-curves", "Hit rate over capacity", lines.capacity_lines(both, None), both,
        f"Hit rate over capacity of {names[0]} and {names[1]}", source, "One LRU cache; exact at every point.",
    )  # fmt: skip


def _all(rows: list[dict[str, Any]], names: tuple[str, str], source: Source) -> None:
    import polars as pl

    st.subheader("All figures", anchor=False)
    shown = []
    for row in rows:
        low, high = row["interval"] or (None, None)
        sure = None if low is None or high is None else "could be chance" if low <= 0 <= high else "differs"
        write = formats.WRITTEN[label(row["metric"]).unit]
        shown.append({
            "metric": label(row["metric"]).words, "a": None if row["a"] is None else write(row["a"]),
            "b": None if row["b"] is None else write(row["b"]), "verdict": sure,
        })  # fmt: skip
    columns = [Column("metric", "Figure"), Column("a", names[0]), Column("b", names[1]), Column("verdict", "Verdict")]
    table(shown, columns, "All figures of both")
    flat = [{**row, "interval": None if row["interval"] is None else str(row["interval"])} for row in rows]
    figures.downloads("compare", pl.DataFrame(flat, infer_schema_length=None), source)


def _side(known: Known) -> str:
    return "DATASET" if known.private else known.name


with guard.page(LEAD):
    from analysis.profile.compare import compare

    opened()
    found = state.opened()
    if len(found) < 2:
        st.info(
            "Two datasets are needed. Open another one on *Data*: the demo, one of this server, or an upload.",
            icon=":material/info:",
        )
        link.page("views/data/data.py", label="Open another dataset", icon=":material/database:")
        st.stop()
    called = state.names_of(found)
    first, second = st.columns(2)
    current = link.value("dataset") or next(iter(found))
    one = first.selectbox("A", **link.at("a", list(found), current), format_func=lambda v: called.get(v, v))
    other = next(value for value in found if value != one)
    two = second.selectbox("B", **link.at("b", list(found), other), format_func=lambda v: called.get(v, v))
    if one == two:
        st.info("A and B are the same dataset.", icon=":material/info:")
        st.stop()
    drawn = st.session_state["drawn"]
    sides, names = (desk(found[one]), desk(found[two])), (called[one], called[two])
    compared = compare(*(_profile(side, drawn.block, drawn.arrivals) for side in sides))
    if compared["warnings"]:
        said = "\n".join(f"- {markdown(warning)}" for warning in compared["warnings"])
        st.warning(f"Before you compare:\n{said}", icon=":material/warning:")
    if drawn.where or drawn.window != "all":
        st.caption("Both are compared whole: filters and window on the left mean nothing here.")
    words = [
        "tracetower",
        "compare",
        _side(found[one]),
        _side(found[two]),
        *question_flags(drawn.block, drawn.arrivals, "all", ()),
    ]
    source = Source(f"{names[0]} {names[1]}", "", shlex.join(words), "; ".join(
        f"{name}: {says}" for name, says in compared["definition"].items()
    ))  # fmt: skip
    _picture(compared["rows"], names, source)
    _curves(sides, names, drawn.block, drawn.arrivals, source)
    _all(compared["rows"], names, source)
