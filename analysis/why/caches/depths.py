"""The depth to which the requested cache holds every prompt: in one shared cache of the total size, and per replica."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.routed_trace import routed_trace
from analysis.fleet.routing import Cell, replay
from analysis.kernel.reuse import reuse
from analysis.store.prepared import Prepared
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse
from analysis.why.attribution import Depths, Rows
from analysis.why.caches.cache import Cache
from analysis.why.caches.computed_reuse import computed_at, computed_reuse
from traces.tree.compiled import njit


class CacheDepths(NamedTuple):
    """The depth to which a cache holds every prompt.

    Attributes:
        shared: in one shared cache of the total size.
        replica: int64[r], leading blocks held by the request's replica; None: there is only one cache.
        running: int64[r], leading blocks that a running request was computing; None: prompts can be hit on arrival.
        notes: assumptions, as sentences.
    """

    shared: Depths
    replica: Rows | None
    running: Rows | None
    notes: tuple[str, ...]


def cache_depths(warehouse: Warehouse, prepared: Prepared, cache: Cache) -> CacheDepths:
    """The depth to which `cache` holds every prompt, as an LRU cache under Tracetower's own definition.

    Raises:
        BadQuestion: an invalid policy or number of replicas, or durations are needed and none is known.
    """
    loaded, block = warehouse.loaded(), prepared.block_size
    count = len(loaded.leaf)
    capacity = None if cache.capacity_tokens is None else cache.capacity_tokens // block
    total = None if capacity is None else capacity * (cache.replicas or 1)
    running: Rows | None = None
    notes: tuple[str, ...] = ()
    if cache.insert == "finish":
        arrived = warehouse.arrived(prepared.question.arrivals)
        computed, unknown = computed_at(loaded.requests, arrived.arrival_s)
        if unknown:
            notes = (f"{unknown:,} requests of unknown duration count as computed at their arrival",)
        runs = computed_reuse(
            loaded.paths, loaded.tree.end, loaded.leaf, arrived.order, arrived.arrival_s, computed, block
        )
        running = runs.running_blocks
        shared = depths(runs.request, runs.blocks, runs.distance_blocks, runs.gap_s, count, total, cache.ttl_s)
    else:
        frame = prepared.read_runs()
        gap = frame["gap_s"].fill_null(np.nan).to_numpy()
        request, blocks, distance = (frame[name].to_numpy() for name in ("request", "blocks", "distance_blocks"))
        shared = depths(request, blocks, distance, gap, count, total, cache.ttl_s)
    replica = None
    if cache.replicas is not None:
        replica = replica_depths(warehouse, prepared.question, cache, block, capacity)
    return CacheDepths(shared, replica, running, notes)


def depths(
    request: NDArray[Any],
    blocks: NDArray[Any],
    distance_blocks: NDArray[Any],
    gap_s: NDArray[Any],
    requests: int,
    capacity_blocks: int | None,
    ttl_s: float | None,
) -> Depths:
    """The depth to which a cache holds each prompt, from its reuse runs.

    Args:
        request, blocks, distance_blocks, gap_s: the runs (`analysis.kernel.reuse.Reuse`).
        requests: number of requests.
        capacity_blocks: of the cache; None unbounded.
        ttl_s: seconds that a block stays after its last touch; None: for ever. An unknown gap exceeds every TTL.
    """
    length = np.asarray(blocks, np.int64)
    recent = length if ttl_s is None else np.where(np.asarray(gap_s) <= ttl_s, length, 0)
    held = recent
    if capacity_blocks is not None:
        held = np.clip(capacity_blocks - np.asarray(distance_blocks, np.int64), 0, recent)
    return Depths(_sums(request, recent, requests), _sums(request, held, requests))


def replica_depths(
    warehouse: Warehouse, question: Question, cache: Cache, block: int, capacity: int | None
) -> NDArray[np.int64]:
    """Leading blocks of each prompt that its replica holds within capacity and TTL, int64[r].

    The policy routes as in `analysis.fleet.routing.replay`, with service `instant`, or `recorded` if prompts can be hit
    only after they are computed and every duration is known. Each replica's requests are then a trace of their own.

    Raises:
        BadQuestion: an invalid policy or number of replicas.
    """
    loaded, arrived = warehouse.loaded(), warehouse.arrived(question.arrivals)
    replica = routed_to(warehouse, question, cache, block)
    tree = loaded.tree
    held = np.zeros(len(loaded.leaf), np.int64)
    for number in range(int(replica.max(initial=-1)) + 1):
        mine = replica[arrived.order] == number
        rows = arrived.order[mine]
        if cache.insert == "finish":
            computed, _ = computed_at(loaded.requests, arrived.arrival_s)
            runs: Any = computed_reuse(loaded.paths, tree.end, loaded.leaf, rows, arrived.arrival_s, computed, block)
        else:
            runs = reuse(
                tree.parent, tree.start, tree.end, np.where(replica == number, loaded.leaf, -1), arrived.order,
                arrived.arrival_s, block, None, loaded.paths,
            )  # fmt: skip
        held += depths(
            runs.request, runs.blocks, runs.distance_blocks, runs.gap_s, len(held), capacity, cache.ttl_s
        ).held
    return held


def routed_to(warehouse: Warehouse, question: Question, cache: Cache, block: int) -> NDArray[np.int64]:
    """The replica of each request row, int64[r]; -1 if no replica took it.

    Raises:
        BadQuestion: an invalid policy or number of replicas.
    """
    loaded, arrived = warehouse.loaded(), warehouse.arrived(question.arrivals)
    trace = routed_trace(warehouse, question._replace(window="all", where=())).trace
    timed = cache.insert == "finish" and trace.duration_s is not None and not np.isnan(trace.duration_s).any()
    assert cache.policy is not None
    assert cache.replicas is not None
    cell = Cell(
        cache.policy, cache.replicas, cache.capacity_tokens, block_tokens=block, pin=False,
        service="recorded" if timed else "instant", insert=cache.insert if timed else "arrival",
    )  # fmt: skip
    try:
        outcome = replay(trace, cell).outcome
    except ValueError as error:
        raise BadQuestion(str(error)) from None
    replica = np.full(len(loaded.leaf), -1, np.int64)
    replica[arrived.order] = outcome.replica
    return replica


def _sums(request: NDArray[Any], values: NDArray[np.int64], requests: int) -> Rows:
    out = np.zeros(requests, np.int64)
    _add(np.asarray(request), values, out)
    return out


@njit(cache=True)
def _add(at: Any, values: Any, out: Any) -> None:
    for i in range(len(at)):
        out[at[i]] += values[i]
