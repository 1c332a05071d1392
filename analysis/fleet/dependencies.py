"""When requests arrive if sessions wait for their answers: a closed loop derived from recorded times."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.replay.books import ABSOLUTE, AFTER_ARRIVAL, AFTER_FINISH, AFTER_SESSION
from traces.tree.compiled import njit


class Dependencies(NamedTuple):
    """When each of r requests (in arrival order) arrives; the fields are those of `replay.loop.Arrivals`."""

    arrival_s: NDArray[np.float64]
    kind: NDArray[np.int64]
    after: NDArray[np.int64]
    delay_s: NDArray[np.float64]
    first: NDArray[np.int64]
    dependants: NDArray[np.int64]
    backlog: NDArray[np.int64]


def open_loop(arrival_s: NDArray[Any]) -> Dependencies:
    """Every request arrives at its recorded time, independent of the replay."""
    requests = len(arrival_s)
    none = np.full(requests, -1, np.int64)
    return Dependencies(
        np.ascontiguousarray(arrival_s, np.float64),
        np.full(requests, ABSOLUTE, np.int64),
        none,
        np.zeros(requests),
        np.zeros(requests + 1, np.int64),
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
    )


def closed_loop(
    chain: NDArray[Any], arrival_s: NDArray[Any], duration_s: NDArray[Any], population: int | None = None
) -> Dependencies:
    """A request follows the answer it followed in the recording, after the recorded gap.

    That answer is the latest of its chain that had ended at the recorded arrival. If none had ended, the request
    follows the arrival of the chain's first request after the recorded time between the two.

    Args:
        chain: int[r], which requests wait for each other: the session, or the top-level session with its sub-agents.
        arrival_s: float[r], ascending.
        duration_s: float[r]; if unknown (NaN), the request is assumed to end at its arrival.
        population: number of sessions at once. The first ones start together, and the next session in order starts when
            one ends. None: all start at their recorded times.

    Raises:
        ValueError: arrival times are unknown, or the population is below 1.
    """
    if len(arrival_s) and np.isnan(arrival_s).any():
        raise ValueError("a closed loop needs arrival times: choose an arrival model")
    if population is not None and population < 1:
        raise ValueError(f"a closed loop of {population} sessions is empty; give at least 1")
    grouped = np.argsort(chain, kind="stable")
    ends = arrival_s + np.where(np.isnan(duration_s), 0.0, duration_s)
    kind, after, delay = _follow(np.asarray(chain, np.int64), np.asarray(arrival_s, np.float64), ends, grouped)
    backlog = np.zeros(0, np.int64)
    if population is not None:
        starts = np.flatnonzero(kind == ABSOLUTE)
        backlog = starts[population:]
        kind[backlog] = AFTER_SESSION
        arrival_s = np.full(len(arrival_s), arrival_s[0] if len(arrival_s) else 0.0)
    counts = np.bincount(after[after >= 0], minlength=len(chain)) if len(chain) else np.zeros(0, np.int64)
    waiting = np.argsort(after, kind="stable")[np.count_nonzero(after < 0) :]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Dependencies(np.ascontiguousarray(arrival_s, np.float64), kind, after, delay, first, waiting, backlog)


@njit(cache=True)
def _follow(chain: Any, arrival_s: Any, ends: Any, grouped: Any) -> Any:
    n = len(chain)
    kind = np.full(n, ABSOLUTE, np.int64)
    after = np.full(n, -1, np.int64)
    delay = np.zeros(n)
    running = np.empty(n, np.int64)
    k = 0
    while k < n:
        first = grouped[k]
        size = 0
        latest = -1
        while k < n and chain[grouped[k]] == chain[first]:
            i = grouped[k]
            k += 1
            kept = 0
            for j in range(size):
                other = running[j]
                if ends[other] <= arrival_s[i]:
                    if latest < 0 or ends[other] >= ends[latest]:
                        latest = other
                else:
                    running[kept] = other
                    kept += 1
            size = kept
            if latest >= 0:
                kind[i] = AFTER_FINISH
                after[i] = latest
                delay[i] = arrival_s[i] - ends[latest]
            elif i != first:
                kind[i] = AFTER_ARRIVAL
                after[i] = first
                delay[i] = arrival_s[i] - arrival_s[first]
            running[size] = i
            size += 1
    return kind, after, delay
