"""When requests arrive: as recorded, or by a model that keeps the times inside each session.

A model moves *families*: a top-level session with all its sub-agents. Within a family all distances in time stay as
they were.
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FORMS = "recorded | staggered:SECONDS | poisson:PER_HOUR[:SEED] | closed:LANES"


class Arrivals(NamedTuple):
    """An arrival model.

    Attributes:
        kind: recorded | staggered | poisson | closed.
        value: seconds between sessions (staggered), sessions per hour (poisson), lanes (closed); 0 for recorded.
        seed: of the Poisson gaps.
    """

    kind: str = "recorded"
    value: float = 0.0
    seed: int = 0

    def __str__(self) -> str:
        if self.kind == "recorded":
            return self.kind
        value = int(self.value) if self.value.is_integer() else self.value
        return f"{self.kind}:{value}" + (f":{self.seed}" if self.kind == "poisson" else "")


class Sessions(NamedTuple):
    """What an arrival model needs to know about s sessions.

    Attributes:
        parent: int[s], session code of the parent; -1 none.
        input_rank: int[s], position of the session's input in name order.
        first_ordinal: int[s], number of the session's first record in its input.
        relative: bool[s], times count from the start of the top-level session, not from one clock for all.
    """

    parent: NDArray[Any]
    input_rank: NDArray[Any]
    first_ordinal: NDArray[Any]
    relative: NDArray[Any]


class Requests(NamedTuple):
    """What an arrival model needs to know about r requests.

    Attributes:
        recorded_s: float[r], recorded arrival in seconds; NaN unknown.
        session: int[r], session code; -1 none (the request is a family of its own).
        duration_s: float[r], seconds from arrival to the end of the reply; NaN unknown.
        ordinal: int[r], record in the input.
        input_rank: int[r], position of the input in name order.
    """

    recorded_s: NDArray[Any]
    session: NDArray[Any]
    duration_s: NDArray[Any]
    ordinal: NDArray[Any]
    input_rank: NDArray[Any]


def parse(text: str) -> Arrivals:
    """Read an arrival model as users write it.

    Raises:
        ValueError: no such model; the message lists the forms.
    """
    kind, *rest = text.strip().split(":")
    try:
        if kind == "recorded" and not rest:
            return Arrivals()
        if kind == "staggered" and len(rest) == 1 and 0 <= (gap := float(rest[0])) < math.inf:
            return Arrivals(kind, gap)
        if kind == "poisson" and len(rest) in (1, 2) and 0 < (rate := float(rest[0])) < math.inf:
            seed = int(rest[1]) if len(rest) == 2 else 0
            if seed >= 0:
                return Arrivals(kind, rate, seed)
        if kind == "closed" and len(rest) == 1 and (lanes := int(rest[0])) >= 1:
            return Arrivals(kind, float(lanes))
    except ValueError:
        pass  # not a number: reported below
    raise ValueError(f"unknown arrival model {text!r}; the forms are {FORMS}, for example staggered:600")


def needs_model(sessions: Sessions) -> bool:
    """Whether recorded times cannot be compared across sessions, because several top-level sessions all start at 0."""
    top = np.asarray(sessions.parent) < 0
    return int(np.count_nonzero(top & np.asarray(sessions.relative, dtype=bool))) > 1


def apply(model: Arrivals, sessions: Sessions, requests: Requests) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Arrival times under a model, and the rows in arrival order.

    Returns:
        float64[r], seconds (NaN where the recorded time is unknown), and int64[r], rows by ascending arrival, ties by
        input name, then record; unknown arrivals last.

    Raises:
        ValueError: parents of sessions form a cycle.
    """
    arrival = np.array(requests.recorded_s, dtype=np.float64)
    if model.kind != "recorded" and len(arrival):
        family, offset = families_of(sessions, requests)
        inside = arrival - offset[family]
        arrival = (
            inside
            + _starts(model, family, inside, np.asarray(requests.duration_s, dtype=np.float64), len(offset))[family]
        )
    return arrival, arrival_order(arrival, requests.input_rank, requests.ordinal)


