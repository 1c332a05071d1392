"""ISL/OSL/prefix buckets for planners that take scalars, because one mean hides that requests are short and long."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST, LEAST = 5, 3
_ROUNDS = 50


def buckets(
    inputs: NDArray[Any], outputs: NDArray[Any], cached: NDArray[Any], most: int = MOST
) -> list[dict[str, Any]]:
    """Split requests by input length into up to `most` buckets and average each.

    Args:
        inputs: float[n], input tokens; NaN unknown (left out).
        outputs: float[n], output tokens; NaN unknown.
        cached: float[n], input tokens that an unbounded cache would hold; NaN unknown.
        most: the largest number of buckets; there are fewer if inputs have fewer distinct values.

    Returns:
        Ascending buckets: weight (share of requests, adding up to 1), from and to (input tokens), isl, osl and prefix
        (mean tokens; None unknown). Edges are those of k-means on the logarithm of the input length.
    """
    known = ~np.isnan(inputs) & (inputs > 0)
    isl, osl, prefix = inputs[known], outputs[known], cached[known]
    if not isl.size:
        return []
    logs = np.log(isl)
    centres = np.unique(np.quantile(logs, (np.arange(most) + 0.5) / most))
    for _ in range(_ROUNDS):
        edges = (centres[1:] + centres[:-1]) / 2
        place = np.searchsorted(edges, logs, side="right")
        sums, counts = np.bincount(place, logs, centres.size), np.bincount(place, minlength=centres.size)
        moved = (sums / np.maximum(counts, 1))[counts > 0]
        if moved.size == centres.size and np.allclose(moved, centres):
            break
        centres = moved
    place = np.searchsorted((centres[1:] + centres[:-1]) / 2, logs, side="right")
    found = []
    for b in range(centres.size):
        chosen = place == b
        if chosen.any():
            found.append(
                {
                    "weight": float(chosen.mean()),
                    "from": int(isl[chosen].min()),
                    "to": int(isl[chosen].max()),
                    "isl": float(isl[chosen].mean()),
                    "osl": _mean(osl[chosen]),
                    "prefix": _mean(prefix[chosen]),
                }
            )
    return found


def _mean(values: NDArray[Any]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
