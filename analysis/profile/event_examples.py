"""Transitions other than append, by the prompt length at which they happen, with numeric examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.profile.cut_sessions import SAMPLE

LENGTH_EDGES = tuple(1000 * k for k in (0, 8, 16, 32, 64, 96, 112, 128, 144, 160, 176, 192, 224, 256, 512, 1024))
"""Lower edges of the bands of previous prompt length, in tokens; each band has its own event shares."""


def events(rest: pl.DataFrame, later: pl.DataFrame, native: int) -> list[dict[str, Any]]:
    """For each transition other than append: its share by length of the previous prompt, and examples.

    An example is [prompt / previous prompt, tokens shared with the closest earlier prompt / prompt, turns back to that
    one]. A prompt that shares everything except a partial block counts as sharing 1.
    """
    edges = np.array(LENGTH_EDGES, np.float64)

    def place(frame: pl.DataFrame) -> NDArray[np.int64]:
        lengths = frame["m"].fill_null(0.0).to_numpy()
        return np.searchsorted(edges, lengths, side="right") - 1

    all_ = np.bincount(place(later), minlength=edges.size)
    found = []
    for kind in rest["transition"].fill_null("unknown").unique().sort().to_list():
        chosen = rest.filter(pl.col("transition").fill_null("unknown") == kind)
        counts = np.bincount(place(chosen), minlength=edges.size)
        overall = chosen.height / max(1, later.height)
        share = np.where(all_ > 0, counts / np.maximum(all_, 1), overall)
        examples = chosen.filter((pl.col("m") > 0) & (pl.col("n") > 0)).select(
            size=pl.col("n") / pl.col("m"),
            kept=pl.when(pl.col("n") - pl.col("kept") < native).then(1.0).otherwise(pl.col("kept") / pl.col("n")),
            lag=pl.col("lag").clip(1, None),
        )
        if examples.height:
            found.append({"kind": kind, "share": share.tolist(), "examples": sample(examples, "size")})
    return found


def sample(rows: pl.DataFrame, by: str) -> list[list[float]]:
    """At most `SAMPLE` rows, spread evenly over all rows in the order of `by`; `rank` breaks ties."""
    ordered = rows.sort(by, *[c for c in rows.columns if c != by])
    count = min(SAMPLE, ordered.height)
    at = ((np.arange(count) + 0.5) * ordered.height / max(1, count)).astype(np.int64)
    return [[float(v) for v in row] for row in ordered[at].drop("rank", strict=False).rows()]
