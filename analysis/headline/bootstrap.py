"""How sure a rate is: the bootstrap by session, since requests of one session depend on each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

SMALL_SESSIONS = 20
"""Groups of fewer sessions are marked: an interval from so few says little."""

DRAWS = 1000


class Interval(NamedTuple):
    """A 95 % interval; None where there are fewer than two sessions."""

    low: float | None
    high: float | None


def ratio_interval(
    part: NDArray[np.float64], whole: NDArray[np.float64], seed: int = 0, draws: int = DRAWS
) -> Interval:
    """Percentile interval of Σ part / Σ whole when sessions are drawn with replacement.

    Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13; clusters are drawn whole.

    Args:
        part, whole: float64[s], sums of each session.
        seed: of the draws.
        draws: how many resamples.
    """
    count = len(whole)
    if count < 2 or not whole.sum():
        return Interval(None, None)
    rng = np.random.default_rng(seed)
    rates = np.empty(draws)
    step = max(1, 4_000_000 // count)
    for first in range(0, draws, step):
        some = min(step, draws - first)
        drawn = rng.integers(0, count, (some, count), np.int32)
        below = whole[drawn].sum(axis=1)
        above = part[drawn].sum(axis=1)
        rates[first : first + some] = np.divide(above, below, out=np.full(some, np.nan), where=below > 0)
    low, high = np.nanquantile(rates, [0.025, 0.975])
    return Interval(float(low), float(high))


def rates_by_group(frame: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Rates of each group with their intervals.

    Args:
        frame: a row a request: group, session, hit, prefix_tokens (and any order).
        seed: of the draws.

    Returns:
        group, sessions, small (fewer than `SMALL_SESSIONS` sessions), rate (token-weighted), low, high,
        rate_per_request (its mean over requests), rate_by_compute (each request weighs what attention over it costs:
        hit pairs h² over n², reference: a token attends to all before it).
    """
    rows = []
    for (group,), part in frame.group_by("group", maintain_order=True):
        sums = part.group_by("session", maintain_order=True).agg(pl.col("hit", "prefix_tokens").sum())
        hit, prefix = (sums[name].to_numpy().astype(np.float64) for name in ("hit", "prefix_tokens"))
        n, h = (part[name].to_numpy().astype(np.float64) for name in ("prefix_tokens", "hit"))
        low, high = ratio_interval(hit, prefix, seed)
        some = n > 0
        rows.append(
            {
                "group": group,
                "sessions": sums.height,
                "small": sums.height < SMALL_SESSIONS,
                "rate": float(hit.sum() / prefix.sum()) if prefix.sum() else None,
                "low": low,
                "high": high,
                "rate_per_request": float(np.mean(h[some] / n[some])) if some.any() else None,
                "rate_by_compute": float((h**2).sum() / (n**2).sum()) if some.any() else None,
            }
        )
    schema = {"group": pl.String, "sessions": pl.Int64, "small": pl.Boolean} | dict.fromkeys(
        ("rate", "low", "high", "rate_per_request", "rate_by_compute"), pl.Float64
    )
    return pl.DataFrame(rows, schema=schema)
