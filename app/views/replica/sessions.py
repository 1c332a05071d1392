"""How many sessions: at any context, at the dataset's, and the replica's place on the dataset's capacity curve."""

from __future__ import annotations

import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.replica import pieces
from app.views.replica.choices import Chosen
from app.visit import notices, question
from app.widgets import figures, formats
from app.widgets.charts import lines

if TYPE_CHECKING:
    from analysis.replica.workload import Workload

NAMES = {"p50": "median", "p90": "p90", "p99": "p99", "max": "longest"}
CONTEXTS = (8_000, 32_000, 100_000, 200_000)
FORMULA = (
    "sessions = (free bytes − shared prefix, once) / (bytes of a context + reply in flight − shared prefix) × DP groups"
)
CODE = "windows and recurrent states are counted per sequence; derived from the layouts above"


def draw(chosen: Chosen, asked: question.Asked | None, workload: Workload | None) -> None:
    """Sessions at typical contexts, the line over all contexts, and with a dataset the capacity curve."""
    from analysis.replica.kv_budget import budget_ends

    st.subheader("How many sessions?", anchor=False)
    if not chosen.budget.fits:
        st.info("None: the weights and the reserve leave nothing for a KV cache.", icon=":material/block:")
        return
    ends = budget_ends(chosen.budget)
    known = workload is not None and workload.contexts["p50"] is not None
    if known and workload is not None:
        marks = _of_dataset(chosen, ends, workload)
    else:
        marks = []
        for column, tokens in zip(st.columns(4), CONTEXTS, strict=True):
            low, middle, high = (b.sessions(tokens) for b in (ends[0], chosen.budget, ends[1]))
            with column:
                figures.metric(
                    f"At {formats.tokens(tokens)} tokens", pieces.sessions(middle),
                    "Sessions of this length whose KV fits at once, none of it shared.",
                    f"{pieces.band((low, high), pieces.sessions)} over the range of memory",
                )  # fmt: skip
    _line(chosen, ends, marks, workload)
    command = chosen.command("kv-budget", *_dataset(asked), "--json")
    pieces.behind("How is this computed?", [(FORMULA, CODE)], command, computed="fits")
    if asked is not None and workload is not None:
        _capacity(chosen, asked, workload)


def _dataset(asked: question.Asked | None) -> list[str]:
    """The dataset's options of kv-budget, which knows no filter and no window."""
    if asked is None:
        return []
    words = [shlex.quote(word) for word in shlex.split(asked.command("kv-budget"))]
    kept = [f"--dataset {words[2]}"]
    return kept + [f"{k} {v}" for k, v in pairwise(words) if k in ("--block-size", "--arrivals")]


def _of_dataset(chosen: Chosen, ends: tuple[Any, Any], workload: Workload) -> list[tuple[str, float]]:
    """Metrics of the dataset's own contexts; returns them as marks."""
    reply = workload.output_tokens or 0.0
    shared = workload.shared_prefix_tokens or 0.0
    marks = []
    for column, (name, tokens) in zip(st.columns(4), workload.contexts.items(), strict=True):
        if tokens is None:
            continue
        counts = [b.sessions(tokens + reply, min(shared, tokens)) for b in (ends[0], chosen.budget, ends[1])]
        with column:
            figures.metric(
                f"At once, {NAMES[name]} context", pieces.sessions(counts[1]),
                f"Sessions whose {formats.tokens(tokens)} tokens of context and {formats.tokens(reply)} of reply in "
                "flight "
                f"(mean) fit at once. The prefix that sessions share ({formats.tokens(shared)}, median) is counted "
                "once.",
                f"{formats.tokens(tokens)} tokens · {pieces.band((counts[0], counts[2]), pieces.sessions)}",
            )  # fmt: skip
        marks.append((NAMES[name], tokens + reply))
    return marks


