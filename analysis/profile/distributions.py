"""A quantity as a profile publishes it: mean and quantiles with intervals, and a fitted distribution with its error."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.headline.bootstrap import sample_intervals

QUANTILES = (0.5, 0.9, 0.99)
LEVELS = np.array(
    [0, 0.005, 0.01, 0.02, *(i / 40 for i in range(1, 40)), 0.98, 0.985, 0.99, 0.9925, 0.995, 0.9975, 0.999, 1]
)
"""Probabilities of the published quantile function, closer together in the tails."""

_NORMAL = NormalDist()


def describe(values: NDArray[Any], session: NDArray[Any], seed: int = 0) -> dict[str, Any] | None:
    """Figures of a sample; None if it is empty.

    Args:
        values: float[n]; NaN is unknown and left out.
        session: int[n], dense session codes: intervals come from resampling whole sessions.
        seed: of the resampling.

    Returns:
        count, mean, min, max, p50, p90, p99, interval {figure: [low, high]} (95 %, bootstrap by session) and fit.
    """
    numbers = np.asarray(values, np.float64)
    known = ~np.isnan(numbers)
    numbers, who = numbers[known], np.asarray(session, np.int64)[known]
    if not numbers.size:
        return None
    order = np.argsort(numbers, kind="stable")
    numbers, who = numbers[order], np.unique(who[order], return_inverse=True)[1].reshape(-1)
    points = np.quantile(numbers, QUANTILES)
    intervals = sample_intervals(numbers, who, QUANTILES, seed)
    names = ["mean", *(f"p{round(q * 100)}" for q in QUANTILES)]
    figures = dict(zip(names, [float(numbers.mean()), *points.tolist()], strict=True))
    return {
        "count": int(numbers.size),
        "sessions": int(who.max()) + 1,
        "min": float(numbers[0]),
        "max": float(numbers[-1]),
        **figures,
        "interval": {name: list(interval) for name, interval in zip(names, intervals, strict=True)},
        "fit": fit(numbers),
    }


def fit(ordered: NDArray[np.float64]) -> dict[str, Any]:
    """The distribution nearest to a sorted sample: constant, lognormal, exponential or normal.

    The parameters come from moments (of the logarithm for lognormal). `error` is the Kolmogorov-Smirnov distance: 0.05
    means that no share of the sample is off by more than five percentage points.
    """
    mean, deviation = float(ordered.mean()), float(ordered.std())
    if deviation == 0:
        return {"family": "constant", "value": mean, "error": 0.0}
    found: list[dict[str, Any]] = [
        {"family": "normal", "mean": mean, "deviation": deviation,
         "error": _distance(ordered, lambda x: _NORMAL.cdf((x - mean) / deviation))}
    ]  # fmt: skip
    if ordered[0] >= 0 and mean > 0:
        found.append({"family": "exponential", "mean": mean,
                      "error": _distance(ordered, lambda x: -math.expm1(-x / mean))})  # fmt: skip
    if ordered[0] > 0:
        logs = np.log(ordered)
        mu, sigma = float(logs.mean()), float(logs.std())
        if sigma > 0:
            found.append({"family": "lognormal", "mu": mu, "sigma": sigma,
                          "error": _distance(ordered, lambda x: _NORMAL.cdf((math.log(x) - mu) / sigma))})  # fmt: skip
    return min(found, key=lambda f: float(f["error"]))


def _distance(ordered: NDArray[np.float64], cdf: Any) -> float:
    """Kolmogorov-Smirnov distance of a sorted sample from a distribution, at up to 1,000 of its points."""
    count = ordered.size
    places = np.unique(np.linspace(0, count - 1, min(count, 1000)).astype(np.int64))
    worst = 0.0
    for place in places.tolist():
        value = float(ordered[place])
        above = np.searchsorted(ordered, value, side="right") / count
        below = np.searchsorted(ordered, value, side="left") / count
        at = cdf(value)
        worst = max(worst, float(above - at), float(at - below))
    return worst


def grid(values: NDArray[Any]) -> list[float] | None:
    """The quantile function of a sample at `LEVELS`; None for an empty sample.

    It contains only values of the sample (the inverted distribution function). It does not interpolate between the
    values of a small sample with a long tail, so its mean stays that of the sample.
    """
    numbers = np.asarray(values, np.float64)
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return None
    return [float(v) for v in np.quantile(numbers, LEVELS, method="inverted_cdf")]


def normal_scores(values: NDArray[Any]) -> NDArray[np.float64]:
    """The standard normal quantiles at the ranks of the values; ties keep their order."""
    rank = np.empty(values.size)
    rank[np.argsort(values, kind="stable")] = np.arange(values.size) + 0.5
    return np.array([_NORMAL.inv_cdf(p) for p in rank / max(1, values.size)])


def persistence(values: NDArray[Any], session: NDArray[Any]) -> float:
    """Correlation inside sessions: of the normal scores of pairs of values of one session, 0 to 0.95."""
    numbers = np.asarray(values, np.float64)
    known = ~np.isnan(numbers)
    numbers = numbers[known]
    if numbers.size < 2:
        return 0.0
    who = np.unique(np.asarray(session)[known], return_inverse=True)[1].reshape(-1)
    score = normal_scores(numbers)
    count = np.bincount(who)
    pairs = float((count * (count - 1)).sum())
    if pairs == 0:
        return 0.0
    sums = np.bincount(who, weights=score)
    return float(np.clip((float((sums**2).sum()) - float((score**2).sum())) / pairs, 0.0, 0.95))
