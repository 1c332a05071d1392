"""demo: the bundled sessions, ingested and reported."""

from __future__ import annotations

from pathlib import Path

import click

from app.commands.questions.printed import finding_rows, print_report
from app.commands.shell.command import command
from app.commands.shell.options import json_option, opened
from app.commands.shell.progress import IngestProgress
from app.commands.shell.terminal import emit_json, say
from app.widgets.formats import figure


@command("demo")
@click.option("-o", "--output", type=click.Path(), default="demo-dataset", show_default=True, help="Where to write it.")
@json_option
def demo_command(output: str, as_json: bool) -> None:
    """Ingest ten bundled real coding-agent sessions and print what a KV cache could reuse.

    \b
    Example:
      tracetower demo
    """
    from analysis.findings.kept import findings_of
    from analysis.findings.workload import of_page
    from analysis.headline.report import report
    from analysis.store.question import Question
    from traces.intake.demo import demo_inputs
    from traces.intake.ingest import Options, ingest

    ingest(demo_inputs(), Path(output), Options(), None if as_json else IngestProgress())
    warehouse, question = opened(output), Question(arrivals="staggered:600")
    figures = report(warehouse, question, ("trajectory_type",))
    found = findings_of(warehouse, question)
    if as_json:
        emit_json({**figures, "findings": finding_rows(found, output, question)})
        return
    say("Ten real coding-agent sessions, started 600 s apart (--arrivals staggered:600)\n")
    print_report(figures, of_page(found, "overview"))
    hit = figures["hit_rate"]["ceiling"]
    say(f"\nA KV cache could reuse {figure('ceiling', hit)} of the input tokens of these sessions.")
    say(f"Look at it in a browser:  tracetower app {output}")
