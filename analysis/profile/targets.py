"""Compares a synthetic workload with the profile it was made from: target and observed figures."""

from __future__ import annotations

from typing import Any

from analysis.profile.profile import profile
from analysis.store.warehouse import Warehouse

QUANTITIES = (
    ("input_tokens",), ("new_tokens_per_turn",), ("output_tokens",), ("reasoning_tokens",), ("turns",),
    ("gap_s", "all"), ("gap_s", "tool"), ("gap_s", "human"), ("duration_s",), ("cached", "ceiling_tokens"),
)  # fmt: skip
FIGURES = ("mean", "p50", "p90", "p99")
TOLERANCE, RATE_TOLERANCE = 0.03, 0.01


def against(target: dict[str, Any], made: Warehouse) -> list[dict[str, Any]]:
    """Profile `made` with the settings of `target`, and compare the two (see `rows`)."""
    asked = target["definition"]
    return rows(target, profile(made, asked["block_size"], asked["arrivals"]))


def rows(
    target: dict[str, Any], observed: dict[str, Any], quantities: tuple[tuple[str, ...], ...] = QUANTITIES,
    figures: tuple[str, ...] = FIGURES,
) -> list[dict[str, Any]]:  # fmt: skip
    """A row per mean, quantile and rate that the target has: figure, target, observed, error, interval, holds.

    `holds` where the observed figure is within 3 % of the target or inside its interval (95 %); for rates within a
    point or inside their interval.
    """
    found = []
    for path in quantities:
        a, b = _at(target["overall"], path), _at(observed["overall"], path)
        if a is None:
            continue
        for name in figures:
            low, high = a["interval"][name]
            found.append(_row(".".join((*path, name)), a[name], None if b is None else b[name], low, high, TOLERANCE))
    a, b = target["overall"], observed["overall"]
    found.append(_row("input_output_ratio", a["input_output_ratio"], b["input_output_ratio"],
                      *_interval(a["input_output_ratio_interval"]), TOLERANCE))  # fmt: skip
    found.append(_row("cached.ceiling", a["cached"]["ceiling"], b["cached"]["ceiling"],
                      *_interval(a["cached"]["ceiling_interval"]), RATE_TOLERANCE, rate=True))  # fmt: skip
    found += _rates(a["cached"]["at_capacity"], b["cached"]["at_capacity"], "capacity_tokens")
    found += _rates(a["cached"]["at_ttl"], b["cached"]["at_ttl"], "ttl_s")
    return [row for row in found if row["target"] is not None]


def _rates(a: list[dict[str, Any]] | None, b: list[dict[str, Any]] | None, key: str) -> list[dict[str, Any]]:
    if a is None or b is None:
        return []
    made = {point[key]: point["hit_rate"] for point in b}
    flat = b[-1]["hit_rate"] if key == "capacity_tokens" and b else None  # the curve is flat after its last point
    return [
        _row(f"hit_rate.{key}={point[key]:,.0f}", point["hit_rate"], made.get(point[key], flat),
             *_interval(point.get("interval")), RATE_TOLERANCE, rate=True)
        for point in a
    ]  # fmt: skip


def _at(group: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    found: Any = group
    for name in path:
        found = found[name]
    return None if found is None else dict(found)


def _interval(pair: list[float] | None) -> tuple[float | None, float | None]:
    return (None, None) if pair is None else (pair[0], pair[1])


def _row(
    figure: str, target: float | None, observed: float | None, low: float | None, high: float | None, tolerance: float,
    rate: bool = False,
) -> dict[str, Any]:  # fmt: skip
    error = None
    if target is not None and observed is not None:
        error = observed - target if rate else (observed - target) / abs(target) if target else observed - target
    inside = low is not None and high is not None and observed is not None and low <= observed <= high
    return {
        "figure": figure, "target": target, "observed": observed, "error": error, "interval_from": low,
        "interval_to": high, "holds": None if error is None else abs(error) <= tolerance or inside,
    }  # fmt: skip
