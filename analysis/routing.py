"""Which routing policy, how many replicas: a trace replayed over a fleet.

`replay` runs one cell (policy, replicas, capacity, seed); `analysis.load_figures` reads its figures,
`analysis.fleet_grid` runs many cells and compares them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.dependencies import closed_loop, open_loop
from analysis.heavy_paths import HeavyPaths, heavy_paths
from analysis.replay import run
from analysis.replay_books import (
    ARRIVAL,
    AT_ARRIVAL,
    AT_FINISH,
    HOT,
    INSTANT,
    LEAF,
    LOSE,
    MODEL,
    RECORDED,
    SCALE,
    Arrivals,
    Outcome,
    Rules,
)
from analysis.replica_cache import open_caches
from analysis.routers import policy as policy_of
from analysis.routers.fleet import Fleet, Memory, Setup

SERVICES = {"instant": INSTANT, "recorded": RECORDED, "model": MODEL}
INSERTS = {"arrival": AT_ARRIVAL, "finish": AT_FINISH}
EVENTS = {"scale": SCALE, "lose": LOSE, "hot": HOT}


class Trace(NamedTuple):
    """A trace as plain arrays: a prefix tree of n nodes and r requests in any row order.

    Attributes:
        parent, start, end: int64[n], the tree; node 0 is the root. start and end in tokens on the path.
        leaf: int64[r], node whose path is the prompt; -1 where the prompt is unknown.
        order: int64[r], the rows in arrival order.
        arrival_s: float64[r], seconds; NaN unknown.
        session: int64[r], dense session code; -1 unknown (a session of its own).
        session_names: names by code, for policies that hash; None: the code in decimal.
        tokens: int64[r], prompt tokens; None: those on the path.
        output_tokens: int64[r], -1 unknown; None: all unknown.
        ttft_s, duration_s: float64[r], NaN unknown; None: all unknown.
        chain: int64[r], requests that wait for each other in a closed loop; None: the session.
    """

    parent: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]
    leaf: NDArray[Any]
    order: NDArray[Any]
    arrival_s: NDArray[Any]
    session: NDArray[Any]
    session_names: Sequence[str] | None = None
    tokens: NDArray[Any] | None = None
    output_tokens: NDArray[Any] | None = None
    ttft_s: NDArray[Any] | None = None
    duration_s: NDArray[Any] | None = None
    chain: NDArray[Any] | None = None


class Event(NamedTuple):
    """Something that happens to the fleet `at_s` seconds after the first arrival.

    kind: `scale` (to `argument` replicas, the lowest indices stay), `lose` (the busiest replica fails: its cache is
    gone, its requests start anew elsewhere) or `hot` (all requests of session code `argument` still to come arrive at
    once).
    """

    kind: str
    at_s: float
    argument: int = 0


class ServiceModel(NamedTuple):
    """Service times from the interactivity arithmetic; all seconds. A replica computes one prompt after the other.

    Attributes:
        prefill_s_per_token: for each token not cached.
        prefill_s_per_token_pair: attention, per pair of a new token and one before it (n c + n^2 / 2 pairs).
        decode_step_s: a step of an empty batch.
        decode_s_per_request, decode_s_per_context_token: what a request of the batch and a token of its context add,
            as the batch stands when the request is admitted.
        low, high: factors on prefill times between which the truth lies (MFU is an assumption).
    """

    prefill_s_per_token: float
    prefill_s_per_token_pair: float = 0.0
    decode_step_s: float = 0.0
    decode_s_per_request: float = 0.0
    decode_s_per_context_token: float = 0.0
    low: float = 1.0
    high: float = 1.0


class Cell(NamedTuple):
    """One replay's settings.

    Attributes:
        policy: a name of `analysis.routers.POLICIES`; params: its parameters by name.
        replicas: at the start.
        capacity_tokens: of each replica's cache; None unbounded.
        seed: of random policies, and of the salt of hashed names (0: none).
        block_tokens: block size B.
        service: instant (exact prefix accounting without load), recorded (durations of the trace) or model.
        insert: when a prompt can be hit: at its arrival, or once it is computed (`finish`).
        loop: open (recorded arrivals) or closed (a session waits for its answers); population: sessions at once when
            closed.
        max_running, queue_limit: requests admitted and waiting on a replica at most; None unlimited.
        pin: KV of running requests is not evicted and a request waits until it fits; None: where service takes time.
        keep_outputs: generated blocks stay in the cache until evicted.
        replica_names: for policies that hash; None: r0, r1, ...
        window_s: load is measured between these seconds from the first arrival; None: throughout.
        model: for service `model`.
    """

    policy: str
    replicas: int
    capacity_tokens: int | None = None
    seed: int = 0
    block_tokens: int = 64
    service: str = "instant"
    insert: str = "arrival"
    params: Mapping[str, float] = {}
    events: tuple[Event, ...] = ()
    loop: str = "open"
    population: int | None = None
    max_running: int | None = None
    queue_limit: int | None = None
    pin: bool | None = None
    keep_outputs: bool = False
    replica_names: tuple[str, ...] | None = None
    window_s: tuple[float, float] | None = None
    model: ServiceModel | None = None


class Replay(NamedTuple):
    """A finished replay, in arrival order: row `order[k]` of the trace is its k-th.

    Attributes:
        cell: what was asked.
        outcome: what happened.
        what: int64[r, 6], the requests (`analysis.replay_books.Arrivals`).
        prefix_tokens: int64[r], tokens on the path; 0 where the prompt is unknown.
        times_known, sessions_known, ttft_known: whether arrival times, (any) sessions and all recorded TTFTs were
            given.
        estimated_durations: requests whose unknown duration was estimated (service recorded).
    """

    cell: Cell
    outcome: Outcome
    what: NDArray[np.int64]
    prefix_tokens: NDArray[np.int64]
    times_known: bool
    sessions_known: bool
    ttft_known: bool
    estimated_durations: int


def replay(trace: Trace, cell: Cell) -> Replay:
    """Replay `trace` in `cell`. Time and memory grow with requests and paths crossed, not with prompt tokens.

    Raises:
        ValueError: an unknown policy, parameter or choice; a policy that needs load where service takes no time; a
            closed loop or events without arrival times; a service without the durations or the model it needs.
    """
    _check(trace, cell)
    trace, estimated = _with_durations(trace) if cell.service == "recorded" else (trace, 0)
    chosen = policy_of(cell.policy)
    unknown = sorted(set(cell.params) - set(chosen.params))
    if unknown:
        known = ", ".join(chosen.params) or "none"
        raise ValueError(f"{cell.policy} has no parameter {', '.join(unknown)}; it has {known}")
    if chosen.needs_load and cell.service == "instant":
        raise ValueError(
            f"{cell.policy} decides by requests in flight and means nothing where service takes no time:"
            " choose --service recorded or model"
        )
    order = np.asarray(trace.order, np.int64)
    session, names, sessions_known = _sessions(trace)
    times_known = bool(len(order)) and not bool(np.isnan(trace.arrival_s).any())
    arrivals, paths = _arrivals(trace, cell, session[order], len(names), times_known)
    events = sorted(cell.events, key=lambda event: event.at_s)
    most = max([cell.replicas, *(event.argument for event in events if event.kind == "scale")])
    capacity = -1 if cell.capacity_tokens is None else cell.capacity_tokens // cell.block_tokens
    capacities = np.full(most + 1, capacity, np.int64)
    capacities[most] = -1 if capacity < 0 else capacity * cell.replicas
    leaf = arrivals.what[:, LEAF]
    caches = open_caches(paths, trace.end, leaf, cell.block_tokens, capacities, 4 + len(events))
    begin = float(np.nanmin(arrivals.when[:, ARRIVAL])) if len(order) else 0.0
    timed = cell.service != "instant"
    window = (-np.inf, np.inf) if cell.window_s is None else (begin + cell.window_s[0], begin + cell.window_s[1])
    choices = [
        SERVICES[cell.service],
        INSERTS[cell.insert],
        -1 if cell.max_running is None else cell.max_running,
        -1 if cell.queue_limit is None else cell.queue_limit,
        timed if cell.pin is None else cell.pin and timed,
        cell.keep_outputs,
    ]
    rules = Rules(
        np.array(choices, np.int64),
        np.array(cell.model[:5] if cell.model else np.zeros(5), np.float64),
        np.array(window, np.float64),
        np.array([begin + event.at_s for event in events], np.float64),
        np.array([(EVENTS[event.kind], event.argument) for event in events], np.int64).reshape(-1, 2),
    )
    fleet = _fleet(cell, most, len(names), caches.resident[:most], caches.capacity[:most])
    memory = _memory(cell, chosen, most, names)
    outcome = run(chosen.choose, memory, caches, arrivals, rules, fleet, begin)
    on_path = np.where(leaf >= 0, np.asarray(trace.end, np.int64)[np.maximum(leaf, 0)], 0)
    ttft_known = trace.ttft_s is not None and not bool(np.isnan(trace.ttft_s).any())
    return Replay(cell, outcome, arrivals.what, on_path, times_known, sessions_known, ttft_known, estimated)


def _check(trace: Trace, cell: Cell) -> None:
    for name, value, choices in (
        ("service", cell.service, SERVICES),
        ("insert", cell.insert, INSERTS),
        ("loop", cell.loop, ("open", "closed")),
    ):
        if value not in choices:
            raise ValueError(f"{name} is one of {', '.join(choices)}, not {value!r}")
    for name, number, least in (
        ("replicas", cell.replicas, 1),
        ("capacity_tokens", cell.capacity_tokens, 0),
        ("block_tokens", cell.block_tokens, 1),
        ("max_running", cell.max_running, 1),
        ("queue_limit", cell.queue_limit, 0),
    ):
        if number is not None and number < least:
            raise ValueError(f"{name} must be at least {least}, not {number}")
    for event in cell.events:
        if event.kind not in EVENTS:
            raise ValueError(f"no event is called {event.kind!r}; there are {', '.join(EVENTS)}")
        if event.kind == "scale" and event.argument < 1:
            raise ValueError("a fleet cannot scale to fewer than 1 replica")
        if event.kind == "lose" and cell.replicas == 1 and not any(e.kind == "scale" for e in cell.events):
            raise ValueError("the only replica cannot be lost: nothing is left to serve the requests")
        if np.isnan(trace.arrival_s).any():
            raise ValueError("events need arrival times: choose an arrival model (--arrivals)")
    if cell.service == "model" and cell.model is None:
        raise ValueError("service model needs a ServiceModel")
    if cell.service == "recorded" and (trace.duration_s is None or np.isnan(trace.duration_s).all()):
        raise ValueError("the trace records no durations: choose --service model or instant")
    if cell.service != "instant" and np.isnan(trace.arrival_s).any():
        raise ValueError("load needs arrival times: choose an arrival model (--arrivals)")


def _with_durations(trace: Trace) -> tuple[Trace, int]:
    """Fill unknown durations: output tokens at the recorded requests' seconds per token, else the median duration."""
    duration = np.array(trace.duration_s, np.float64)
    known = ~np.isnan(duration)
    missing = int((~known).sum())
    if missing:
        output = np.full(len(duration), -1) if trace.output_tokens is None else np.asarray(trace.output_tokens)
        timed = known & (output > 0)
        pace = duration[timed].sum() / output[timed].sum() if timed.any() else 0.0
        guess = np.where((output > 0) & (pace > 0), output * pace, np.median(duration[known]))
        duration = np.where(known, duration, guess)
    return trace._replace(duration_s=duration), missing


