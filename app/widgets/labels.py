"""What every figure is called and which unit it has: the one table for the command line, the HTML report and pages."""

from __future__ import annotations

import re
from typing import NamedTuple


class Label(NamedTuple):
    """A figure's name in words, and its unit: text, count, tokens, rate, points, ratio, factor, number, seconds."""

    words: str
    unit: str = "number"


LABELS: dict[str, Label] = {
    "group": Label("Group", "text"),
    "transition": Label("Transition", "text"),
    "requests": Label("Requests", "count"),
    "sessions": Label("Sessions", "count"),
    "main_sessions": Label("Main sessions", "count"),
    "input_tokens": Label("Input tokens", "tokens"),
    "output_tokens": Label("Output tokens", "tokens"),
    "prefix_tokens": Label("Prompt tokens", "tokens"),
    "missed_tokens": Label("Not reusable", "tokens"),
    "lost_tokens": Label("Tokens lost", "tokens"),
    "input_output_ratio": Label("Input : output", "ratio"),
    "turns_mean": Label("Requests per session", "number"),
    "reprocessing_factor": Label("Each token is sent", "factor"),
    "hit_rate": Label("Hit rate", "rate"),
    "ceiling": Label("Ceiling", "rate"),
    "ceiling_low": Label("Ceiling, low", "rate"),
    "ceiling_high": Label("Ceiling, high", "rate"),
    "ceiling_mean_per_request": Label("Ceiling, mean of requests", "rate"),
    "ceiling_block_weighted": Label("Ceiling, by blocks", "rate"),
    "ceiling_with_output": Label("Ceiling with output", "rate"),
    "loss_placement": Label("Lost to placement", "rate"),
    "loss_capacity": Label("Lost to capacity", "rate"),
    "reported": Label("Reported", "rate"),
    "gap": Label("Gap", "rate"),
    "what_if_removed": Label("If removed", "rate"),
    "what_if_constant": Label("If constant", "rate"),
    "what_if_moved_to_end": Label("If at the end", "rate"),
}
"""Column or key -> its label."""

_UNITS = {"_rate": "rate", "_coverage": "rate", "_tokens": "tokens", "_bytes": "bytes", "_s": "seconds",
          "_requests": "count", "_sessions": "count"}  # fmt: skip
"""Ending of a name -> unit, for figures that `LABELS` does not hold."""


def label(name: str) -> Label:
    """The label of a figure; for one that is not in the table, its name and the unit that its ending says."""
    if name in LABELS:
        return LABELS[name]
    measured = re.sub(r"_(mean|p\d+|max|sd)$", "", name)
    unit = next((unit for ending, unit in _UNITS.items() if measured.endswith(ending)), "number")
    return Label(name.replace("_", " ").capitalize(), unit)
