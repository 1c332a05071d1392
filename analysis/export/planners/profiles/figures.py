"""Reads the figures that planners need from a profile, or says why they are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.export.planners import Written
from analysis.export.planners.output import new_file
from analysis.store.question import BadQuestion

Profile = dict[str, Any]


def need(profile: Profile, name: str) -> dict[str, Any]:
    """The figures called `name` of all requests.

    Raises:
        BadQuestion: the dataset does not have them.
    """
    found = profile["overall"].get(name)
    if found is None:
        raise BadQuestion(f"this target needs {name.replace('_', ' ')}, which this dataset does not know")
    return dict(found)


def whole(value: float | None, least: int = 0) -> int:
    """A rounded figure, at least `least`; `least` if it is unknown."""
    return least if value is None else max(least, round(value))


def lognormal(
    figures: dict[str, Any], scale: float = 1.0, notes: list[str] | None = None, name: str = ""
) -> dict[str, float]:
    """Mean and median for a lognormal: mean ≥ median > 0. A note is added to `notes` if that changes the sample's."""
    mean, median = figures["mean"] * scale, max(figures["p50"] * scale, 1e-3)
    if mean < median:
        if notes is not None:
            notes.append(
                f"{name}: the mean is below the median, which a lognormal cannot have: the median is written twice"
            )
        mean = median
    return {"mean": round(mean, 3), "median": round(median, 3)}


def deviation(figures: dict[str, Any]) -> float:
    """Standard deviation of a lognormal with the sample's mean and median (0 where the mean is not above it)."""
    mean, median = figures["mean"], figures["p50"]
    return 0.0 if median <= 0 or mean <= median else float(mean * ((mean / median) ** 2 - 1) ** 0.5)


def rate(profile: Profile) -> float | None:
    """Requests per second; None if times across sessions are not known."""
    arrivals = profile["arrivals"]
    return None if arrivals is None else arrivals["requests_per_s"]


def session_rate(profile: Profile) -> float | None:
    """Top-level sessions started per second; None if unknown."""
    arrivals = profile["arrivals"]
    return None if arrivals is None else arrivals["sessions_per_s"]


def concurrency(profile: Profile) -> int | None:
    """Mean requests in flight, at least 1; None if unknown."""
    arrivals = profile["arrivals"]
    if arrivals is None or arrivals["in_flight_requests"] is None or arrivals["in_flight_requests"]["mean"] is None:
        return None
    return max(1, round(arrivals["in_flight_requests"]["mean"]))


def write_text(path: Path, text: str, notes: list[str], commands: list[str]) -> Written:
    """Write one document."""
    with new_file(path) as file:
        file.write(text.encode())
    return Written(1, notes, commands)


def write_yaml(path: Path, document: Any, notes: list[str], commands: list[str]) -> Written:
    """Write a YAML document in the order of its keys."""
    import yaml

    return write_text(path, yaml.safe_dump(document, sort_keys=False, width=1000), notes, commands)
