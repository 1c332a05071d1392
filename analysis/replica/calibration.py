"""Measured points in place of assumed efficiencies: a straight line through (work, seconds)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Calibration(NamedTuple):
    """seconds = fixed_s + work / rate. Errors are |predicted / measured - 1| over the points used."""

    rate: float
    fixed_s: float
    error_p50: float
    error_p90: float
    points: int

    def seconds(self, work: float) -> float:
        """Predicted seconds for an amount of work, in the unit of the calibration."""
        return self.fixed_s + work / self.rate

    def share_of(self, peak: float) -> float:
        """The efficiency: rate over the peak rate, for example MFU or bandwidth efficiency."""
        return self.rate / peak


def calibrate(work: tuple[float, float], seconds: tuple[float, float]) -> Calibration:
    """From two measured points: prefill FLOPs at two lengths, or bytes of a step at two batches.

    Raises:
        ValueError: the points do not determine a positive rate, or give a negative fixed time.
    """
    (w0, t0), (w1, t1) = sorted(zip(work, seconds, strict=True))
    if w0 == w1:
        raise ValueError("the two points do the same work: measure at two different lengths or batches")
    if min(t0, t1) <= 0 or w0 < 0:
        raise ValueError("measured seconds must be above 0 and work at least 0")
    if t1 <= t0:
        raise ValueError(
            f"more work took no longer ({t0:g} s for {w0:g}, {t1:g} s for {w1:g}): measure again, further apart"
        )
    rate = (w1 - w0) / (t1 - t0)
    fixed = t0 - w0 / rate
    if fixed < 0:
        raise ValueError(
            f"the points imply a fixed time of {fixed:g} s: time grows faster than work, measure at larger sizes"
        )
    return Calibration(rate, fixed, 0.0, 0.0, 2)


def calibrate_trace(work: NDArray[np.float64], seconds: NDArray[np.float64], min_points: int = 20) -> Calibration:
    """From a trace: one (work, seconds) pair per request, for example remaining prefill FLOPs and TTFT.

    Least squares on relative error, fitted again without the worst tenth of the points (queueing makes a heavy tail).
    If the fixed time is below 0, the line is fitted through the origin. Pairs with a NaN, no work or no time are left
    out.

    Raises:
        ValueError: fewer than `min_points` usable pairs, or no positive rate.
    """
    usable = np.isfinite(work) & np.isfinite(seconds) & (work > 0) & (seconds > 0)
    w, t = work[usable], seconds[usable]
    if len(w) < min_points:
        raise ValueError(f"calibration needs {min_points} requests with known work and time, found {len(w)}")
    fixed, slope = _fit(w, t)
    miss = np.abs((fixed + slope * w) / t - 1)
    keep = miss <= np.quantile(miss, 0.9)
    fixed, slope = _fit(w[keep], t[keep])
    if fixed < 0:
        fixed, slope = 0.0, float(np.median(t[keep] / w[keep]))
    if not slope > 0:
        raise ValueError("time does not grow with work in this trace: it measures something else, such as queueing")
    error = np.abs((fixed + slope * w) / t - 1)
    return Calibration(1 / slope, fixed, float(np.quantile(error, 0.5)), float(np.quantile(error, 0.9)), len(w))


def _fit(w: NDArray[np.float64], t: NDArray[np.float64]) -> tuple[float, float]:
    scale = float(w.mean())
    rows = np.stack([1 / t, w / scale / t], axis=1)
    solution = np.linalg.lstsq(rows, np.ones_like(t), rcond=None)[0]
    return float(solution[0]), float(solution[1]) / scale
