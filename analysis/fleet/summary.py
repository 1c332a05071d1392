"""Summaries of a grid of replays: figures per policy over its seeds, fleets that meet an objective, load over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.grid import Objective, mean_interval, meets
from analysis.fleet.load_figures import figures, load_over_time
from analysis.fleet.routing import Cell, Trace, replay


class Ran(NamedTuple):
    """A finished cell: its figures, and requests in flight over time.

    Attributes:
        figures: of `analysis.fleet.load_figures.figures`.
        seconds: float64[m] from the first arrival.
        running: int32[m, R], requests in flight per replica; -1: not alive. Empty where service takes no time.
    """

    figures: dict[str, Any]
    seconds: NDArray[np.float64]
    running: NDArray[np.int32]


def run_cell(trace: Trace, cell: Cell) -> Ran:
    """Replay `trace` in `cell`: one task of a pool.

    Raises:
        ValueError: what `analysis.fleet.routing.replay` refuses.
    """
    result = replay(trace, cell)
    if cell.service == "instant":
        return Ran(figures(result), np.empty(0), np.empty((0, cell.replicas), np.int32))
    return Ran(figures(result), *load_over_time(result))


def by_policy(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per policy, replicas and capacity the mean over seeds of every figure that is a number or a band of two.

    None where a seed's is unknown. `hit_rate_interval` and `vmr_interval` are 95 % intervals of the means (Student's
    t), None with one seed; lists per replica and fleet events are left out.
    """
    out = []
    for (name, replicas, capacity), group in _groups(rows).items():
        row: dict[str, Any] = {"policy": name, "replicas": replicas, "capacity_tokens": capacity, "seeds": len(group)}
        for key in group[0]:
            if key in row or key in ("seed", "events") or key.endswith("_per_replica"):
                continue
            row[key] = _mean([r[key] for r in group])
        for key, source in (("hit_rate_interval", "hit_rate"), ("vmr_interval", "vmr_running_requests")):
            row[key] = mean_interval([r[source] for r in group]) if len(group) > 1 else None
        out.append(row)
    return out


def fleets(rows: Sequence[dict[str, Any]], objective: Objective) -> list[dict[str, Any]]:
    """Per policy, replicas and capacity whether every seed meets the objective, and the figures that decide it.

    `meets` is None where a figure that decides is unknown or nothing is asked. `p99_running_requests` and `ttft_s_p99`
    (high end of the band) are the worst seed's, `hit_rate_loss` is the mean against one shared cache of the same total
    size, `total_tokens` all caches together (None: unbounded).
    """
    asked = any(value is not None for value in objective)
    out = []
    for (name, replicas, capacity), group in _groups(rows).items():
        verdicts = [meets(row, objective) for row in group]
        known = [row for row in group if row["hit_rate"] is not None]
        verdict = False if False in verdicts else None if None in verdicts or not asked else True
        out.append(
            {
                "policy": name,
                "replicas": replicas,
                "capacity_tokens": capacity,
                "total_tokens": None if capacity is None else capacity * replicas,
                "meets": verdict,
                "p99_running_requests": _worst([row["p99_running_requests"] for row in group]),
                "ttft_s_p99": _worst([row["ttft_s_p99"] and row["ttft_s_p99"][1] for row in group]),
                "hit_rate_loss": fmean(row["one_cache_hit_rate"] - row["hit_rate"] for row in known) if known else None,
            }
        )
    return out


def smallest(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of `fleets` that meet the objective with fewest replicas, then least cache: one a policy; [] if none."""
    kept = [row for row in found if row["meets"]]

    def size(row: dict[str, Any]) -> tuple[int, float]:
        capacity = row["capacity_tokens"]
        return row["replicas"], math.inf if capacity is None else capacity

    least = min(map(size, kept), default=None)
    return [row for row in kept if size(row) == least]


def load_cells(ran: Ran, most: int, replicas: int = 64) -> list[dict[str, Any]]:
    """Requests in flight per replica over time, averaged over equal bins so that there are at most `most` rows.

    Columns: replica, from_s, to_s, running. At most `replicas` replicas: the fullest ones on average. A bin in which a
    replica was not alive is left out.
    """
    taken = len(ran.running)
    if taken == 0:
        return []
    alive = ran.running >= 0
    held = np.where(alive, ran.running, 0)
    means = held.sum(axis=0) / np.maximum(alive.sum(axis=0), 1)
    shown = np.sort(np.argsort(-means, kind="stable")[:replicas])
    bins = max(1, min(taken, most // max(len(shown), 1)))
    edges = np.linspace(0, taken, bins + 1).astype(np.int64)
    gap = float(ran.seconds[1] - ran.seconds[0]) if taken > 1 else 1.0
    rows = []
    for r in shown.tolist():
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            there = alive[low:high, r]
            if there.any():
                from_s = float(ran.seconds[low])
                to_s = float(ran.seconds[high - 1]) + gap
                running = float(held[low:high, r].sum() / there.sum())
                rows.append({"replica": r, "from_s": from_s, "to_s": to_s, "running": running})
    return rows


def _groups(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, int, int | None], list[dict[str, Any]]]:
    groups: dict[tuple[str, int, int | None], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["policy"], row["replicas"], row["capacity_tokens"]), []).append(row)
    return groups


def _mean(values: Sequence[Any]) -> Any:
    if any(value is None for value in values):
        return None
    if isinstance(values[0], list):
        return [fmean(ends) for ends in zip(*values, strict=True)]
    return fmean(values)


def _worst(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None
