"""The effect of chance alone: sessions placed uniformly at random on replicas, and the sampling band of the load's
dispersion.

Compared with a policy's figures, this separates chance from policy. Exact: binomial for one given replica, multinomial
for any of n.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Placement(NamedTuple):
    """S sessions placed uniformly and independently on n replicas.

    Attributes:
        replicas, sessions: n and S.
        low, high: the loads asked about.
        one_at_most_low, one_at_least_high: probability that one given replica has <= low (>= high) sessions: the
            long-run share of replicas, whatever the number of replicas.
        any_at_most_low, any_at_least_high: probability that some replica does; it tends to 1 as replicas are added.
        poisson_at_most_low, poisson_at_least_high: the Poisson approximation of the first two.
        expected_at_most_low, expected_at_least_high: replicas expected there.
        max_mean, max_p50: the fullest replica.
        vmr: variance over mean of one replica's load, 1 - 1 / n.
        vmr_band: 95 % band of the sample variance over the mean, from one look at n replicas; None for one replica.
    """

    replicas: int
    sessions: int
    low: int
    high: int
    one_at_most_low: float
    one_at_least_high: float
    any_at_most_low: float
    any_at_least_high: float
    poisson_at_most_low: float
    poisson_at_least_high: float
    expected_at_most_low: float
    expected_at_least_high: float
    max_mean: float
    max_p50: int
    vmr: float
    vmr_band: tuple[float, float] | None


def uniform_placement(replicas: int, sessions: int, low: int = 1, high: int = 12) -> Placement:
    """What uniform random placement of `sessions` (in all) on `replicas` does.

    Raises:
        ValueError: fewer than 1 replica, or a negative number of sessions.
    """
    if replicas < 1 or sessions < 0:
        raise ValueError(f"placement needs at least 1 replica and no negative sessions, not {replicas} and {sessions}")
    one = binomial(sessions, 1 / replicas)
    poisson = _poisson(sessions / replicas, sessions)
    most = np.ones(sessions + 1)
    for k in range(sessions + 1):
        most[k] = _all_within(replicas, poisson, 0, k)
        if most[k] > 1 - 1e-12:
            break  # the rest is 1: fuller replicas are that unlikely
    at_most, at_least = float(one[: low + 1].sum()), float(one[high:].sum())
    return Placement(
        replicas,
        sessions,
        low,
        high,
        at_most,
        at_least,
        1 - _all_within(replicas, poisson, low + 1, sessions),
        1 - (float(most[high - 1]) if high <= sessions else 1.0) if high > 0 else 1.0,
        float(poisson[: low + 1].sum()),
        1 - float(poisson[:high].sum()),
        replicas * at_most,
        replicas * at_least,
        float((1 - most).sum()),
        int(np.argmax(most >= 0.5)),
        1 - 1 / replicas,
        vmr_band(replicas),
    )


def binomial(trials: int, chance: float) -> NDArray[np.float64]:
    """float64[trials + 1], probabilities of 0, 1, ... successes."""
    if chance >= 1:
        return np.eye(1, trials + 1, trials)[0]
    k = np.arange(trials + 1)
    choose = math.lgamma(trials + 1) - np.array([math.lgamma(i + 1) + math.lgamma(trials - i + 1) for i in k])
    probabilities: NDArray[np.float64] = np.exp(choose + k * math.log(chance) + (trials - k) * math.log1p(-chance))
    return probabilities


def _poisson(mean: float, most: int) -> NDArray[np.float64]:
    if mean == 0:
        return np.eye(1, most + 1)[0]
    k = np.arange(most + 1)
    probabilities: NDArray[np.float64] = np.exp(k * math.log(mean) - mean - np.array([math.lgamma(i + 1) for i in k]))
    return probabilities


def _all_within(replicas: int, poisson: NDArray[np.float64], low: int, high: int) -> float:
    """Probability that every replica has between `low` and `high` sessions; `poisson` is the law of one, up to all.

    A multinomial is independent Poissons given their sum: the n-fold convolution of the Poisson cut to [low, high],
    at S, over the probability of the sum being S. The convolution is the n-th power of a discrete Fourier transform,
    long enough that the sums that wrap around onto S have no weight.
    """
    sessions = len(poisson) - 1
    if low > high or low * replicas > sessions or high * replicas < sessions:
        return 0.0
    place = np.arange(sessions + 1)
    laws = np.stack([poisson * ((place >= low) & (place <= high)), poisson])  # the sum of uncut ones divides
    length = 2 * sessions + 64
    cut, whole = np.fft.irfft(np.fft.rfft(laws, length) ** replicas, length)[:, sessions]
    return float(np.clip(cut / whole, 0.0, 1.0))


def vmr_band(replicas: int, level: float = 0.95) -> tuple[float, float] | None:
    """Band of the sample variance over the mean of n Poisson loads: chi-squared with n - 1 degrees of freedom over n
    - 1.

    It is what one look shows; time-averaged figures scatter less. None for one replica, whose dispersion is not
    defined.
    """
    if replicas < 2:
        return None
    freedom = replicas - 1
    tail = (1 - level) / 2
    return chi_squared(tail, freedom) / freedom, chi_squared(1 - tail, freedom) / freedom


def chi_squared(probability: float, freedom: int) -> float:
    """Quantile of the chi-squared distribution, by bisection of the regularised incomplete gamma function."""
    low, high = 0.0, freedom + 40 * math.sqrt(2 * freedom) + 40
    for _ in range(80):
        middle = (low + high) / 2
        if _lower_gamma(freedom / 2, middle / 2) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _lower_gamma(a: float, x: float) -> float:
    """Regularised lower incomplete gamma P(a, x), by its power series."""
    if x <= 0:
        return 0.0
    term = total = 1 / a
    k = a
    while term > total * 1e-15:
        k += 1
        term *= x / k
        total += term
    return total * math.exp(a * math.log(x) - x - math.lgamma(a))
