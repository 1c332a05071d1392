"""The inputs of a replay: a trace, and a cell of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.replay.books import AT_ARRIVAL, AT_FINISH, HOT, INSTANT, LOSE, MODEL, RECORDED, SCALE

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
    """A change of the fleet `at_s` seconds after the first arrival.

    kind: `scale` (to `argument` replicas; those with the lowest indices stay), `lose` (the busiest replica fails: its
    cache is lost, its requests start again elsewhere) or `hot` (all remaining requests of session code `argument`
    arrive at once).
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
        policy: a name of `analysis.fleet.routers.POLICIES`; params: its parameters by name.
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


def check(trace: Trace, cell: Cell) -> None:
    """Raise ValueError if the cell is invalid in itself or for this trace."""
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
            raise ValueError("events need arrival times: choose an arrival model")
    if cell.service == "model" and cell.model is None:
        raise ValueError("service model needs a ServiceModel")
    if cell.service == "recorded" and (trace.duration_s is None or np.isnan(trace.duration_s).all()):
        raise ValueError("the trace records no durations: choose the service model or instant")
    if cell.service != "instant" and np.isnan(trace.arrival_s).any():
        raise ValueError("load needs arrival times: choose an arrival model")