def arrival_order(arrival_s: NDArray[Any], input_rank: NDArray[Any], ordinal: NDArray[Any]) -> NDArray[np.int64]:
    """Rows by ascending arrival, ties by input, then record, then row; NaN last. int64[r]."""
    arrival, rank, record = (np.asarray(values) for values in (arrival_s, input_rank, ordinal))
    later = (rank[1:] > rank[:-1]) | ((rank[1:] == rank[:-1]) & (record[1:] >= record[:-1]))
    if later.all():  # rows in the order of ingest: one stable sort suffices, linear if times ascend too
        return np.argsort(arrival, kind="stable").astype(np.int64)
    return np.lexsort((record, rank, arrival)).astype(np.int64)


def families_of(sessions: Sessions, requests: Requests) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Family of each request, numbered in input-name order, and the recorded time that is each family's zero.

    Raises:
        ValueError: parents of sessions form a cycle.
    """
    parent = np.asarray(sessions.parent, dtype=np.int64)
    own = np.arange(len(parent))
    root = np.where(parent < 0, own, parent)
    for _ in range(len(parent).bit_length() + 1):
        root = root[root]
    if np.any(parent[root] >= 0):
        raise ValueError(
            f"session {int(root[parent[root] >= 0][0])} is its own ancestor: parents of sessions form a cycle"
        )
    session = np.asarray(requests.session, dtype=np.int64)
    alone = np.flatnonzero(session < 0)
    top = np.empty(len(session), np.int64)
    top[session >= 0] = root[session[session >= 0]]
    top[alone] = len(parent) + np.arange(len(alone))
    rank = np.concatenate([np.asarray(sessions.input_rank), np.asarray(requests.input_rank)[alone]])
    ordinal = np.concatenate([np.asarray(sessions.first_ordinal), np.asarray(requests.ordinal)[alone]])
    relative = np.concatenate([np.asarray(sessions.relative, dtype=bool), np.zeros(len(alone), bool)])

    present = np.unique(top)  # a session without requests gets no start
    present = present[np.lexsort((present, ordinal[present], rank[present]))]
    number = np.full(len(rank), -1, np.int64)
    number[present] = np.arange(len(present))
    family = number[top]

    recorded = np.asarray(requests.recorded_s, dtype=np.float64)
    first = np.full(len(present), np.inf)
    own_first = first.copy()
    known = ~np.isnan(recorded)
    np.minimum.at(first, family[known], recorded[known])
    of_top = known & ((session == top) | (session < 0))
    np.minimum.at(own_first, family[of_top], recorded[of_top])
    zero = np.where(np.isfinite(own_first), own_first, np.where(np.isfinite(first), first, 0.0))
    return family, np.where(relative[present], 0.0, zero)


def _starts(
    model: Arrivals,
    family: NDArray[np.int64],
    inside_s: NDArray[np.float64],
    duration_s: NDArray[np.float64],
    families: int,
) -> NDArray[np.float64]:
    """When each family starts, in seconds."""
    if model.kind == "staggered":
        return np.arange(families, dtype=np.float64) * model.value
    if model.kind == "poisson":
        gaps = np.random.default_rng(model.seed).exponential(3600 / model.value, size=max(families - 1, 0))
        return np.asarray(np.concatenate([[0.0], np.cumsum(gaps)])[:families], dtype=np.float64)
    took = np.zeros(families)
    end = inside_s + np.where(np.isnan(duration_s), 0.0, duration_s)
    known = ~np.isnan(end)
    np.maximum.at(took, family[known], end[known])
    lanes = [0.0] * min(int(model.value), families)
    start = np.zeros(families)
    for k in range(families):
        start[k] = lanes[0]
        heapq.heapreplace(lanes, lanes[0] + took[k])
    return start
