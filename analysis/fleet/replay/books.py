"""The books of a replay: what is known before, what each replica and session is doing, what came out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INSTANT, RECORDED, MODEL = range(3)  # service
AT_ARRIVAL, AT_FINISH = range(2)  # insert
ABSOLUTE, AFTER_FINISH, AFTER_ARRIVAL, AFTER_SESSION = range(4)  # kinds of arrival
SCALE, LOSE, HOT = range(3)  # fleet events
SAMPLES = 512  # of the load over time, at most

LEAF, TOKENS, SESSION, KIND, AFTER, OUTPUT = range(6)  # columns of Arrivals.what
ARRIVAL, DELAY, TTFT, DURATION = range(4)  # columns of Arrivals.when
SERVICE, INSERT, MOST_RUNNING, MOST_WAITING, PIN, KEEP_OUTPUTS = range(6)  # positions in Rules.choices
HIT, SHARED_HIT, UNBOUNDED_HIT, BEST = range(4)  # columns of Outcome.blocks
ARRIVED_S, ADMITTED_S, COMPUTED_S, FINISHED_S = range(4)  # columns of Outcome.times
(SECONDS, RUNNING_MEAN, RUNNING_VARIANCE, SESSIONS_MEAN, SESSIONS_VARIANCE, SESSIONS_LIVE, SESSIONS_BUSY, END_S) = (
    range(8)
)  # positions in Outcome.integrals
(QUEUED, REFUSED, MOVES, MAX_RUNNING, MAX_SESSION_RUNNING, UNSCHEDULABLE, DUPLICATE_BLOCKS, SAMPLES_TAKEN, DONE) = (
    range(9)
)  # positions in Outcome.counts
EVENT_LIVE, EVENT_MOVED, EVENT_RECOMPUTED, EVENT_BEFORE, EVENT_AFTER = range(5)  # columns of Outcome.events
RUN_NEXT, RUN_PREVIOUS, WAIT_NEXT, ATTEMPT, PRIVATE = range(5)  # columns of Desk.requests
RUN_FIRST, WAIT_FIRST, WAIT_LAST, PRIVATE_TOTAL, WAITING_BLOCKS, SERVED, CONTEXT = range(7)  # columns of Desk.replicas
PREFILL_FREE, CHANGED = range(2)  # columns of Desk.replica_s
PLACE, PLACE_BLOCKS, LEFT, SETTLED = range(4)  # columns of Desk.sessions
RUNNING, RUNNING_SQUARES, SESSIONS, SESSION_SQUARES, LIVE, BUSY, HEAP_SIZE = range(7)  # positions in Desk.sums
NOW, NEXT_SAMPLE, SAMPLE_GAP, STARTED = range(4)  # positions in Desk.clock


class Arrivals(NamedTuple):
    """r requests in arrival order.

    Attributes:
        what: int64[r, 6]: node of the prompt (-1 unknown); prompt tokens; session code; how it arrives (ABSOLUTE at
            its time, AFTER_FINISH or AFTER_ARRIVAL of another request plus a delay, AFTER_SESSION when a place is
            free in a closed population); that other request; output tokens (-1 unknown).
        when: float64[r, 4], seconds: arrival where ABSOLUTE, the delay, recorded TTFT and duration (NaN unknown).
        dependants_first, dependants: int64[r + 1] and the requests that arrive after each request.
        backlog: int64[k], first requests of the sessions that wait for a place, in order.
        of_session, session_first: requests by session, and int64[s + 1] where each session's begin.
    """

    what: NDArray[np.int64]
    when: NDArray[np.float64]
    dependants_first: NDArray[np.int64]
    dependants: NDArray[np.int64]
    backlog: NDArray[np.int64]
    of_session: NDArray[np.int64]
    session_first: NDArray[np.int64]


class Rules(NamedTuple):
    """How replicas serve.

    Attributes:
        choices: int64[6]: service; insert (AT_FINISH: a prompt can be hit once it is computed, at its first token, or
            at its end where that is unknown); requests admitted and waiting on a replica at most (-1 unlimited; more
            are refused); pin (what running requests read is not evicted, and a request waits until its KV fits); keep
            outputs in the cache.
        model: float64[5]: prefill s per token and per token pair, decode step s, s per request and per context token.
        window_s: float64[2], load is measured between these times.
        event_s, events: float64[e] and int64[e, 2] (kind, argument), in order of time.
    """

    choices: NDArray[np.int64]
    model: NDArray[np.float64]
    window_s: NDArray[np.float64]
    event_s: NDArray[np.float64]
    events: NDArray[np.int64]


class Outcome(NamedTuple):
    """What happened, in arrival order. Blocks are full blocks.

    Attributes:
        replica: int32[r], -1 where the request was refused or never arrived.
        blocks: int64[r, 4], of the prompt, when it was admitted: held by its replica; by the one shared cache; what
            the replica would have held if unbounded; held by the best replica.
        times: float64[r, 4]: arrived, admitted, computed, finished.
        integrals: float64[8] over the measured window: seconds; mean and variance over replicas of requests in
            flight, and of live sessions; live sessions, and those with a request in flight; then the time of the end.
        counts: int64[9]: queued, refused, session moves, most requests in flight on a replica and of a session,
            requests too large for a replica, duplicate blocks, samples, requests done.
        load_seconds: float64[k], replica seconds with 0, 1, ... requests in flight; the last entry counts k - 1 and
            more.
        sample_s, samples: float64[m], int32[m, R]: requests in flight over time; -1 where the replica is not alive.
        events: int64[e, 5]: live sessions, those moved by their next request, blocks these recomputed, replicas
            before, after.
    """

    replica: NDArray[np.int32]
    blocks: NDArray[np.int64]
    times: NDArray[np.float64]
    integrals: NDArray[np.float64]
    counts: NDArray[np.int64]
    load_seconds: NDArray[np.float64]
    sample_s: NDArray[np.float64]
    samples: NDArray[np.int32]
    events: NDArray[np.int64]


class Desk(NamedTuple):
    """Books that no policy sees.

    Attributes:
        requests: int64[r, 5]: next and previous request admitted on the same replica; next waiting there; how often
            it was started (an event of an earlier attempt is void); KV blocks it uses alone.
        replicas: int64[R, 7]: first request admitted; first and last waiting; KV blocks used by one request alone;
            full blocks of the prompts that wait; requests admitted; their prompt tokens.
        replica_s: float64[R, 2]: when all admitted prompts are computed; when the requests in flight last changed.
        sessions: int64[s, 4]: the replica at which the session counts (-1 over, -2 not begun), blocks it counts
            there; requests not yet finished; fleet events its routing has seen.
        sums: int64[7]: over the replicas alive, requests in flight and their squares, sessions and their squares;
            live and busy sessions; pending events.
        clock: float64[4]: now; the next sample and the distance between samples; sessions taken from the backlog.
        heap_s, heap_key: pending events, a binary heap by time.
        found: int64[4, R + 1], the last look-up (`analysis.fleet.replay.replica_cache.matches`); column R is the
        shared cache.
    """

    requests: NDArray[np.int64]
    replicas: NDArray[np.int64]
    replica_s: NDArray[np.float64]
    sessions: NDArray[np.int64]
    sums: NDArray[np.int64]
    clock: NDArray[np.float64]
    heap_s: NDArray[np.float64]
    heap_key: NDArray[np.int64]
    found: NDArray[np.int64]


def new_desk(arrivals: Arrivals, replicas: int, sessions: int, begin_s: float) -> Desk:
    """Empty books, `begin_s` being the time of the first arrival."""
    rows = len(arrivals.what)
    requests = np.full((rows, 5), -1, np.int64)
    requests[:, ATTEMPT] = 0
    requests[:, PRIVATE] = 0
    by_replica = np.zeros((replicas, 7), np.int64)
    by_replica[:, : WAIT_LAST + 1] = -1
    by_session = np.zeros((sessions, 4), np.int64)
    by_session[:, PLACE] = -2
    by_session[:, LEFT] = np.diff(arrivals.session_first)
    pending = 3 * rows + len(arrivals.dependants) + 16
    return Desk(
        requests,
        by_replica,
        np.full((replicas, 2), begin_s),
        by_session,
        np.zeros(7, np.int64),
        np.array([begin_s, begin_s, 1.0, 0.0]),
        np.empty(pending),
        np.empty(pending, np.int64),
        np.zeros((4, replicas + 1), np.int64),
    )


def new_outcome(rows: int, replicas: int, events: int) -> Outcome:
    """An outcome in which nothing has happened yet."""
    return Outcome(
        np.full(rows, -1, np.int32),
        np.zeros((rows, 4), np.int64),
        np.full((rows, 4), np.nan),
        np.zeros(8),
        np.zeros(9, np.int64),
        np.zeros(min(rows, 65_535) + 1),
        np.zeros(SAMPLES),
        np.zeros((SAMPLES, replicas), np.int32),
        np.zeros((events, 5), np.int64),
    )
