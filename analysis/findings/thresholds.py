"""From where on something stands out, each with its reason."""

from __future__ import annotations

from typing import NamedTuple


class Threshold(NamedTuple):
    """A bound and why it is there."""

    value: float
    reason: str


THRESHOLDS = {
    "lost_share": Threshold(0.002, "0.2 % of the prompt tokens: below, a rate written with one decimal hardly moves"),
    "provider_share": Threshold(0.005, "half a point, the size of what counting by block or by token explains"),
    "rounding_share": Threshold(0.01, "a point: smaller blocks cost an engine more, so it has to be worth it"),
    "unrelated_share": Threshold(0.01, "a point of the prompt tokens in prompts that start anew inside a session"),
    "near_ceiling": Threshold(0.01, "one point below the ceiling: the last point often needs several times the cache"),
    "head_range": Threshold(0.0005, "a range that shows in a rate written with one decimal"),
    "whole_coverage": Threshold(0.9995, "what is written as less than 100.0 %"),
    "one_replica": Threshold(0.95, "a replica that has 95 % of all prompt tokens leaves the others idle"),
}
"""Name -> bound."""

FIRST = {"unknown": 1000.0, "answer": 900.0, "one_replica": 800.0, "size": 0.5, "limit": 0.3, "shape": 0.1,
         "nothing": 0.7}  # fmt: skip
"""Weights that are no points: the answer comes first, and the shape of the workload after every loss."""

MOST = 4
"""Findings per page."""


def at_least(value: float | None, name: str) -> bool:
    """Whether a value is known and reaches a threshold."""
    return value is not None and value >= THRESHOLDS[name].value
