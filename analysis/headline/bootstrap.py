"""95 % percentile intervals, from resampling whole sessions: of rates, and of a sample's mean and quantiles.

Requests of one session depend on each other, and a sub-agent depends on its parent, so each draw takes a whole
top-level session with its sub-agents. Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.families import family_codes
from traces.tree.compiled import njit

METHOD = "95 % percentile bootstrap, 1,000 resamples of top-level sessions with their sub-agents"
"""The method in words, printed with every interval."""

SMALL_SESSIONS = 20
"""Groups with fewer sessions are marked as small: their intervals say little."""

DRAWS = 1000

_DRAWN_AT_ONCE = 2_000_000

_FEWEST_DRAWS, _MOST_DRAWS, _SAMPLE_WORK = 20, 200, 3e7
"""Resamples of a sample's figures: as many as take about this many steps."""


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


def sampling_units(loaded: Any) -> NDArray[np.int64]:
    """The unit that each request is drawn with, as a code: its top-level session, or the request if it has none."""
    family = family_codes(loaded)
    alone = family < 0
    units: NDArray[np.int64] = np.where(alone, family.max(initial=-1) + np.cumsum(alone), family)
    return units


def ratio_intervals(
    part: NDArray[Any], whole: NDArray[Any], unit: NDArray[Any], seed: int = 0, draws: int = DRAWS
) -> list[Interval | None]:
    """Intervals of Σ part / Σ whole per column. All columns use the same draws of units, with replacement.

    Args:
        part, whole: float[n, k], a row per request, or per anything else that belongs to one unit.
        unit: int[n], code of the unit that each row belongs to. The draws depend only on the order of the codes.
        seed: of the draws.
        draws: number of resamples.

    Returns:
        One interval per column; None where there are fewer than two units or nothing to divide by.
    """
    codes, place = np.unique(np.asarray(unit, np.int64), return_inverse=True)
    count, columns = len(codes), part.shape[1]
    parts, wholes = (_sums(values, place.reshape(-1), count) for values in (part, whole))
    if count < 2 or not columns:
        return [None] * columns
    rates = np.full((draws, columns), np.nan)
    done = 0
    for weight in _drawn(count, draws, seed):
        below = weight @ wholes
        np.divide(weight @ parts, below, out=rates[done : done + len(weight)], where=below > 0)
        done += len(weight)
    intervals: list[Interval | None] = []
    for column in range(columns):
        drawn_rates = rates[~np.isnan(rates[:, column]), column]
        ends = np.quantile(drawn_rates, [0.025, 0.975]).tolist() if drawn_rates.size else None
        intervals.append(None if ends is None else Interval(*ends))
    return intervals


def sample_intervals(
    ordered: NDArray[np.float64], unit: NDArray[Any], quantiles: tuple[float, ...], seed: int = 0
) -> list[Interval]:
    """Intervals of the mean of a sample and of its quantiles, the mean first.

    Args:
        ordered: float[n], at least one value, ascending.
        unit: int[n], dense codes of the unit that each value belongs to.
        quantiles: probabilities, ascending.
        seed: of the draws.
    """
    draws = int(np.clip(_SAMPLE_WORK / len(ordered), _FEWEST_DRAWS, _MOST_DRAWS))
    figures = np.empty((draws, 1 + len(quantiles)))
    done = 0
    for weight in _drawn(int(unit.max()) + 1, draws, seed):
        _weighted_figures(ordered, unit, weight, np.array(quantiles), figures[done : done + len(weight)])
        done += len(weight)
    return [Interval(*ends) for ends in np.quantile(figures, [0.025, 0.975], axis=0).T.tolist()]


def _drawn(count: int, draws: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """How often each of `count` units is drawn in each resample, float64[some resamples, count] at a time."""
    rng = np.random.default_rng(seed)
    step = max(1, _DRAWN_AT_ONCE // count)
    for first in range(0, draws, step):
        some = min(step, draws - first)
        drawn = rng.integers(0, count, (some, count)) + np.arange(some)[:, None] * count
        yield np.bincount(drawn.ravel(), minlength=some * count).reshape(some, count).astype(np.float64)


@njit(cache=True)
def _weighted_figures(ordered: Any, unit: Any, weight: Any, quantiles: Any, out: Any) -> None:
    """Mean and quantiles of the sorted values in each resample, where each weighs what its unit does."""
    for draw in range(len(weight)):
        total, whole = 0.0, 0.0
        for i in range(ordered.size):
            w = weight[draw, unit[i]]
            total += w
            whole += w * ordered[i]
        out[draw, 0] = whole / total
        # Each quantile is the first value at which the weights reach its share of the total.
        running, place = 0.0, 0
        for i in range(ordered.size):
            running += weight[draw, unit[i]]
            while place < quantiles.size and running >= quantiles[place] * total:
                out[draw, 1 + place] = ordered[i]
                place += 1
            if place == quantiles.size:
                break


def ratio_interval(part: NDArray[Any], whole: NDArray[Any], unit: NDArray[Any], seed: int = 0) -> Interval | None:
    """`ratio_intervals` of one column: float[n]."""
    return ratio_intervals(part[:, None], whole[:, None], unit, seed)[0]


def rates_by_group(frame: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """Rates of each group with their intervals.

    Args:
        frame: a row per request: group, unit (`sampling_units`), hit, prefix_tokens.
        seed: of the draws.

    Returns:
        group, sessions (units), small (fewer than `SMALL_SESSIONS` of them), rate (token-weighted), low, high,
        rate_per_request (mean over requests), rate_by_compute (each request weighs what attention over it costs:
        hit pairs h² over n², since a token attends to all before it).
    """
    rows = []
    for (group,), part in frame.group_by("group", maintain_order=True):
        n, h = (part[name].to_numpy().astype(np.float64) for name in ("prefix_tokens", "hit"))
        unit = part["unit"].to_numpy()
        sessions = len(np.unique(unit))
        interval = ratio_interval(h, n, unit, seed)
        some = n > 0
        rows.append(
            {
                "group": group,
                "sessions": sessions,
                "small": sessions < SMALL_SESSIONS,
                "rate": float(h.sum() / n.sum()) if n.sum() else None,
                "low": interval and interval.low,
                "high": interval and interval.high,
                "rate_per_request": float(np.mean(h[some] / n[some])) if some.any() else None,
                "rate_by_compute": float((h**2).sum() / (n**2).sum()) if some.any() else None,
            }
        )
    schema = {"group": pl.String, "sessions": pl.Int64, "small": pl.Boolean} | dict.fromkeys(
        ("rate", "low", "high", "rate_per_request", "rate_by_compute"), pl.Float64
    )
    return pl.DataFrame(rows, schema=schema)


def _sums(values: NDArray[Any], place: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Column sums by unit: float64[units, k]."""
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, place, np.asarray(values, np.float64))
    return sums
