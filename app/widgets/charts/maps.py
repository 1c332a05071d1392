"""Maps: load over replicas and time, fleets against an objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from app.widgets import formats
from app.widgets.charts.scales import ALL, NEUTRAL, tipped

VERDICTS = {"keeps it": "#009e73", "breaks it": "#d55e00", "unknown": NEUTRAL}


def load_map(rows: pl.DataFrame) -> Any:
    """Requests in flight per replica over time. Columns: replica, from_s, to_s, running."""
    text, tooltip = tipped(
        rows,
        {
            "Replica": ("replica", None),
            "From": ("from_s", formats.seconds),
            "In flight, mean": ("running", formats.plain),
        },
    )
    replicas = rows["replica"].n_unique()
    return (
        alt.Chart(text)
        .mark_rect(color=ALL)
        .encode(
            x=alt.X(
                "from_s:Q", title="Time since the first arrival", scale=alt.Scale(nice=False),
                axis=alt.Axis(labelExpr=formats.VEGA_SECONDS, values=_round_times(rows["to_s"].to_list())),
            ),
            x2="to_s:Q",
            y=alt.Y("replica:O", title="Replica", axis=alt.Axis(labelOverlap="greedy")),
            opacity=alt.Opacity(
                "running:Q", scale=alt.Scale(range=[0.03, 1], domainMin=0),
                legend=alt.Legend(orient="top", title="Requests in flight", symbolType="square"),
            ),
            tooltip=tooltip,
        )
        .properties(height=min(480, 24 * replicas + 120))
    )  # fmt: skip


def _round_times(seconds: Sequence[float]) -> list[float]:
    """At most nine ticks at round times up to the last of `seconds`."""
    last = max(seconds)
    steps = (1, 5, 15, 60, 300, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)
    step = next((s for s in steps if last / s <= 8), last / 8)
    return [step * k for k in range(int(last / step) + 1)]


def objective_map(rows: pl.DataFrame, order: Sequence[str]) -> Any:
    """Which fleets keep an objective. Columns: policy, fleet, verdict, said; `order`: fleets from left to right."""
    cells_of, tooltip = tipped(
        rows,
        {
            "Policy": ("policy", None),
            "Fleet": ("fleet", None),
            "Objective": ("verdict", None),
            "Figures": ("said", None),
        },
    )
    base = alt.Chart(cells_of).encode(
        x=alt.X(
            "fleet:N", sort=list(order), title="Replicas × cache of each", axis=alt.Axis(orient="top", labelAngle=0)
        ),
        y=alt.Y(
            "policy:N",
            title=None,
            sort=rows["policy"].unique(maintain_order=True).to_list(),
            axis=alt.Axis(labelLimit=200),
        ),
        tooltip=tooltip,
    )
    cells = base.mark_rect(opacity=0.85, stroke="white", strokeWidth=1).encode(
        color=alt.Color(
            "verdict:N", legend=alt.Legend(orient="top", title=None),
            scale=alt.Scale(domain=list(VERDICTS), range=list(VERDICTS.values())),
        )
    )  # fmt: skip
    text = base.mark_text(color="white", fontWeight=600).encode(text="said:N")
    return alt.layer(cells, text).properties(height=34 * rows["policy"].n_unique() + 90)
