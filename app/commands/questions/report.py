"""report: the headline figures of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.commands.questions.html_report import write_html
from app.commands.questions.printed import finding_rows, print_report
from app.commands.shell.command import command
from app.commands.shell.options import dataset_argument, json_option, opened, question_of, question_options
from app.commands.shell.terminal import emit_json, note


@command("report")
@dataset_argument
@click.option("--by", "axes", multiple=True, help="An axis to group by (repeatable) [trajectory_type].")
@question_options
@click.option("--html", type=click.Path(), help="Also write the report as one self-contained page.")
@json_option
def report_command(dataset: str, axes: tuple[str, ...], html: str | None, as_json: bool, **options: Any) -> None:
    """The findings and headline figures of DATASET: workload, overlap, achievable and reported hit rate, by any axis.

    \b
    Examples:
      tracetower report mine
      tracetower report mine --by role --by model --json
      tracetower report mine --where trajectory_type=edited --html report.html
    """
    from analysis.findings.kept import findings_of
    from analysis.findings.workload import of_page
    from analysis.headline.report import DEFAULT_AXES, report
    from analysis.store.axes import check_axis

    chosen = tuple(check_axis(a) for a in axes) or DEFAULT_AXES
    warehouse, question = opened(dataset), question_of(options, chosen)
    figures = report(warehouse, question, chosen)
    found = findings_of(warehouse, question)
    if html is not None:
        write_html(Path(html), figures, of_page(found, "overview"))
        note(f"{html} written")
    if as_json:
        emit_json({**figures, "findings": finding_rows(found, dataset, question)})
    else:
        print_report(figures, of_page(found, "overview"))
