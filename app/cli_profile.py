"""Commands that hand a workload on: profile, export, synth, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.options import BadData, Size, opened
from app.terminal import emit_json, emit_rows


@click.command("export")
@click.argument("dataset", required=False, type=click.Path())
@click.option("--to", "target", help="What to write (--list names the targets).")
@click.option("-o", "--output", type=click.Path(), help="The file, or for weka the folder, to write.")
@click.option("--arrivals", default="recorded", show_default=True,
              help="recorded | staggered:S | poisson:PER_HOUR[:SEED] | closed:N")  # fmt: skip
@click.option("--rate", type=float, default=1.0, show_default=True, help="Start sessions so many times as often.")
@click.option("--sessions", type=click.IntRange(1), help="Keep so many top-level sessions, drawn at random.")
@click.option("--context-cap", type=Size(), help="Leave out requests with longer prompts.")
@click.option("--window", default="all", show_default=True, help="all | last:F | from:T,to:T (seconds).")
@click.option("--block-size", type=Size(), help="Tokens a block holds [largest native block; 64 for text].")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw of --sessions.")
@click.option("--list", "list_all", is_flag=True, help="List the targets with a line each.")
@click.option("--json", "as_json", is_flag=True, help="What was written as one JSON object.")
def export_command(
    dataset: str | None, target: str | None, output: str | None, block_size: int | None, list_all: bool, as_json: bool,
    **scaling: Any,
) -> None:  # fmt: skip
    """Write DATASET for a planner or load generator. No text, names or hashes of text are written.

    \b
    Examples:
      tracetower export --list
      tracetower export mine --to weka -o sessions
      tracetower export mine --to mooncake -o trace.jsonl --arrivals poisson:60 --context-cap 128k
      tracetower export mine --to aiconfigurator -o plan.sh
    """
    from analysis.planners import TARGETS

    if list_all:
        _list_targets(as_json)
        return
    if dataset is None or target is None or output is None:
        raise click.UsageError("export takes DATASET, --to TARGET and -o OUT (or --list)")
    if target not in TARGETS:
        raise click.UsageError(f"unknown target {target!r}. Targets: {', '.join(TARGETS)}")
    from analysis.export import export
    from analysis.outgoing import Scaling
    from analysis.question import BadQuestion

    try:
        written = export(opened(dataset), target, Path(output), block_size, Scaling(**scaling))
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise BadData(f"{output} cannot be written: {error.strerror}") from None
    if as_json:
        emit_json({"target": target, "output": output, **written._asdict()})
        return
    click.echo(f"{output}: {written.records:,} records for {target}")
    for note in written.notes:
        click.echo(f"note: {note}", err=True)
    click.echo("Next:")
    for command in written.commands:
        click.echo(f"  {command}")


def _list_targets(as_json: bool) -> None:
    from analysis.planners import TARGETS

    rows = [{"target": name, "exports": t.takes, "what": t.line} for name, t in TARGETS.items()]
    if as_json:
        emit_json({"targets": rows})
    else:
        emit_rows(rows)


COMMANDS: list[click.Command] = [export_command]
