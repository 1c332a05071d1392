"""export: the trace in the form that a planner or load generator takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.commands.shell.command import command
from app.commands.shell.options import (
    arrivals_option,
    block_size_option,
    filters_of,
    json_option,
    opened,
    where_option,
    window_option,
)
from app.commands.shell.rules import alone, needs
from app.commands.shell.terminal import emit_json, emit_rows, note, say
from app.commands.shell.types import Size


@command("export", alone("list_all"), needs("seed", "sessions"))
@click.argument("dataset", required=False, type=click.Path())
@click.option("--to", "target", help="What to write (--list names the targets).")
@click.option("-o", "--output", type=click.Path(), help="The file, or for weka the folder, to write.")
@arrivals_option
@click.option("--rate", type=float, default=1.0, show_default=True, help="Start sessions this many times as often.")
@click.option("--sessions", type=click.IntRange(1), help="Keep this many top-level sessions, drawn at random.")
@click.option("--context-cap", type=Size(), help="Leave out requests with longer prompts.")
@window_option
@where_option
@block_size_option
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw of --sessions.")
@click.option("--list", "list_all", is_flag=True, help="List the targets, one per line.")
@json_option
def export_command(
    dataset: str | None, target: str | None, output: str | None, block_size: int | None, list_all: bool, as_json: bool,
    where: tuple[str, ...], **scaling: Any,
) -> None:  # fmt: skip
    """Write DATASET for a planner or load generator. No text, names or hashes of text are written.

    \b
    Examples:
      tracetower export --list
      tracetower export mine --to weka -o sessions
      tracetower export mine --to mooncake -o trace.jsonl --arrivals poisson:60 --context-cap 128k
      tracetower export mine --to aiconfigurator -o plan.sh
      tracetower export mine --to weka -o edited --where trajectory_type=edited
    """
    from analysis.export.planners import TARGETS

    if list_all:
        _list_targets(as_json)
        return
    if dataset is None or target is None or output is None:
        raise click.UsageError("export takes DATASET, --to TARGET and -o OUT (or --list)")
    if target not in TARGETS:
        raise click.UsageError(f"--to: unknown target {target!r}. Targets: {', '.join(TARGETS)}")
    from analysis.export.selection import Scaling
    from analysis.export.write import export

    chosen = Scaling(where=filters_of(where), **scaling)
    written = export(opened(dataset), target, Path(output), block_size, chosen)
    if as_json:
        emit_json({"target": target, "output": output, **written._asdict()})
        return
    say(f"{output}: {written.records:,} records for {target}")
    for text in written.notes:
        note(f"note: {text}")
    say("Next:")
    for line in written.commands:
        say(f"  {line}")


def _list_targets(as_json: bool) -> None:
    from analysis.export.planners import TARGETS

    rows = [{"target": name, "exports": t.takes, "what": t.line} for name, t in TARGETS.items()]
    if as_json:
        emit_json({"targets": rows})
    else:
        emit_rows(rows)