def _sessions(trace: Trace) -> tuple[NDArray[np.int64], Sequence[str], bool]:
    """Session codes with every unknown one made a session of its own, their names, and whether any was known."""
    session = np.array(trace.session, np.int64)
    known = session >= 0
    count = int(session.max(initial=-1)) + 1
    session[~known] = count + np.arange(np.count_nonzero(~known))
    names: Sequence[str] = trace.session_names if trace.session_names is not None else [str(k) for k in range(count)]
    if len(names) < count:
        raise ValueError(f"{count} sessions but {len(names)} session names")
    return session, [*names[:count], *(f"unknown-{k}" for k in range(np.count_nonzero(~known)))], bool(known.any())


def _arrivals(
    trace: Trace, cell: Cell, session: NDArray[np.int64], sessions: int, times_known: bool
) -> tuple[Arrivals, HeavyPaths]:
    order = np.asarray(trace.order, np.int64)
    paths = heavy_paths(trace.parent, trace.start)
    leaf = np.ascontiguousarray(np.asarray(trace.leaf, np.int64)[order])
    rows = len(order)
    arrival = np.asarray(trace.arrival_s, np.float64)[order] if times_known else np.arange(rows, dtype=np.float64)
    if times_known and rows and (np.diff(arrival) < 0).any():
        raise ValueError("`order` does not sort the arrival times")

    def optional(column: NDArray[Any] | None, unknown: float, dtype: Any) -> NDArray[Any]:
        return (
            np.full(rows, unknown, dtype) if column is None else np.ascontiguousarray(np.asarray(column, dtype)[order])
        )

    duration = optional(trace.duration_s, np.nan, np.float64)
    if cell.loop == "closed":
        chain = session if trace.chain is None else np.asarray(trace.chain, np.int64)[order]
        if not times_known:
            raise ValueError("a closed loop needs arrival times: choose an arrival model (--arrivals)")
        when = closed_loop(chain, arrival, duration, cell.population)
    else:
        when = open_loop(arrival)
    on_path = np.where(leaf >= 0, np.asarray(trace.end, np.int64)[np.where(leaf >= 0, leaf, 0)], 0)
    tokens = on_path if trace.tokens is None else np.ascontiguousarray(np.asarray(trace.tokens, np.int64)[order])
    what = np.stack([leaf, tokens, session, when.kind, when.after, optional(trace.output_tokens, -1, np.int64)], axis=1)
    times = np.stack([when.arrival_s, when.delay_s, optional(trace.ttft_s, np.nan, np.float64), duration], axis=1)
    return Arrivals(
        np.ascontiguousarray(what, np.int64),
        np.ascontiguousarray(times),
        when.first,
        when.dependants,
        when.backlog,
        np.argsort(session, kind="stable"),
        np.concatenate([[0], np.cumsum(np.bincount(session, minlength=sessions))]).astype(np.int64),
    ), paths


