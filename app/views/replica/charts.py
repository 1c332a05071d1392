"""Charts of the page Replica: memory of a GPU, sessions over context, speed over concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from app.widgets import charts, formats

if TYPE_CHECKING:
    from analysis.replica.interactivity import Point
    from analysis.replica.kv_budget import Budget

GIB = 1 << 30
PARTS = {
    "weights": "#1f5a8c",
    "reserve": "#8a8a2b",
    "not used": charts.NEUTRAL,
    "free for KV": "#009e73",
}
MISSING = "#d55e00"


def memory_bar(budget: Budget) -> Any:
    """One GPU's memory by what takes it, in GiB, with the GPU's size as a rule where more is asked than there is."""
    kept = budget.gpu_bytes * (1 - budget.utilization)
    free = budget.free_bytes_per_gpu
    reserve = budget.gpu_bytes - kept - budget.weights_bytes_per_gpu - free
    sizes = {
        "weights": budget.weights_bytes_per_gpu,
        "reserve": reserve,
        "not used": kept,
        "free for KV": max(0.0, free),
    }
    # what is missing lies beyond the GPU: the other parts already fill it by so much
    parts = [p for p in PARTS if sizes.get(p, 0.0) > 0]
    frame = pl.DataFrame(
        {"part": parts, "gib": [sizes[p] / GIB for p in parts], "text": [formats.size(sizes[p]) for p in parts],
         "order": list(range(len(parts)))}
    )  # fmt: skip
    total = max(budget.gpu_bytes, sum(sizes.values())) / GIB
    x = alt.X("gib:Q", stack="zero", scale=alt.Scale(domain=[0, total]), title="GiB of one GPU")
    bars = (
        alt.Chart(frame)
        .mark_bar(height=30)
        .encode(
            x=x,
            color=alt.Color(
                "part:N", scale=alt.Scale(domain=parts, range=[PARTS[p] for p in parts]),
                legend=alt.Legend(orient="top", title=None),
            ),
            order="order:Q",
            tooltip=[alt.Tooltip("part:N", title="Part"), alt.Tooltip("text:N", title="Size")],
        )
    )  # fmt: skip
    size = pl.DataFrame(
        {"gib": [budget.gpu_bytes / GIB], "text": [f"all of the GPU: {formats.size(budget.gpu_bytes)}"]}
    )
    at = alt.Chart(size).encode(x="gib:Q")
    rule = at.mark_rule(color=MISSING, strokeWidth=2.5)
    text = at.mark_text(align="right", dx=-6, color=MISSING, fontWeight=600).encode(y=alt.value(6), text="text:N")
    layers = [bars, rule, text] if free < 0 else [bars]
    # the legend and the axis take their room from the height; the bar needs what is left
    return alt.layer(*layers).properties(height=175)


def session_lines(rows: pl.DataFrame, marks: Sequence[tuple[str, float]]) -> Any:
    """Sessions at once over their context. Columns: context_tokens, sessions, low, high; marks: (label, tokens)."""
    text = rows.with_columns(
        context=pl.col("context_tokens").map_elements(formats.tokens, pl.String),
        said=pl.col("sessions").map_elements(lambda n: formats.plain(n, 1), pl.String),
        range=pl.struct("low", "high").map_elements(lambda s: f"{s['low']:.1f} to {s['high']:.1f}", pl.String),
    )
    low, high = rows["context_tokens"].to_list()[0], rows["context_tokens"].to_list()[-1]
    x = alt.X(
        "context_tokens:Q", scale=alt.Scale(type="log", base=2, domain=[low, high], nice=False),
        axis=alt.Axis(labelExpr=formats.VEGA_TOKENS, labelOverlap="greedy", values=[1000 * 2**k for k in range(14)],
                      title="Tokens of a session: context and the reply in flight"),
    )  # fmt: skip
    floor = 0.8 * max(0.05, min(rows["low"].to_list()))
    y = alt.Scale(type="log", domainMin=floor, clamp=True)
    base = alt.Chart(text).encode(
        x=x,
        tooltip=[
            alt.Tooltip("context:N", title="Context"),
            alt.Tooltip("said:N", title="Sessions"),
            alt.Tooltip("range:N", title="Range"),
        ],
    )
    area = base.mark_area(opacity=0.18, color=charts.ALL).encode(
        y=alt.Y("low:Q", scale=y, title="Sessions that fit at once"), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2.5, color=charts.ALL).encode(y=alt.Y("sessions:Q", scale=y))
    layers = [area, line]
    if marks:
        frame = pl.DataFrame(
            {"context_tokens": [float(m[1]) for m in marks], "label": [m[0] for m in marks],
             "row": [i % 2 for i in range(len(marks))]}
        )  # fmt: skip
        at = alt.Chart(frame).encode(x=x)
        layers.append(at.mark_rule(strokeDash=[4, 4], color=charts.NEUTRAL))
        layers += [
            at.transform_filter(f"datum.row == {row}")
            .mark_text(align="left", baseline="top", dx=4, color=charts.NEUTRAL)
            .encode(y=alt.value(4 + 15 * row), text="label:N")
            for row in (0, 1)
        ]
    return alt.layer(*layers).properties(height=300)


def speed_lines(points: Sequence[Point], fits: float) -> Any:
    """Tokens/s of a user against tokens/s of a GPU over concurrency: the careful and the bold end of the assumptions.

    Args:
        points: one a batch.
        fits: sessions that the cache holds at once; larger batches are drawn hollow.
    """
    rows = [
        {
            "end": end,
            "batch": p.batch,
            "user": p.tokens_per_s_per_user[i],
            "gpu": p.tokens_per_s_per_gpu[i],
            "held": "fits" if p.batch <= fits else "more than the cache holds",
        }
        for i, end in enumerate(("careful", "bold"))
        for p in points
    ]
    frame = pl.DataFrame(rows)
    log = alt.Scale(type="log", base=2, nice=False, padding=16)
    x = alt.X("user:Q", title="Tokens a second of one user", scale=log)
    y = alt.Y("gpu:Q", title="Tokens a second of one GPU", scale=log)
    ends = alt.Scale(domain=["careful", "bold"], range=["#56a0c9", "#1f6fb2"])
    base = alt.Chart(frame).encode(x=x, y=y, order="batch:Q")
    line = base.mark_line(strokeWidth=2).encode(
        color=alt.Color("end:N", scale=ends, legend=alt.Legend(orient="top", title="End of the assumptions"))
    )
    held = ["fits", "more than the cache holds"]
    dots = base.mark_point(size=60, strokeWidth=1.5).encode(
        color=alt.Color("end:N", scale=ends),
        fill=alt.Fill("end:N", scale=ends, legend=None),
        fillOpacity=alt.FillOpacity("held:N", scale=alt.Scale(domain=held, range=[1, 0]), legend=None),
        tooltip=[
            alt.Tooltip("batch:Q", title="Requests at once"),
            alt.Tooltip("user:Q", title="Tokens/s, user", format=",.0f"),
            alt.Tooltip("gpu:Q", title="Tokens/s, GPU", format=",.0f"),
            alt.Tooltip("held:N", title="KV cache"),
        ],
    )
    text = base.mark_text(align="left", dx=7, dy=-5, color=charts.NEUTRAL, fontSize=11).encode(text="batch:Q")
    return alt.layer(line, dots, text).properties(height=340)
