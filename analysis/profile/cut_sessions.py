"""Sessions cut by the end of the trace: sessions that start late show only their short gaps."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

SAMPLE = 1000
"""The most examples of an event, or of sessions; they are spread evenly over all of them."""

TRIGGERS = ("unknown", "tool", "user")

CENSORED = 0.05
"""The trace's end counts as cutting sessions if it explains more than this share of the variance of the gaps' ranks."""

MOST_WAITS = 8192
"""The most gaps that are published one by one."""


def cut_by_the_end(frame: pl.DataFrame) -> bool:
    """Whether the gaps of top-level sessions depend on the time per remaining turn until the end of the trace.

    A session that starts late in a short trace shows only its short gaps. The test: how much of the variance of gaps do
    quarters of the remaining time explain, inside strata and thirds of a session?
    """
    last = pl.col("t").max().over("s")
    end = pl.coalesce("end_s", "arrival_s").shift(1).over("s", order_by="t")
    gaps = frame.with_columns(
        pace=(pl.col("arrival_s").max() - end) / (last - pl.col("t") + 1), third=(3 * (pl.col("t") - 1)) // last
    ).filter((pl.col("depth") == 0) & (pl.col("t") > 0) & pl.col("gap_s").is_not_null() & pl.col("pace").is_not_null())
    between, total, cells = 0.0, 0, 0
    for _, part in gaps.group_by("stratum", "third"):
        if part.height < 16:
            continue
        rank, pace = _ranks(part["gap_s"].to_numpy()), _ranks(part["pace"].to_numpy())
        for q in range(4):
            here = rank[(pace * 4).astype(np.int64) == q]
            between += here.size * float(here.mean() - 0.5) ** 2
            cells += 1
        total += part.height
    # ranks between 0 and 1 have a variance of 1/12; by chance alone each cell explains the share of one gap
    return total > 0 and 12 * between / total >= max(CENSORED, 3 * cells / total)


def waits_of(rows: pl.DataFrame) -> list[list[list[float]]] | None:
    """[gap, trigger] of each turn of each session, in order of their starts; None if there are too many gaps."""
    later = rows.filter(pl.col("t") > 0)
    if later.is_empty() or later.height > MOST_WAITS or later["gap_s"].null_count():
        return None
    known = rows.filter((pl.col("t") == 0) & pl.col("n").is_not_null())["s"]
    code = pl.col("trigger").fill_null("unknown").replace_strict(TRIGGERS, range(3), default=0, return_dtype=pl.Float64)
    found = (
        later.filter(pl.col("s").is_in(known.to_list())).sort("rank", "s", "t")
        .with_columns(pair=pl.concat_list(pl.col("gap_s").cast(pl.Float64), code))
        .group_by("s", maintain_order=True).agg("pair")["pair"].to_list()
    )  # fmt: skip
    return found if len(found) <= SAMPLE and len(found) == known.len() else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values' ranks, scaled to between 0 and 1."""
    out = np.empty(values.size)
    out[np.argsort(values, kind="stable")] = (np.arange(values.size) + 0.5) / values.size
    return out
