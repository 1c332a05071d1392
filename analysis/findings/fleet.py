"""The finding of a fleet: a policy that sends everything to one replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.findings.finding import Finding, Stated
from analysis.findings.thresholds import FIRST, THRESHOLDS


def on_one_replica(row: dict[str, Any]) -> bool:
    """Whether one replica of several has nearly all prompt tokens (`row` as of `analysis.fleet.summary`)."""
    most = row["max_over_mean_load"]
    return row["replicas"] > 1 and most is not None and most / row["replicas"] >= THRESHOLDS["one_replica"].value


def fleet_findings(rows: Sequence[dict[str, Any]]) -> list[Finding]:
    """A finding for each policy that uses one replica."""
    return [
        Finding(
            "one_replica",
            "{policy} sends {share} of the prompt tokens to one of {replicas} replicas: its hit rate is that of a "
            "single replica, which does all the work. It is listed last.",
            {"policy": Stated(row["policy"], "text"),
             "share": Stated(row["max_over_mean_load"] / row["replicas"], "rate"),
             "replicas": Stated(row["replicas"], "count")},
            FIRST["one_replica"], "routing", {},
        )
        for row in rows
        if on_one_replica(row)
    ]  # fmt: skip
