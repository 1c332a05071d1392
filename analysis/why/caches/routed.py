"""What the replica that a policy chose holds of each prompt: the routed side of the misses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.store.question import BadQuestion, Question

if TYPE_CHECKING:
    from analysis.store.warehouse import Warehouse
    from analysis.why.caches.asked import Cache


def replica_depths(
    warehouse: Warehouse, question: Question, cache: Cache, block: int, capacity: int | None
) -> NDArray[np.int64]:
    """Leading blocks of each prompt that its replica holds within capacity and TTL, int64[r].

    The policy routes as `route` has it (service instant; recorded where prompts can be hit once computed and every
    duration is known); then each replica's requests are a trace of their own.

    Raises:
        BadQuestion: a policy or a number of replicas that makes no sense.
    """
    from analysis.kernel.reuse import reuse
    from analysis.why.miss_causes import depths

    loaded, arrived = warehouse.loaded(), warehouse.arrived(question.arrivals)
    replica = routed_to(warehouse, question, cache, block)
    tree = loaded.tree
    held = np.zeros(len(loaded.leaf), np.int64)
    for number in range(int(replica.max(initial=-1)) + 1):
        mine = replica[arrived.order] == number
        rows = arrived.order[mine]
        if cache.insert == "finish":
            from analysis.why.caches.computed_reuse import computed_at, computed_reuse

            computed, _ = computed_at(loaded.requests, arrived.arrival_s)
            found: Any = computed_reuse(loaded.paths, tree.end, loaded.leaf, rows, arrived.arrival_s, computed, block)
        else:
            found = reuse(
                tree.parent, tree.start, tree.end, np.where(replica == number, loaded.leaf, -1), arrived.order,
                arrived.arrival_s, block, None, loaded.paths,
            )  # fmt: skip
        held += depths(
            found.request, found.blocks, found.distance_blocks, found.gap_s, len(held), capacity, cache.ttl_s
        ).held
    return held


def routed_to(warehouse: Warehouse, question: Question, cache: Cache, block: int) -> NDArray[np.int64]:
    """The replica of each request row, int64[r]; -1 where none took it.

    Raises:
        BadQuestion: a policy or a number of replicas that makes no sense.
    """
    from analysis.fleet.routed_trace import routed_trace
    from analysis.fleet.routing import Cell, replay

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