def _fleet(cell: Cell, most: int, sessions: int, resident: NDArray[np.int64], capacity: NDArray[np.int64]) -> Fleet:
    def zeros() -> NDArray[np.int64]:
        return np.zeros(most, np.int64)

    return Fleet(
        np.array([cell.block_tokens], np.int64),
        (np.arange(most) < cell.replicas).astype(np.int64),
        zeros(),
        zeros(),
        zeros(),
        zeros(),
        resident,
        capacity,
        zeros(),
        zeros(),
        np.zeros(most),
        zeros(),
        zeros(),
        zeros(),
        np.full(sessions, -1, np.int64),
        np.zeros(sessions, np.int64),
    )


def _memory(cell: Cell, chosen: Any, most: int, names: Sequence[str]) -> Memory:
    replica_names = cell.replica_names or tuple(f"r{k}" for k in range(most))
    if len(replica_names) < most or len(set(replica_names)) < len(replica_names):
        raise ValueError(f"{most} replicas need as many different names, not {', '.join(replica_names)}")
    params = {**chosen.params, **cell.params}
    session_key = _keys(tuple(names), cell.seed) if chosen.hashes else np.zeros(1, np.uint64)
    setup = Setup(most, len(names), tuple(replica_names[:most]), names, params)
    ints, floats = chosen.prepare(setup)
    return Memory(
        np.array([*(float(params[name]) for name in chosen.params), 0.0], np.float64),
        np.ascontiguousarray(ints, np.int64),
        np.ascontiguousarray(floats, np.float64),
        session_key,
        _keys(tuple(replica_names[:most]), cell.seed),
        np.array([_digest("rng", cell.seed)], np.uint64),
    )


def _digest(name: str, seed: int) -> int:
    return int.from_bytes(
        hashlib.blake2b(name.encode(), digest_size=8, salt=seed.to_bytes(8, "little")).digest(), "little"
    )


@functools.lru_cache(maxsize=8)
def _keys(names: tuple[str, ...], seed: int) -> NDArray[np.uint64]:
    return np.array([_digest(name, seed) for name in names], np.uint64)
