"""Evenness of load against hits, policy by policy: the table in the README. Run by hand.

python -m tests.benchmarks.policies [DATASET]

Without a dataset: the seeded closed loops of `tests/closed_loop.py`, 1 M tokens of cache a replica, five seeds. With
one (kv_cache_tester_100): its sessions, a hundred at once, the first hour; policies with chance under eight seeds.
"""

import sys
from statistics import fmean
from typing import Any

from analysis.fleet.load_figures import cell_figures
from analysis.fleet.routed_trace import routed_trace
from analysis.fleet.routers import policy
from analysis.fleet.routing import Cell, Trace
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from tests.references.closed_loop import closed_loop_trace

SEEDS = (501, 502, 503, 504, 505)
LOOPS = ((20, 0.3), (20, 0.5), (20, 0.7), (20, 0.9), (50, 0.3), (50, 0.5), (50, 0.7), (50, 0.9))
FLEETS = ((2, 4_000_000), (4, 4_000_000), (4, 2_000_000), (8, 2_000_000))
POLICIES: dict[str, dict[str, float]] = {
    "tower": {}, "tower budget=0.05": {"budget": 0.05}, "tower budget=0.12": {"budget": 0.12},
    "sticky_least_loaded": {}, "session_affinity": {}, "session_hash": {}, "ring_hash": {}, "preble": {}, "llm_d": {},
    "bounded_load": {}, "dynamo_kv": {}, "round_robin": {}, "random": {}, "power_of_two": {}, "least_requests": {},
}  # fmt: skip


def show(name: str, rows: list[dict[str, Any]]) -> None:
    """One line: mean and range over seeds of dispersion and of points of hit rate lost."""
    vmr = [float(row["vmr_running_requests"]) for row in rows]
    lost = [100 * float(row["one_cache_hit_rate"] - row["hit_rate"]) for row in rows]
    print(
        f"  {name:<22}variance / mean {fmean(vmr):6.3f} ({min(vmr):.2f} to {max(vmr):.2f})   points lost"
        f" {fmean(lost):6.2f} (at most {max(lost):.2f})   p99 {fmean(row['p99_running_requests'] for row in rows):.1f}",
        flush=True,
    )


def loops() -> None:
    """The seeded closed loops."""
    for replicas, duty in LOOPS:
        made = [closed_loop_trace(seed=seed, replicas=replicas, duty=duty) for seed in SEEDS]
        print(f"{replicas} replicas, duty cycle {duty}")
        for name, params in POLICIES.items():
            rows = [
                cell_figures(
                    loop.trace,
                    Cell(
                        name.split()[0], replicas, 1_000_000, seed=seed, service="recorded", loop="closed",
                        population=loop.population, window_s=loop.window_s, params=params,
                    ),
                )
                for seed, loop in zip(SEEDS, made, strict=True)
            ]  # fmt: skip
            show(name, rows)


def sessions_of(trace: Trace, population: int | None) -> None:
    """The sessions of a dataset, `population` at once."""
    for replicas, capacity in FLEETS:
        print(f"{replicas} replicas of {capacity:,} tokens")
        for name, params in POLICIES.items():
            seeds = range(8 if policy(name.split()[0]).seeded else 1)
            rows = [
                cell_figures(
                    trace,
                    Cell(
                        name.split()[0], replicas, capacity, seed=seed, service="recorded", loop="closed",
                        population=population, window_s=(0.0, 3600.0), params=params,
                    ),
                )
                for seed in seeds
            ]  # fmt: skip
            show(name, rows)


def main() -> None:
    """Print the tables."""
    if len(sys.argv) > 1:
        routed = routed_trace(open_dataset(sys.argv[1]), Question(arrivals="closed:100"))
        sessions_of(routed.trace, routed.population)
    else:
        loops()


if __name__ == "__main__":
    main()