def _line(chosen: Chosen, ends: tuple[Any, Any], marks: list[tuple[str, float]], workload: Workload | None) -> None:
    import polars as pl

    shared = (workload.shared_prefix_tokens or 0.0) if workload is not None and marks else 0.0
    longest = max([256_000.0, *(m[1] for m in marks)])
    first = min([4_000.0, *(m[1] / 2 for m in marks)])
    first = max(first, 500.0)
    steps = [first * (longest * 1.05 / first) ** (i / 60) for i in range(61)]
    named = dict(zip(("low", "sessions", "high"), (ends[0], chosen.budget, ends[1]), strict=True))
    rows = pl.DataFrame(
        {"context_tokens": steps} | {k: [b.sessions(n, min(shared, n)) for n in steps] for k, b in named.items()}
    )
    rows = rows.filter(pl.all_horizontal(pl.col(*named).is_finite()))
    st.altair_chart(
        lines.session_lines(rows, marks), width="stretch", key="chart-sessions",
        alt="Sessions that fit at once over the tokens of a session, with the range of memory as a band",
    )  # fmt: skip
    st.caption(
        "Line: this replica. Band: utilisation and reserve at the careful and the bold end."
        + (" Dashed: contexts of this dataset." if marks else "")
    )


def _capacity(chosen: Chosen, asked: question.Asked, workload: Workload) -> None:
    import polars as pl

    from analysis.headline.curves import curve
    from analysis.replica.answers import capacity_mark
    from analysis.replica.workload import beside

    if workload.runs is None:
        if workload.note:
            notices.suggest_arrivals()
        else:
            st.info("This trace does not say what prompts share, so there is no hit rate.", icon=":material/info:")
        return
    mark = capacity_mark(chosen.budget, asked.block_size)
    found: dict[str, Any] = beside(chosen.budget, workload)
    rate, ceiling = found["hit_rate_at_capacity"], found["ceiling"]
    tokens, gib = int(str(mark["tokens"])), float(str(mark["gib"]))
    where = (
        f"{mark['label']}: {gib:,.1f} GiB over the replica, {formats.tokens(tokens)} tokens, "
        f"{formats.count(int(str(mark['blocks'])))} blocks of {asked.block_size}"
    )
    placed = st.session_state["replica-mark"] = (str(mark["label"]), tokens, rate)
    columns = st.columns(4)
    with columns[0]:
        figures.metric(
            "Hit rate in this replica", formats.rate(rate),
            f"One LRU cache of {where}, serving all of these requests. {figures.definition('lru_curve')}",
            f"{formats.points(rate - ceiling)} to the ceiling of {formats.rate(ceiling)}",
        )  # fmt: skip
    losing: dict[str, Any] = found["capacity_tokens_losing_points"] or {}
    with columns[1]:
        need = losing.get("1")
        figures.metric(
            "Loses 1 point below", f"{formats.tokens(need)}{formats.SPACE}tokens" if need else formats.UNKNOWN,
            "The smallest capacity whose hit rate is within this many points of the ceiling.",
            f"5 points: {formats.tokens(losing.get('5'))} · 10 points: {formats.tokens(losing.get('10'))}",
        )  # fmt: skip
    with columns[2]:
        idle = found["idle_sessions_tokens"]
        figures.metric(
            "Cached though idle", f"{formats.tokens(idle)}{formats.SPACE}tokens" if idle else formats.UNKNOWN,
            "What sessions that will come back need cached while they pause: sessions within the reuse horizon (p90 "
            "of the time "
            "between two uses) × median context, the shared prefix once. Running sessions are counted apart, above.",
            f"{formats.plain(found['sessions_within_reuse_horizon'])} sessions within "
            f"{formats.seconds(found['reuse_horizon_s'])}" if idle else "needs times across sessions",
        )  # fmt: skip
    with columns[3]:
        figures.metric(
            "Capacity", f"{gib:,.1f}{formats.SPACE}GiB",
            "Bytes free for the KV cache over all GPUs of the replica, copies included.",
            f"{formats.tokens(tokens)} tokens · {formats.count(int(str(mark['blocks'])))} blocks of {asked.block_size}",
        )  # fmt: skip
    frame = asked.desk.answer(
        f"curve {asked.question!r} all []", lambda: curve(asked.desk.warehouse, asked.question, "all")
    )
    frame = frame.filter(pl.col("hit_tokens") >= 0.01 * pl.col("hit_tokens").max())  # below, the axis is mostly empty
    each = gib * (1 << 30) / tokens if tokens else None
    figures.figure(
        "replica-capacity",
        "",
        lines.capacity_lines(frame, ceiling, None, each, placed),
        frame,
        f"Hit rate over capacity with this replica marked: {formats.rate(rate)} at {where}",
        asked.source(
            "lru_curve",
            "curve",
            "--json",
            computed="capacity",
            values={"axis": "all", "capacities": frame["capacity_blocks"].to_list()},
        ),
        f"Hit rate over the capacity of one replica. Marked: {where}.",
    )
