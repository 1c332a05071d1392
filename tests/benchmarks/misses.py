"""How long all that the page Why shows takes after ingest, by part. Run by hand.

    python -m tests.benchmarks.misses DATASET [--arrivals A]

DATASET: an ingested trace, for instance one of the fixed-seed generator with 2,000 agent sessions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from analysis.headline.eviction_age import eviction_age
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from analysis.why.divergences import divergences
from analysis.why.edited.what_ifs import what_if_table
from analysis.why.intervals import group_rates
from analysis.why.misses import by_group, misses
from analysis.why.provider.gap import provider_gap
from analysis.why.transition_losses import transition_losses

AXES = ("all", "trajectory_type", "transition", "turn", "prompt_length")
"""Whose rates get intervals; the page shows one of them at a time."""


def whole_page(dataset: str, question: Question) -> tuple[dict[str, float], int]:
    """Seconds by part of the page's data, and how many requests there are."""
    warehouse = open_dataset(dataset)
    parts: dict[str, float] = {}

    def timed(name: str, make: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = make()
        parts[name] = time.perf_counter() - start
        return made

    found = timed("causes", lambda: misses(warehouse, question))
    block = warehouse.prepare(question).block_size
    timed("by type", lambda: by_group(warehouse, question, found, "trajectory_type"))
    for axis in AXES:
        timed(f"intervals by {axis}", lambda axis=axis: group_rates(warehouse, question, found, axis))
    timed("transitions", lambda: transition_losses(warehouse, question, found))
    timed("divergences", lambda: divergences(warehouse, question))
    timed("provider", lambda: provider_gap(warehouse, question, found, "model"))
    timed("what-ifs", lambda: what_if_table(warehouse, question, found))
    timed("eviction age", lambda: eviction_age(warehouse, question))
    queries: tuple[tuple[str, dict[str, Any]], ...] = (
        ("hit_rate", {"block": block}),
        ("misses", {"axis": "all", "causes": found.causes}),
        ("missing_sessions", {"causes": found.causes}),
        ("hit_rate_over_time", {}),
        ("working_set", {"block": block}),
        ("reuse_age", {"block": block}),
        ("session_load", {}),
        ("cache_survival", {}),
        ("gaps", {}),
    )
    for name, params in queries:
        timed(name, lambda name=name, params=params: warehouse.query(name, question, **params))
    requests = warehouse.prepare(question).requests
    warehouse.close()
    return parts, requests


def main() -> None:
    """Print seconds by part and in all, twice: the first run also fills the dataset's cache and compiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--arrivals", default="recorded")
    asked = parser.parse_args()
    for run in ("first", "again"):
        parts, requests = whole_page(asked.dataset, Question(arrivals=asked.arrivals))
        print(f"{run}: {sum(parts.values()):.2f} s for {requests:,} requests")
        print("   " + ", ".join(f"{name} {took:.2f}" for name, took in parts.items()))


if __name__ == "__main__":
    main()
