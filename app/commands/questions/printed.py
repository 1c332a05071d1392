"""A report for people: figures with what they mean."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from app.commands.shell.terminal import emit_figures, emit_rows, say
from app.widgets.flags import question_flags
from app.widgets.formats import WRITTEN

if TYPE_CHECKING:
    from analysis.findings.finding import Finding
    from analysis.store.question import Question

DEFINED = ("hit", "ceiling", "engine", "eviction", "method", "capacity", "concurrency", "replies", "tiers")


def print_report(figures: dict[str, Any], found: list[Finding]) -> None:
    """The report for people: what stands out, figures with what they mean, then the tables by axis."""
    print_findings(found)
    for title, part in (("Workload", "workload"), ("Overlap", "overlap"), ("Hit rate", "hit_rate")):
        emit_figures(title, figures[part])
    for axis, rows in figures["by"].items():
        say(f"\nBy {axis}")
        emit_rows(rows)
    print_definition(figures["definition"])


NEXT = {"cache": ("curve",), "why": ("misses",), "overview": ("report",), "data": ("formats",), "routing": ("route",)}
"""Page that shows more of a finding -> the command that does."""


def finding_rows(found: list[Finding], dataset: str, question: Question) -> list[dict[str, Any]]:
    """Findings as JSON: ranked, each with the tokens and the rate that it is about, where, and the command to go on."""
    asked = question_flags(question.block_size, question.arrivals, question.window, question.where)
    rows = []
    for rank, finding in enumerate(found, 1):
        figures = {name: stated.value for name, stated in finding.figures.items()}
        words = [*NEXT.get(finding.page, ("misses",)), dataset, *asked]
        if finding.page == "sessions":
            words = ["query", dataset, "session_turns", f"session={finding.settings['session']}", *asked]
        elif finding.page == "data":
            words = ["formats"]
        elif remedy := finding.settings.get("why-remedy"):
            words += ["--show", "sessions", "--remedy", remedy]
        rows.append(
            {
                "rank": rank,
                **finding.to_dict(WRITTEN),
                "tokens": figures.get("tokens"),
                "rate": figures.get("share", figures.get("ceiling")),
                "where": finding.settings,
                "next": shlex.join(["tracetower", *words]),
            }
        )
    return rows


def print_findings(found: list[Finding]) -> None:
    """What stands out, a sentence each."""
    say("Findings")
    for finding in found:
        say(click.wrap_text(finding.sentence(WRITTEN), 110, "  - ", "    "))
    say()


def print_definition(means: dict[str, Any]) -> None:
    """What the figures above mean, for people."""
    parts = [f"{name.capitalize()}: {means[name]}." for name in DEFINED if means.get(name)]
    say(
        f"\nDefinition {means['name']}: {means['rate']}. {' '.join(parts)} "
        f"Block size {means['block_size']}, arrivals {means['arrivals']}, window {means['window']}."
    )
