"""The records of a replay: its inputs, the state of replicas, sessions and requests, and its results."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INSTANT, RECORDED, MODEL = range(3)  # service
AT_ARRIVAL, AT_FINISH = range(2)  # insert
ABSOLUTE, AFTER_FINISH, AFTER_ARRIVAL, AFTER_SESSION = range(4)  # kinds of arrival
SCALE, LOSE, HOT = range(3)  # fleet events
SAMPLES = 512  # of the load over time, at most

REQUEST = np.dtype(
    [("leaf", "i8"), ("tokens", "i8"), ("session", "i8"), ("kind", "i8"), ("after", "i8"), ("output_tokens", "i8")]
)
"""A request: node of its prompt (-1 unknown); prompt tokens; session code; how it arrives (ABSOLUTE at its time,
AFTER_FINISH or AFTER_ARRIVAL of another request plus a delay, AFTER_SESSION when a place is free in a closed
population); that other request; output tokens (-1 unknown)."""
TIMING = np.dtype([("arrival_s", "f8"), ("delay_s", "f8"), ("ttft_s", "f8"), ("duration_s", "f8")])
"""The arrival time of a request if its kind is ABSOLUTE, else its delay; recorded TTFT and duration (NaN unknown)."""
CHOICES = np.dtype(
    [("service", "i8"), ("insert", "i8"), ("most_running", "i8"), ("most_waiting", "i8"), ("pin", "i8"),
     ("keep_outputs", "i8")]
)  # fmt: skip
"""Service; insert (AT_FINISH: a prompt can be hit once it is computed, at its first token, or at its end where that is
unknown); requests admitted and waiting on a replica at most (-1 unlimited; more are refused); pin (what running
requests read is not evicted, and a request waits until its KV fits); keep outputs in the cache."""
SPEED = np.dtype(
    [("prefill_s_per_token", "f8"), ("prefill_s_per_token_pair", "f8"), ("decode_step_s", "f8"),
     ("decode_s_per_request", "f8"), ("decode_s_per_context_token", "f8")]
)  # fmt: skip
"""The service times of `cell.ServiceModel`, in its order."""
CHANGE = np.dtype([("at_s", "f8"), ("kind", "i8"), ("argument", "i8")])
"""A change of the fleet: when, SCALE, LOSE or HOT, and its argument."""
HITS = np.dtype([("hit", "i8"), ("shared_hit", "i8"), ("unbounded_hit", "i8"), ("best", "i8")])
"""Full blocks of a prompt when it was admitted: held by its replica; by the one shared cache; what the replica would
have held if unbounded; held by the best replica."""
TIMES = np.dtype([("arrived_s", "f8"), ("admitted_s", "f8"), ("computed_s", "f8"), ("finished_s", "f8")])
"""When a request arrived, was admitted, had its prompt computed, and finished; NaN: it did not."""
INTEGRALS = np.dtype(
    [("seconds", "f8"), ("running_mean", "f8"), ("running_variance", "f8"), ("sessions_mean", "f8"),
     ("sessions_variance", "f8"), ("sessions_live", "f8"), ("sessions_busy", "f8"), ("end_s", "f8")]
)  # fmt: skip
"""Integrals over the measured window: seconds; mean and variance over replicas of requests in flight, and of live
sessions; live sessions, and those with a request in flight. Then the time of the end."""
COUNTS = np.dtype(
    [("queued", "i8"), ("refused", "i8"), ("moves", "i8"), ("max_running", "i8"), ("max_session_running", "i8"),
     ("unschedulable", "i8"), ("duplicate_blocks", "i8"), ("samples_taken", "i8"), ("done", "i8")]
)  # fmt: skip
"""Requests queued and refused; session moves; most requests in flight on a replica, and of a session; requests too
large for a replica; duplicate blocks; samples; requests done."""
CHANGED = np.dtype(
    [("live_sessions", "i8"), ("moved_sessions", "i8"), ("recomputed_blocks", "i8"), ("replicas_before", "i8"),
     ("replicas_after", "i8")]
)  # fmt: skip
"""The effect of a change of the fleet: live sessions, sessions moved by their next request, blocks that these
recomputed, replicas before and after."""
RUNNING_REQUEST = np.dtype(
    [("run_next", "i8"), ("run_previous", "i8"), ("wait_next", "i8"), ("attempt", "i8"), ("private_blocks", "i8")]
)
"""A request on its replica: the next and the previous one admitted there; the next one waiting there; how often it was
started (an event of an earlier attempt is void); KV blocks that it alone uses."""
REPLICA = np.dtype(
    [("run_first", "i8"), ("wait_first", "i8"), ("wait_last", "i8"), ("private_blocks", "i8"), ("waiting_blocks", "i8"),
     ("admitted", "i8"), ("context_tokens", "i8"), ("prefill_free_s", "f8"), ("changed_s", "f8")]
)  # fmt: skip
"""A replica: the first request admitted, the first and the last waiting (-1: none); KV blocks used by one request
alone; full blocks of the prompts that wait; requests admitted, and their prompt tokens; when all admitted prompts are
computed; when the number of requests in flight last changed."""
SESSION_STATE = np.dtype([("place", "i8"), ("place_blocks", "i8"), ("left", "i8"), ("settled", "i8")])
"""A session: the replica at which it counts (-1 over, -2 not begun), and the blocks it counts there; its requests not
yet finished; changes of the fleet that its routing has seen."""
SUMS = np.dtype(
    [("running", "i8"), ("running_squares", "i8"), ("sessions", "i8"), ("session_squares", "i8"), ("live", "i8"),
     ("busy", "i8"), ("pending", "i8")]
)  # fmt: skip
"""Over the replicas alive: requests in flight and their squares, sessions and their squares. Then live and busy
sessions, and pending events."""
CLOCK = np.dtype([("now_s", "f8"), ("next_sample_s", "f8"), ("sample_gap_s", "f8"), ("started", "f8")])
"""The time; the next sample and the distance between samples; sessions taken from the backlog."""


class Arrivals(NamedTuple):
    """r requests in arrival order.

    Attributes:
        what: REQUEST[r]. when: TIMING[r].
        dependants_first, dependants: int64[r + 1] and the requests that arrive after each request.
        backlog: int64[k], first requests of the sessions that wait for a place, in order.
        of_session, session_first: requests by session, and int64[s + 1] where each session's begin.
    """

    what: NDArray[np.void]
    when: NDArray[np.void]
    dependants_first: NDArray[np.int64]
    dependants: NDArray[np.int64]
    backlog: NDArray[np.int64]
    of_session: NDArray[np.int64]
    session_first: NDArray[np.int64]


class Rules(NamedTuple):
    """How replicas serve.

    Attributes:
        choices: CHOICES[1]. model: SPEED[1].
        window_s: float64[2], load is measured between these times.
        changes: CHANGE[e], in order of time.
    """

    choices: NDArray[np.void]
    model: NDArray[np.void]
    window_s: NDArray[np.float64]
    changes: NDArray[np.void]


class Outcome(NamedTuple):
    """What happened, in arrival order. Blocks are full blocks.

    Attributes:
        replica: int32[r], -1 where the request was refused or never arrived.
        blocks: HITS[r]. times: TIMES[r]. integrals: INTEGRALS[1]. counts: COUNTS[1].
        load_seconds: float64[k], replica seconds with 0, 1, ... requests in flight; the last entry counts k - 1 and
            more.
        sample_s, samples: float64[m], int32[m, R]: requests in flight over time; -1 where the replica is not alive.
        events: CHANGED[e].
    """

    replica: NDArray[np.int32]
    blocks: NDArray[np.void]
    times: NDArray[np.void]
    integrals: NDArray[np.void]
    counts: NDArray[np.void]
    load_seconds: NDArray[np.float64]
    sample_s: NDArray[np.float64]
    samples: NDArray[np.int32]
    events: NDArray[np.void]


class Books(NamedTuple):
    """State that policies cannot see.

    Attributes:
        requests: RUNNING_REQUEST[r]. replicas: REPLICA[R]. sessions: SESSION_STATE[s]. sums: SUMS[1]. clock: CLOCK[1].
        heap_s, heap_key: pending events, a binary heap by time.
        found: int64[4, R + 1], the last look-up (`replica_cache.matches`); column R is the shared cache.
    """

    requests: NDArray[np.void]
    replicas: NDArray[np.void]
    sessions: NDArray[np.void]
    sums: NDArray[np.void]
    clock: NDArray[np.void]
    heap_s: NDArray[np.float64]
    heap_key: NDArray[np.int64]
    found: NDArray[np.int64]


def new_books(arrivals: Arrivals, replicas: int, sessions: int, begin_s: float) -> Books:
    """The state at the start; `begin_s` is the time of the first arrival."""
    rows = len(arrivals.what)
    requests = np.zeros(rows, RUNNING_REQUEST)
    for name in ("run_next", "run_previous", "wait_next"):
        requests[name] = -1
    by_replica = np.zeros(replicas, REPLICA)
    for name in ("run_first", "wait_first", "wait_last"):
        by_replica[name] = -1
    for name in ("prefill_free_s", "changed_s"):
        by_replica[name] = begin_s
    by_session = np.zeros(sessions, SESSION_STATE)
    by_session["place"] = -2
    by_session["left"] = np.diff(arrivals.session_first)
    pending = 3 * rows + len(arrivals.dependants) + 16
    return Books(
        requests,
        by_replica,
        by_session,
        np.zeros(1, SUMS),
        np.array([(begin_s, begin_s, 1.0, 0.0)], CLOCK),
        np.empty(pending),
        np.empty(pending, np.int64),
        np.zeros((4, replicas + 1), np.int64),
    )


def new_outcome(rows: int, replicas: int, changes: int) -> Outcome:
    """An empty outcome."""
    return Outcome(
        np.full(rows, -1, np.int32),
        np.zeros(rows, HITS),
        np.full(rows, np.nan, TIMES),
        np.zeros(1, INTEGRALS),
        np.zeros(1, COUNTS),
        np.zeros(min(rows, 65_535) + 1),
        np.zeros(SAMPLES),
        np.zeros((SAMPLES, replicas), np.int32),
        np.zeros(changes, CHANGED),
    )
