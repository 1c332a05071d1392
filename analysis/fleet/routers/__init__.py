"""Routing policies: one small file each, one line each in POLICIES."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.fleet.routers.fleet import Policy

POLICIES = {
    "random": "any replica, uniformly, for every request",
    "round_robin": "the next replica, for every request",
    "session_affinity": "a new session takes the next replica and stays there",
    "longest_prefix": "the replica that holds most of the prompt; ties to the lowest index",
    "least_requests": "the replica with the fewest requests in flight",
    "power_of_two": "the less loaded of two replicas drawn at random",
    "session_hash": "rendezvous hashing of the session",
    "ring_hash": "consistent hashing of the session on a ring (vllm-router's consistent_hash)",
    "bounded_load": "consistent hashing, walking on from replicas above c times the mean load (CHWBL)",
    "sticky_least_loaded": "a new session takes the replica with the fewest live sessions and stays there",
    "sglang_cache_aware": "longest prefix above a threshold, else least loaded; least loaded when out of balance",
    "dynamo_kv": "least sum of prompt blocks to compute and KV blocks in use",
    "llm_d": "weighted sum of prefix, queue and KV scores",
    "production_stack_prefix": "the replica that was sent the longest prefix; no load term",
    "preble": "exploit a prefix that covers most of the prompt, else explore by load and cost (E2)",
    "ray_prefix_affinity": "best prefix match from 10 %, else the smallest tree; power of two when out of balance",
    "tower": "sticky sessions, balanced on requests in flight within a budget of recomputed tokens",
}
"""Policy name -> its rule in a few words. The policy itself is `POLICY` of the module of that name."""

FOLDERS = {
    "load": ("random", "round_robin", "least_requests", "power_of_two", "sticky_least_loaded"),
    "hashing": ("session_affinity", "session_hash", "ring_hash", "bounded_load"),
    "prefix": ("longest_prefix", "tower"),
    "projects": (
        "dynamo_kv", "llm_d", "preble", "production_stack_prefix", "ray_prefix_affinity", "sglang_cache_aware",
    ),
}  # fmt: skip
"""Folder of this package -> the policies whose modules it holds."""


def policy(name: str) -> Policy:
    """The policy called `name`.

    Raises:
        ValueError: there is none; the message lists those there are.
    """
    if name not in POLICIES:
        raise ValueError(f"no routing policy is called {name!r}; there are {', '.join(POLICIES)}")
    folder = next(folder for folder, names in FOLDERS.items() if name in names)
    found: Policy = import_module(f"analysis.fleet.routers.{folder}.{name}").POLICY
    return found
