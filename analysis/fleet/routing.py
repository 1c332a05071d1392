"""Which routing policy, how many replicas: a trace replayed over a fleet.

`replay` runs one cell (policy, replicas, capacity, seed); `analysis.fleet.load_figures` reads its figures,
`analysis.fleet.grid` runs many cells and compares them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.dependencies import closed_loop, open_loop
from analysis.fleet.replay.books import CHANGE, CHOICES, REQUEST, SPEED, TIMING, Arrivals, Outcome, Rules
from analysis.fleet.replay.cell import EVENTS, INSERTS, SERVICES, Cell, Event, ServiceModel, Trace, check
from analysis.fleet.replay.loop import run
from analysis.fleet.replay.replica_cache import open_caches
from analysis.fleet.routers import policy as policy_of
from analysis.fleet.routers.fleet import Fleet, Memory, Setup
from analysis.kernel.heavy_paths import HeavyPaths, heavy_paths

__all__ = ["Cell", "Event", "Replay", "ServiceModel", "Trace", "replay"]


class Replay(NamedTuple):
    """A finished replay, in arrival order: row `order[k]` of the trace is its k-th.

    Attributes:
        cell: its settings.
        outcome: its result.
        what: REQUEST[r], the requests (`analysis.fleet.replay.books`).
        prefix_tokens: int64[r], tokens on the path; 0 where the prompt is unknown.
        times_known, sessions_known, ttft_known: whether arrival times, (any) sessions and all recorded TTFTs were
            given.
        estimated_durations: requests whose unknown duration was estimated (service recorded).
    """

    cell: Cell
    outcome: Outcome
    what: NDArray[np.void]
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
    check(trace, cell)
    trace, estimated = _with_durations(trace) if cell.service == "recorded" else (trace, 0)
    chosen = policy_of(cell.policy)
    unknown = sorted(set(cell.params) - set(chosen.params))
    if unknown:
        known = ", ".join(chosen.params) or "none"
        raise ValueError(f"{cell.policy} has no parameter {', '.join(unknown)}; it has {known}")
    if chosen.needs_load and cell.service == "instant":
        raise ValueError(
            f"{cell.policy} decides by requests in flight, and there are none if service takes no time:"
            " choose the service recorded or model"
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
    leaf = np.ascontiguousarray(arrivals.what["leaf"])
    caches = open_caches(paths, trace.end, leaf, cell.block_tokens, capacities, 4 + len(events))
    begin = float(np.nanmin(arrivals.when["arrival_s"])) if len(order) else 0.0
    timed = cell.service != "instant"
    window = (-np.inf, np.inf) if cell.window_s is None else (begin + cell.window_s[0], begin + cell.window_s[1])
    choices = (
        SERVICES[cell.service],
        INSERTS[cell.insert],
        -1 if cell.max_running is None else cell.max_running,
        -1 if cell.queue_limit is None else cell.queue_limit,
        timed if cell.pin is None else cell.pin and timed,
        cell.keep_outputs,
    )
    rules = Rules(
        np.array([choices], CHOICES),
        np.array([cell.model[:5] if cell.model else (0.0,) * 5], SPEED),
        np.array(window, np.float64),
        np.array([(begin + event.at_s, EVENTS[event.kind], event.argument) for event in events], CHANGE),
    )
    fleet = _fleet(cell, most, len(names), caches.resident[:most], caches.capacity[:most])
    memory = _memory(cell, chosen, most, names)
    outcome = run(chosen.choose, memory, caches, arrivals, rules, fleet, begin)
    on_path = np.where(leaf >= 0, np.asarray(trace.end, np.int64)[np.maximum(leaf, 0)], 0)
    ttft_known = trace.ttft_s is not None and not bool(np.isnan(trace.ttft_s).any())
    return Replay(cell, outcome, arrivals.what, on_path, times_known, sessions_known, ttft_known, estimated)


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
            raise ValueError("a closed loop needs arrival times: choose an arrival model")
        when = closed_loop(chain, arrival, duration, cell.population)
    else:
        when = open_loop(arrival)
    on_path = np.where(leaf >= 0, np.asarray(trace.end, np.int64)[np.where(leaf >= 0, leaf, 0)], 0)
    tokens = on_path if trace.tokens is None else np.ascontiguousarray(np.asarray(trace.tokens, np.int64)[order])
    output, ttft = optional(trace.output_tokens, -1, np.int64), optional(trace.ttft_s, np.nan, np.float64)
    what = np.rec.fromarrays([leaf, tokens, session, when.kind, when.after, output], dtype=REQUEST)
    times = np.rec.fromarrays([when.arrival_s, when.delay_s, ttft, duration], dtype=TIMING)
    return Arrivals(
        what.view(np.ndarray).view(REQUEST),
        times.view(np.ndarray).view(TIMING),
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
