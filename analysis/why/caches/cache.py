"""The cache whose misses are explained."""

from __future__ import annotations

from typing import NamedTuple

from analysis.store.prepared import Prepared
from analysis.store.question import BadQuestion
from analysis.store.warehouse import Warehouse

INSERTS = ("arrival", "finish")


class Cache(NamedTuple):
    """The cache whose misses are explained: one, or several replicas that a policy routes to.

    Attributes:
        capacity_tokens: of each replica; None unbounded.
        ttl_s: seconds that a block stays after its last touch; None: for ever.
        replicas, policy: None: one cache.
        insert: when a prompt can be hit: at its `arrival`, or once it is computed (`finish`).
    """

    capacity_tokens: int | None = None
    ttl_s: float | None = None
    replicas: int | None = None
    policy: str | None = None
    insert: str = "arrival"


def check_cache(warehouse: Warehouse, prepared: Prepared, cache: Cache) -> None:
    """Check that misses of `cache` can be explained for this question.

    Raises:
        NeedsArrivals: the answer depends on times or on an order that the dataset does not have.
        BadQuestion: a parameter is invalid, or parameters contradict each other.
    """
    if cache.insert not in INSERTS:
        raise BadQuestion(f"{cache.insert!r} is none of {', '.join(INSERTS)}", "insert", INSERTS)
    if (cache.replicas is None) != (cache.policy is None):
        raise BadQuestion(
            "replicas and policy go together: give both", "replicas" if cache.replicas is None else "policy"
        )
    if prepared.question.definition != "tracetower" and cache != Cache(cache.capacity_tokens):
        raise BadQuestion(
            f"{prepared.question.definition} has capacities only: no TTL, no replicas, no insert at the finish",
            "definition",
            ["tracetower"],
        )
    if cache == Cache():
        if not prepared.order_known:
            warehouse.need_times(prepared, "which request met a prefix first")
        return
    timed = cache.ttl_s is not None or cache.insert == "finish"
    warehouse.need_times(prepared, "why a bounded, routed or busy cache misses", seconds=timed)
