"""Lognormals between two bounds with a given mean and median, as AIPerf's generators draw them."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_POINTS = 4001
_Z = np.array([NormalDist().inv_cdf((i + 0.5) / _POINTS) for i in range(_POINTS)])
_SIGMAS = np.concatenate([np.linspace(0.02, 1.0, 25), np.linspace(1.1, 4.0, 30)])


class Lognormal(NamedTuple):
    """exp(mu + sigma z); draws outside low to high are drawn again."""

    mu: float
    sigma: float
    low: float
    high: float

    def sample(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at the normal scores `z`, without those out of bounds."""
        values = np.exp(np.clip(self.mu + self.sigma * z, -60.0, 60.0))
        return np.asarray(values[(values >= self.low) & (values <= self.high)])

    def figures(self, floor: float = 0.0) -> tuple[float, float]:
        """Mean and median, with values below `floor` raised to it; NaN if no value is inside the bounds."""
        values = self.sample(_Z)
        if not values.size:
            return math.nan, math.nan
        raised = np.maximum(values, floor)
        return float(raised.mean()), float(np.median(raised))

    def document(self, digits: int = 6) -> dict[str, float]:
        """As AIPerf reads it: mean and median are those of the unbounded lognormal."""
        return {
            "mu": round(self.mu, digits),
            "sigma": round(self.sigma, digits),
            "mean": float(f"{math.exp(self.mu + self.sigma**2 / 2):.8g}"),
            "median": float(f"{math.exp(self.mu):.8g}"),
            "min": round(self.low, digits),
            "max": round(self.high, digits),
        }


def standard() -> NDArray[np.float64]:
    """Normal scores spread evenly over all probabilities."""
    return _Z


def fitted(mean: float, median: float, low: float, high: float, floor: float = 0.0) -> Lognormal:
    """The bounded lognormal whose mean and median are nearest to the given ones.

    Args:
        mean, median: targets for its draws.
        low, high: bounds, 0 < low <= high.
        floor: values below it are raised to it after drawing.
    """
    low = max(low, 1e-6)
    high = max(high, low * (1 + 1e-9))
    median = min(max(median, low, floor), high)
    best, least = Lognormal(math.log(median), 0.0, low, high), abs(median - mean) / max(mean, 1e-300)
    for sigma in _SIGMAS.tolist():
        found = _with_median(sigma, median, low, high, floor)
        error = abs(found.figures(floor)[0] - mean) / max(mean, 1e-300)
        if error < least:
            best, least = found, error
    step = 0.05
    while step > 1e-4:  # refine around the best of the grid
        for sigma in (best.sigma - step, best.sigma + step):
            if sigma > 0:
                found = _with_median(sigma, median, low, high, floor)
                error = abs(found.figures(floor)[0] - mean) / max(mean, 1e-300)
                if error < least:
                    best, least = found, error
        step /= 2
    return best


def _with_median(sigma: float, median: float, low: float, high: float, floor: float) -> Lognormal:
    """The lognormal with this sigma and this median inside the bounds."""
    under, over = math.log(low) - 6 * sigma, math.log(high) + 6 * sigma
    found = Lognormal(math.log(median), sigma, low, high)
    for _ in range(30):
        middle = (under + over) / 2
        found = Lognormal(middle, sigma, low, high)
        got = found.figures(floor)[1]
        if math.isnan(got):
            got = low if middle < math.log(median) else high
        if got < median:
            under = middle
        else:
            over = middle
    return found
