"""Compares many replays (policies x replicas x capacities x seeds): pairs, the frontier, and fleets that meet an
objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from itertools import combinations, product
from statistics import fmean, stdev
from typing import Any, NamedTuple

from analysis.fleet.load_figures import cell_figures
from analysis.fleet.routers import policy as policy_of
from analysis.fleet.routing import Cell, Trace

# 97.5 % quantiles of Student's t by degrees of freedom, from 1; the normal's beyond.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120)


class Objective(NamedTuple):
    """Limits that a fleet must meet; None: no limit.

    Attributes:
        p99_running_requests: most requests in flight on a replica.
        ttft_s_p99: seconds, met by the high end of the band.
        hit_rate_loss: most hit rate lost against one shared cache.
    """

    p99_running_requests: float | None = None
    ttft_s_p99: float | None = None
    hit_rate_loss: float | None = None


def grid(
    base: Cell, policies: Iterable[str], replicas: Iterable[int], capacities: Iterable[int | None], seeds: int = 1
) -> list[Cell]:
    """Cells for every combination, seeds 0, 1, ... last; a policy keeps only the parameters that are its own."""
    cells = []
    for name, count, capacity, seed in product(policies, replicas, capacities, range(seeds)):
        own = {key: value for key, value in base.params.items() if key in policy_of(name).params}
        cells.append(base._replace(policy=name, replicas=count, capacity_tokens=capacity, seed=seed, params=own))
    return cells


def alike(cell: Cell) -> Cell:
    """The cell that has the same figures as `cell`: a policy without randomness does the same under every seed."""
    return cell if policy_of(cell.policy).seeded else cell._replace(seed=0)


def run_cells(trace: Trace, cells: Sequence[Cell], executor: Executor | None = None) -> list[dict[str, Any]]:
    """Figures of each cell, in their order, on `executor` or here.

    Cells that differ only in the seed of a policy without randomness are run once.

    Raises:
        ValueError: what `analysis.fleet.routing.replay` refuses.
    """
    distinct: dict[Any, Cell] = {}
    keys = []
    for cell in cells:
        same = alike(cell)
        key = repr(same)
        keys.append(key)
        distinct.setdefault(key, same)
    if executor is None:
        done = {key: cell_figures(trace, cell) for key, cell in distinct.items()}
    else:
        tasks = {key: executor.submit(cell_figures, trace, cell) for key, cell in distinct.items()}
        done = {key: task.result() for key, task in tasks.items()}
    return [{**done[key], "seed": cell.seed} for key, cell in zip(keys, cells, strict=True)]


def paired(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """a - b for every two policies under the same seeds, replicas and capacity: 95 % interval of the mean (Student's
    t).

    With one seed, or two policies without randomness, the interval is the single difference.
    """
    groups: dict[tuple[Any, Any], dict[str, dict[int, dict[str, Any]]]] = {}
    for row in rows:
        by_policy = groups.setdefault((row["replicas"], row["capacity_tokens"]), {})
        by_policy.setdefault(row["policy"], {})[row["seed"]] = row
    result = []
    for (replicas, capacity), by_policy in groups.items():
        for a, b in combinations(by_policy, 2):
            seeds = sorted(by_policy[a].keys() & by_policy[b].keys())
            differences = {
                key: mean_interval([_minus(by_policy[a][seed][key], by_policy[b][seed][key]) for seed in seeds])
                for key in ("hit_rate", "vmr_running_requests")
            }
            result.append(
                {
                    "a": a,
                    "b": b,
                    "replicas": replicas,
                    "capacity_tokens": capacity,
                    "seeds": len(seeds),
                    "hit_rate_difference": differences["hit_rate"],
                    "vmr_difference": differences["vmr_running_requests"],
                }
            )
    return result


def frontier(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Seed means per policy, replicas and capacity, and whether another policy there has as good a hit rate and load
    or better.

    `dominated` is None where the dispersion of the load is unknown (service takes no time).
    """
    groups: dict[tuple[Any, Any, Any], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["replicas"], row["capacity_tokens"], row["policy"]), []).append(row)
    means = [
        {
            "policy": name,
            "replicas": replicas,
            "capacity_tokens": capacity,
            "seeds": len(group),
            "hit_rate": _mean(row["hit_rate"] for row in group),
            "one_cache_hit_rate": _mean(row["one_cache_hit_rate"] for row in group),
            "vmr_running_requests": _mean(row["vmr_running_requests"] for row in group),
            "p99_running_requests": _mean(row["p99_running_requests"] for row in group),
        }
        for (replicas, capacity, name), group in groups.items()
    ]
    return [{**mean, "dominated": _dominated(mean, means)} for mean in means]


def meets(row: dict[str, Any], objective: Objective) -> bool | None:
    """Whether a cell's figures meet the objective; None if a figure that decides it is unknown."""
    checks: list[bool | None] = []
    loss = _minus(row["one_cache_hit_rate"], row["hit_rate"])
    ttft = row["ttft_s_p99"][1] if row["ttft_s_p99"] is not None else None
    for value, most in (
        (row["p99_running_requests"], objective.p99_running_requests),
        (ttft, objective.ttft_s_p99),
        (loss, objective.hit_rate_loss),
    ):
        if most is not None:
            checks.append(None if value is None else value <= most)
    if False in checks:
        return False
    return None if None in checks else True


def _dominated(row: dict[str, Any], rows: list[dict[str, Any]]) -> bool | None:
    hit, vmr = row["hit_rate"], row["vmr_running_requests"]
    if hit is None or vmr is None:
        return None
    for other in rows:
        if (other["replicas"], other["capacity_tokens"]) != (row["replicas"], row["capacity_tokens"]):
            continue
        if other["hit_rate"] is None or other["vmr_running_requests"] is None:
            continue
        better = other["hit_rate"] - hit, vmr - other["vmr_running_requests"]
        if min(better) >= 0 and max(better) > 0:
            return True
    return False


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def mean_interval(differences: Sequence[float | None]) -> list[float] | None:
    """95 % interval of the mean (Student's t) of at least one value; a single one is its own interval.

    None where one is unknown.
    """
    known = [value for value in differences if value is not None]
    if not known or len(known) < len(differences):
        return None
    if len(known) == 1:
        return [known[0], known[0]]
    freedom = len(known) - 1
    quantile = _T[freedom - 1] if freedom <= len(_T) else 1.96 + 2.5 / freedom
    half = quantile * stdev(known) / math.sqrt(len(known))
    return [fmean(known) - half, fmean(known) + half]
