"""A report for people: figures with what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from app.commands.shell.terminal import emit_figures, emit_rows, say
from app.widgets.formats import WRITTEN

if TYPE_CHECKING:
    from analysis.findings.finding import Finding

DEFINED = ("hit", "ceiling", "engine", "eviction", "method", "capacity", "concurrency", "replies", "tiers")


def print_report(figures: dict[str, Any], found: list[Finding]) -> None:
    """The report for people: what stands out, figures with what they mean, then the tables by axis."""
    say("Findings")
    for finding in found:
        say(click.wrap_text(finding.sentence(WRITTEN), 110, "  - ", "    "))
    say()
    for title, part in (("Workload", "workload"), ("Overlap", "overlap"), ("Hit rate", "hit_rate")):
        emit_figures(title, figures[part])
    for axis, rows in figures["by"].items():
        say(f"\nBy {axis}")
        emit_rows(rows)
    print_definition(figures["definition"])


def print_definition(means: dict[str, Any]) -> None:
    """What the figures above mean, for people."""
    parts = [f"{name.capitalize()}: {means[name]}." for name in DEFINED if means.get(name)]
    say(
        f"\nDefinition {means['name']}: {means['rate']}. {' '.join(parts)} "
        f"Block size {means['block_size']}, arrivals {means['arrivals']}, window {means['window']}."
    )
