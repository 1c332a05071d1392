"""Compares two workloads: figures, differences with intervals, and warnings where the comparison is doubtful.

Each side is a dataset or a profile. The intervals of each side come from resampling its top-level sessions, as in
profiles. The interval of a difference combines both, assuming that the sides are independent.
"""

from __future__ import annotations

from typing import Any

from analysis.profile.profile import profile
from analysis.profile.targets import FIGURES, QUANTITIES
from analysis.store.warehouse import Warehouse

DURATION_RATIO = 2.0
"""A warning is given if durations differ by more than this factor."""

MEANING = {
    "difference": "b - a",
    "interval": "95 %, null where a side has none: each side by resampling its top-level sessions whole "
    "(bootstrap), the difference from both as independent samples (Zou and Donner 2008)",
    "verdict": "differs where the interval does not hold 0",
}

COVERAGE_DIFFERENCE = 0.05
"""A warning is given if the shares of requests with a known figure differ by more than this."""


def profile_of(side: Warehouse | dict[str, Any], block_size: int | None, arrivals: str) -> dict[str, Any]:
    """The profile of one side.

    Raises:
        BadQuestion: a block size or arrival model that does not fit the dataset.
    """
    return side if isinstance(side, dict) else profile(side, block_size, arrivals)


def compare(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Definition, rows (metric, a, b, difference, interval) and warnings of two profiles.

    `difference` is b − a; `interval` its 95 % interval, None if one side has none. If the interval does not contain 0,
    chance in the choice of sessions does not explain the difference.
    """
    rows = [_row(name, a["overall"][name], b["overall"][name])
            for name in ("requests", "sessions", "main_sessions", "context_max_tokens")]  # fmt: skip
    for path in QUANTITIES:
        here, there = _figures(a, path), _figures(b, path)
        if here is None and there is None:
            continue
        for figure in FIGURES:
            rows.append(
                _row(
                    "_".join((*[p for p in path if p not in ("all", "cached")], figure)),
                    _of(here, figure), _of(there, figure), _interval(here, figure), _interval(there, figure),
                )
            )  # fmt: skip
    first, second = a["overall"], b["overall"]
    rows.append(_row("input_output_ratio", first["input_output_ratio"], second["input_output_ratio"],
                     first["input_output_ratio_interval"], second["input_output_ratio_interval"]))  # fmt: skip
    rows.append(_row("ceiling", first["cached"]["ceiling"], second["cached"]["ceiling"],
                     first["cached"]["ceiling_interval"], second["cached"]["ceiling_interval"]))  # fmt: skip
    rows.append(_row("reported", first["cached"]["reported"], second["cached"]["reported"]))
    rows += _rates(first, second, "at_capacity", "capacity_tokens")
    rows += _rates(first, second, "at_ttl", "ttl_s")
    for name in ("requests_per_s", "requests_per_s_peak_minute", "sessions_per_s"):
        rows.append(_row(name, _of(a["arrivals"], name), _of(b["arrivals"], name)))
    for name in ("per_main_session", "share_of_requests"):
        rows.append(_row(f"subagents_{name}", first["subagents"][name], second["subagents"][name]))
    name = "per_main_session"
    rows.append(_row(f"compactions_{name}", _of(first["compactions"], name), _of(second["compactions"], name)))
    for kind in sorted({*first["transitions"], *second["transitions"]}):
        one, two = (side["transitions"].get(kind, 0.0) for side in (first, second))
        rows.append(_row(f"transition_{kind}", one, two))
    return {"definition": dict(MEANING), "rows": rows, "warnings": warnings(a, b)}


def _rates(a: dict[str, Any], b: dict[str, Any], where: str, key: str) -> list[dict[str, Any]]:
    one = {p[key]: p for p in a["cached"][where] or []}
    two = {p[key]: p for p in b["cached"][where] or []}
    return [
        _row(f"hit_rate_{where}_{point:,.0f}", one[point]["hit_rate"], two[point]["hit_rate"],
             one[point].get("interval"), two[point].get("interval"))
        for point in sorted(one.keys() & two.keys())
    ]  # fmt: skip


def _figures(side: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any] | None:
    found: Any = side["overall"]
    for name in path:
        found = found[name]
    return None if found is None else dict(found)


def _of(figures: dict[str, Any] | None, name: str) -> float | None:
    return None if figures is None else figures[name]


def _interval(figures: dict[str, Any] | None, name: str) -> list[float] | None:
    return None if figures is None else figures["interval"][name]


def _row(
    metric: str,
    a: float | None,
    b: float | None,
    around_a: list[float] | None = None,
    around_b: list[float] | None = None,
) -> dict[str, Any]:
    difference = None if a is None or b is None else b - a
    return {
        "metric": metric, "a": a, "b": b, "difference": difference,
        "interval": None if a is None or b is None or around_a is None or around_b is None
        else _difference(a, b, around_a, around_b),
    }  # fmt: skip


def _difference(a: float, b: float, around_a: list[float], around_b: list[float]) -> list[float]:
    """Interval of b − a from the intervals of both: the squares of their half widths add up (independent samples).

    The method of variance estimates recovery (Zou and Donner, "Construction of confidence limits about effect measures:
    a general approach", 2008), which also handles asymmetric intervals.
    """
    low = ((b - around_b[0]) ** 2 + (around_a[1] - a) ** 2) ** 0.5
    high = ((around_b[1] - b) ** 2 + (a - around_a[0]) ** 2) ** 0.5
    return [b - a - low, b - a + high]


def warnings(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Warnings about differences in how the two profiles were made."""
    found = []
    one, two = a["definition"], b["definition"]
    for name, why in (
        ("block_size", "hit rates of larger blocks are lower"),
        ("arrivals", "hit rates at capacities and TTLs depend on it"),
        ("window", "the sides count different parts of their traces"),
    ):
        if one[name] != two[name]:
            found.append(f"{name.replace('_', ' ')}: {one[name]} against {two[name]} ({why})")
    first, second = a["coverage"], b["coverage"]
    if first["sources"] != second["sources"]:
        found.append(
            f"sources: {', '.join(first['sources'])} against {', '.join(second['sources'])} (what they carry differs)"
        )
    for name in ("known_prompts", "known_outputs", "known_durations", "native_sessions"):
        if abs(first[name] - second[name]) > COVERAGE_DIFFERENCE:
            found.append(
                f"{name.replace('_', ' ')}: {100 * first[name]:.0f} % of requests against {100 * second[name]:.0f} %"
            )
    if (first["duration_s"] is None) != (second["duration_s"] is None):
        found.append(
            "only one side has times across sessions: rates and hit rates at capacities are compared with nothing"
        )
    elif first["duration_s"] and second["duration_s"]:
        ratio = first["duration_s"] / second["duration_s"]
        if not 1 / DURATION_RATIO <= ratio <= DURATION_RATIO:
            found.append(
                f"duration: {first['duration_s']:,.0f} s against {second['duration_s']:,.0f} s (longer traces meet "
                "more prefixes again)"
            )
    if all(first[name] == second[name] for name in ("requests", "main_sessions", "input_tokens", "output_tokens")):
        found.append(
            "both have as many requests, sessions and tokens: if they are the same sessions, intervals are wider than "
            "they need be, since they take the two for independent"
        )
    for side, name in ((first, "a"), (second, "b")):
        if side["main_sessions"] < 30:
            found.append(f"{name} has {side['main_sessions']} top-level sessions only: its intervals are wide")
    return found
