"""Numbers of turns as AIPerf draws them: rounded draws from a lognormal with integer mean and median, inside bounds."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.export.planners.profiles.bounded_lognormal import Lognormal, standard


class Turns(NamedTuple):
    """Whole numbers, min <= median <= mean <= max."""

    mean: int
    median: int
    min: int
    max: int

    def shape(self) -> Lognormal:
        """The lognormal that is drawn from."""
        sigma = math.sqrt(2 * math.log(self.mean / self.median))
        return Lognormal(math.log(self.median), sigma, float(self.min), float(self.max))

    def figures(self) -> tuple[float, float, float]:
        """Mean, median and p90 of the draws; NaN if no draw is inside the bounds."""
        values = np.clip(np.round(self.shape().sample(standard())), self.min, self.max)
        if not values.size:
            return math.nan, math.nan, math.nan
        return float(values.mean()), float(np.median(values)), float(np.quantile(values, 0.9))

    def drawn(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """`count` numbers of turns."""
        values = self.shape().sample(standard())
        if not values.size:
            values = np.array([float(self.median)])
        even = (random.permutation(count) + random.random(count)) / count * values.size
        return np.clip(np.round(values[even.astype(np.int64)]), self.min, self.max)


def fitted_turns(mean: float, median: float, p90: float, low: int, high: int) -> Turns:
    """The parameters whose draws come nearest to the given mean and median, found by trying integers around them.

    If several are about equally near, the one with the nearest p90.
    """
    asked = (max(mean, 1.0), max(median, 1.0), max(p90, 1.0))
    middle = min(max(round(median), low), high)
    best = Turns(min(max(round(mean), middle), high), middle, low, high)
    least, step = _error(best, asked), max(1, high // 4)
    while True:
        better = False
        for a, b, c in itertools.product((-step, 0, step), repeat=3):
            found = Turns(best.mean + a, best.median + b, low, best.max + c)
            if low <= found.median <= found.mean <= found.max <= high:
                error = _error(found, asked)
                if error < least - 1e-12:
                    best, least, better = found, error, True
        if not better:
            if step == 1:
                return best
            step //= 2


def _error(turns: Turns, asked: tuple[float, float, float]) -> float:
    """Sum of the relative errors, the p90's with weight 1/20; infinite if there are no draws."""
    mean, median, p90 = (abs(got / want - 1) for got, want in zip(turns.figures(), asked, strict=True))
    return math.inf if math.isnan(mean) else mean + median + 0.05 * p90
