"""How long the whole page Why takes after ingest, by part. Run by hand.

    python -m tests.benchmarks.misses DATASET [--arrivals A]

DATASET: an ingested trace, for instance one of the fixed-seed generator with 2,000 agent sessions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from analysis.divergences import divergences
from analysis.misses import by_group, misses
from analysis.provider_gap import provider_gap
from analysis.question import Question
from analysis.transition_losses import transition_losses
from analysis.warehouse import open_dataset
from analysis.what_ifs import what_if_table


def whole_page(dataset: str, question: Question) -> tuple[dict[str, float], int]:
    """Seconds by part of the page's data, and how many requests there are."""
    warehouse = open_dataset(dataset)
    parts: dict[str, float] = {}

    def timed(name: str, make: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = make()
        parts[name] = time.perf_counter() - start
        return made

    found = timed("misses", lambda: misses(warehouse, question))
    block = warehouse.prepare(question).block_size
    timed("by type", lambda: by_group(warehouse, question, found, "trajectory_type"))
    timed("transitions", lambda: transition_losses(warehouse, question, found))
    timed("divergences", lambda: divergences(warehouse, question))
    timed("provider", lambda: provider_gap(warehouse, question, found, "model"))
    timed("what-ifs", lambda: what_if_table(warehouse, question, found))
    queries: tuple[tuple[str, dict[str, Any]], ...] = (
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
