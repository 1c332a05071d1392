"""The cache that is asked about."""

from __future__ import annotations

from typing import NamedTuple


class Cache(NamedTuple):
    """The cache that is asked about: one, or several replicas behind a policy.

    Attributes:
        capacity_tokens: of each replica; None unbounded.
        ttl_s: seconds that a block outlives its last touch; None for ever.
        replicas, policy: None: one cache.
        insert: when a prompt can be hit: at its `arrival`, or once it is computed (`finish`).
    """

    capacity_tokens: int | None = None
    ttl_s: float | None = None
    replicas: int | None = None
    policy: str | None = None
    insert: str = "arrival"
