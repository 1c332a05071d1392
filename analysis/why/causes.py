"""The table of causes: why input tokens hit or miss. Each token of a prompt counts for exactly one cause."""

from __future__ import annotations

from typing import NamedTuple


class Cause(NamedTuple):
    """One cause.

    Attributes:
        label: its name in tables and charts.
        means: what its tokens have in common, in a few words.
    """

    label: str
    means: str


CAUSES = {
    "hit": Cause("hit", "read from the cache"),
    "in_flight": Cause("in flight", "a running request was still computing it"),
    "routing": Cause("routing", "in one shared cache of the same total size it would hit"),
    "ttl": Cause("TTL", "in the shared cache, but last used longer ago than the TTL"),
    "capacity": Cause("capacity", "in the shared cache, but evicted before"),
    "block_rounding": Cause("block rounding", "shared with an earlier prompt, but short of a full block"),
    "rewritten": Cause("rewritten", "the session's previous prompt had other text in this place"),
    "first_seen": Cause("first seen", "no earlier prompt had it"),
}
"""The table of causes, in the order in which tokens are attributed."""

ORDER = "; ".join(f"{name}: {cause.means}" for name, cause in CAUSES.items())
"""All causes in one sentence."""

REWRITING = ("edit", "system_change", "tail", "unrelated")
"""Transitions whose lost history counts as rewritten."""
