"""The trace as families of turns: what an admission rule needs to know of them, whenever sessions start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.store.arrivals import families_of
from analysis.store.facts import arrival_inputs
from analysis.store.question import BadQuestion
from analysis.store.warehouse import Warehouse


class Turns(NamedTuple):
    """The requests of f families (a top-level session with its sub-agents), by family, then by time in the family.

    Attributes:
        row: int64[r], row of each request.
        first: int64[f + 1], where each family's requests begin.
        inside_s: float64[r], arrival since the family's start.
        duration_s: float64[r], from arrival to the end of the reply; 0 where unknown.
        live_tokens: int64[r], tokens of the family's sessions once the request has arrived: the last prompt and reply
            of each session that has begun and not ended. Prefixes that its sessions share count once for each.
        took_s: float64[f], from a family's start to the end of its last reply.
    """

    row: NDArray[np.int64]
    first: NDArray[np.int64]
    inside_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    live_tokens: NDArray[np.int64]
    took_s: NDArray[np.float64]

    @property
    def families(self) -> int:
        """How many there are."""
        return len(self.took_s)


def turns(warehouse: Warehouse) -> Turns:
    """The requests whose prompt and time are known, as turns.

    Raises:
        BadQuestion: a request has no time, so that none could be placed.
    """
    loaded = warehouse.loaded()
    sessions, requests = arrival_inputs(loaded)
    family, zero = families_of(sessions, requests)
    inside = np.asarray(requests.recorded_s, np.float64) - zero[family]
    if np.isnan(inside).any():
        raise BadQuestion("sessions at once need the times of all requests, and some of this dataset have none")
    tree = loaded.tree
    prompt = np.where(loaded.leaf >= 0, np.asarray(tree.end)[np.maximum(loaded.leaf, 0)], 0)
    tokens = prompt + loaded.requests["output_tokens"].fill_null(0).to_numpy()
    duration = np.nan_to_num(np.asarray(requests.duration_s, np.float64), nan=0.0)
    order = np.lexsort((requests.ordinal, inside, family))
    family, inside, duration = family[order], inside[order], duration[order]
    count = int(family.max()) + 1 if len(family) else 0
    first = np.searchsorted(family, np.arange(count + 1))
    took = np.zeros(count)
    np.maximum.at(took, family, inside + duration)
    live = _live(family, np.asarray(requests.session)[order], tokens[order])
    return Turns(order.astype(np.int64), first, inside, duration, live, took)


def _live(family: NDArray[np.int64], session: NDArray[np.int64], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """`Turns.live_tokens`: a session counts from its first request to its last one."""
    last = np.zeros(int(session.max()) + 1 if len(session) else 0, np.int64)
    last[session] = np.arange(len(session))  # the last write of each session stays
    live = np.zeros(len(session), np.int64)
    held: dict[int, int] = {}
    ended: list[int] = []
    total = 0
    for i in range(len(session)):
        # a new family, or a session that ended before this request, holds nothing
        if i and family[i] != family[i - 1]:
            held, ended, total = {}, [], 0
        for s in ended:
            total -= held.pop(s, 0)
        ended = []
        own = int(session[i])
        total += int(tokens[i]) - held.get(own, 0)
        held[own] = int(tokens[i])
        if last[own] == i:
            ended.append(own)
        live[i] = total
    return live
