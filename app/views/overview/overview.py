"""Overview: what the workload asks for and how much of it a cache could reuse, with every figure's definition."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app.views.overview import types
from app.visit import findings, guard, question
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.plain_text import markdown
from app.widgets.table import columns_of, table

LEAD = "What these requests ask of a serving system, and how much of it a KV cache could reuse."
MOST_TURNS = 300  # by up to six trajectory types a chart stays below its row limit


def _report(asked: question.Asked) -> tuple[dict[str, Any], dict[str, Any]]:
    """(workload, hit_rate) of the report."""
    workload = asked.desk.query("workload", asked.question)
    rates = asked.desk.query("hit_rate", asked.question)
    return workload.row(0, named=True), rates.row(0, named=True)


def _overlap(asked: question.Asked) -> dict[str, Any]:
    row = asked.desk.query("overlap", asked.question).row(0, named=True)
    return row if row["prefix_tokens"] else dict.fromkeys(row)


def _headline(rates: dict[str, Any], workload: dict[str, Any], overlap: dict[str, Any]) -> None:
    """The figures that people come for; small print says how far each can be trusted."""
    low, high = rates["ceiling_low"], rates["ceiling_high"]
    wide = low is not None and high is not None and high - low > 0.0005
    ceiling_notes = [formats.nines(rates["nines"])] if rates["nines"] is not None else []
    if wide:
        ceiling_notes.append(f"{formats.rate(low)} to {formats.rate(high)}, by the unlogged head")
    if rates["ceiling_coverage"] is not None and rates["ceiling_coverage"] < 0.9995:
        ceiling_notes.append(f"known for {formats.rate(rates['ceiling_coverage'])} of the input")
    first = st.columns(4)
    with first[0]:
        figures.metric(
            "Achievable hit rate (ceiling)",
            formats.rate(rates["ceiling"]),
            f"{figures.definition('hit_rate', 'The achievable hit rate')} {figures.definition('hit_rate', 'Ceiling')}"
            + (f" {figures.definition('hit_rate', 'Low and high')}" if wide else ""),
            " · ".join(ceiling_notes),
        )
    with first[1]:
        share = rates["reported_token_coverage"]
        figures.metric(
            "Reported hit rate",
            formats.rate(rates["reported"]),
            figures.definition("hit_rate", "Reported"),
            "no cache field in the trace"
            if rates["reported"] is None
            else f"known for {formats.rate(share)} of the input",
        )
    with first[2]:
        figures.metric(
            "Gap to the ceiling",
            formats.points(rates["gap"]),
            figures.definition("hit_rate", "Gap"),
            "needs a reported rate" if rates["gap"] is None else _both_sides(asked),
        )
    with first[3]:
        figures.metric(
            "Each token is sent",
            formats.factor(overlap["reprocessing_factor"]),
            " ".join(figures.definition("overlap", label) for label in ("Re-processing factor", "Distinct tokens")),
            f"{formats.tokens(overlap['distinct_tokens'])} distinct tokens",
        )
    second = st.columns(4)
    estimated = workload["input_output_ratio_estimated"]
    differs = (
        estimated is not None
        and workload["input_output_ratio"] is not None
        and formats.ratio(estimated) != formats.ratio(workload["input_output_ratio"])
    )
    with second[0]:
        figures.metric(
            "Input : output",
            formats.ratio(workload["input_output_ratio"]),
            f"{figures.definition('workload', 'Ratios')} {figures.definition('workload', 'Input counts')}",
            f"{formats.ratio(estimated)} with estimates for cut outputs"
            if differs
            else f"median request {formats.ratio(workload['input_output_ratio_p50'])}",
        )
    with second[1]:
        figures.metric(
            "Input tokens",
            formats.tokens(workload["input_tokens"]),
            figures.definition("workload", "Input counts"),
            f"a prompt: median {formats.tokens(workload['input_tokens_p50'])}, "
            f"p90 {formats.tokens(workload['input_tokens_p90'])}",
        )
    with second[2]:
        figures.metric(
            "Turns of a session",
            formats.plain(workload["turns_mean"]),
            f"Mean. {figures.definition('workload', 'Turns')}",
            f"median {formats.plain(workload['turns_p50'], 0)}, p90 {formats.plain(workload['turns_p90'], 0)}",
        )
    with second[3]:
        figures.metric(
            "New tokens a turn",
            formats.tokens(workload["new_tokens_per_turn_p50"]),
            f"Median. {figures.definition('workload', 'New tokens per turn')}",
            f"p90 {formats.tokens(workload['new_tokens_per_turn_p90'])}, "
            f"p99 {formats.tokens(workload['new_tokens_per_turn_p99'])}",
        )


def _both_sides(asked: question.Asked) -> str:
    """What the gap is made of: tokens that were lost, less those that were read above what is known to be shared."""
    from analysis.findings.kept import findings_of

    found = asked.desk.answer(
        f"findings {asked.question!r} None",
        lambda: findings_of(asked.desk.warehouse, asked.question, asked.desk.answer),
    )
    figures_of = next((finding.figures for finding in found if finding.kind == "reported"), None)
    if figures_of is None or "above" not in figures_of:
        return "ceiling − reported"
    lost, above = (formats.rate(figures_of[name].value) for name in ("lost", "above"))
    return f"{lost} lost, less {above} read beyond what the trace shares"


def _trust(asked: question.Asked, rates: dict[str, Any]) -> None:
    """What is estimated, inferred or unknown, and what it touches."""
    dataset = asked.desk.warehouse.dataset
    notes: list[str] = []
    sources = asked.desk.answer("sources", lambda: dataset.read("sources"))
    sessions = asked.desk.answer(
        "session_source", lambda: dataset.read("sessions", ["session_source"])["session_source"].value_counts()
    )
    counts = dict(sessions.iter_rows())
    if counts.get("inferred"):
        notes.append(
            f"**Inferred sessions**: {formats.count(counts['inferred'])} of {formats.count(sum(counts.values()))} "
            "sessions are not named by the source but put together from prompts that extend prompts. Turns, gaps, "
            "transitions and trajectory types rest on that; the ceiling does not."
        )
    if "tokenizer" in sources["lengths"].to_list():
        names = ", ".join(sources["tokenizer"].drop_nulls().unique().sort().to_list())
        notes.append(
            f"**Estimated lengths**: some prompts were counted with the tokenizer {markdown(names)}, "
            "because the source says no counts. Another model's own tokens differ."
        )
    if rates["ceiling"] is None:
        notes.append(
            "**No prompts**: this trace says how long prompts are, not what they share, so there is no ceiling. "
            "That needs block hashes, token ids or the text."
        )
    if asked.unanchored:
        notes.append(
            "**Relative times**: only times inside a session are known. What depends on order across sessions is "
            f"shown as {formats.UNKNOWN} until arrivals are chosen on the left; the ceiling does not depend on them."
        )
    if notes:
        st.warning("\n\n".join(notes), icon=":material/info:")
    rejects = asked.desk.answer("rejects", lambda: dataset.read("rejects").height)
    if rejects:
        link.page(
            "views/data/data.py",
            label=f"{formats.count(rejects)} records were not used: see why",
            icon=":material/report:",
        )


def _turns(asked: question.Asked) -> None:
    import polars as pl

    from app.widgets.charts import bars

    frame = asked.desk.query("turn_bands", asked.question, axis="trajectory_type")
    if frame.is_empty():
        st.subheader("Turns of a session")
        st.info("This trace has no sessions, so there are no turns to count.", icon=":material/info:")
        return
    top = frame.group_by("turns").agg(pl.col("sessions").sum()).sort("sessions").row(-1, named=True)
    figures.figure(
        "turns", "Turns of a session", bars.turn_bars(frame), frame,
        f"Main sessions by number of turns; most ({top['sessions']}) have {top['turns']}",
        asked.source("turn_bands", "query", "turn_bands", "axis=trajectory_type"),
        "Main sessions by how many requests they made.",
    )  # fmt: skip


def _growth(asked: question.Asked) -> None:
    from app.widgets.charts import lines

    st.subheader("Context growth", anchor=False)
    split = st.segmented_control(
        "Context growth", **link.at("growth-by"), required=True, label_visibility="collapsed",
        format_func={"all": "All", "trajectory_type": "By trajectory type"}.__getitem__,
    )  # fmt: skip
    frame = asked.desk.query("context_growth", asked.question, axis=split, most_turns=MOST_TURNS)
    if frame.is_empty():
        st.info("No request has both a turn and a known prompt length.", icon=":material/info:")
        return
    figures.figure(
        "growth", "", lines.growth_lines(frame), frame,
        f"Median prompt length by turn, up to turn {frame['turn'].to_list()[-1]}",
        asked.source("context_growth", "query", "context_growth", f"axis={split}", f"most_turns={MOST_TURNS}"),
        "Prompt length by turn: the median, and p10 to p90 as a band. Late turns rest on the few that get there.",
    )  # fmt: skip


def _gaps(asked: question.Asked) -> None:
    from app.widgets.charts import bars

    frame = asked.desk.query("gaps", asked.question)
    if frame.is_empty():
        st.subheader("Gaps between requests")
        st.info("No two requests of a session have known times.", icon=":material/info:")
        return
    total = int(frame["requests"].sum())
    figures.figure(
        "gaps", "Gaps between requests", bars.gap_bars(frame), frame,
        f"{total} gaps between requests, by length and trigger", asked.source("gaps", "query", "gaps"),
        "How long a session's prefix has to stay in the cache: from the end of a request to the session's next.",
    )  # fmt: skip


def _transitions(asked: question.Asked) -> None:
    from app.widgets.charts import bars

    frame = asked.desk.query("transitions", asked.question)
    if frame["prefix_tokens"].null_count() == frame.height:
        return
    figures.figure(
        "transitions", "What happened between requests", bars.transition_bars(frame), frame,
        "Prompt tokens by transition, split into shared and new", asked.source("transitions", "query", "transitions"),
        "How each prompt relates to the earlier prompts of its session, and how many of its tokens were new.",
    )  # fmt: skip
    table(
        frame, columns_of("transition", "requests", "sessions", "prefix_tokens", "hit_rate"), "Requests by transition"
    )


with guard.page(LEAD):
    asked = question.ask()
    question.facts_line(asked)
    findings.draw(asked, "overview")
    workload, rates = _report(asked)
    headline = st.container()
    trust = st.container()
    with guard.guarded():
        types.by_type(asked)
    with headline, guard.guarded():  # after the first chart: distinct tokens need a pass over the tree
        _headline(rates, workload, _overlap(asked))
    with trust:
        _trust(asked, rates)
    left, right = st.columns(2, gap="large")
    with left, guard.guarded():
        _turns(asked)
    with right, guard.guarded():
        _gaps(asked)
    with guard.guarded():
        _growth(asked)
    with guard.guarded():
        _transitions(asked)
