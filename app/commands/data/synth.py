"""synth: a dataset of seeded synthetic sessions from a profile."""

from __future__ import annotations

import click

from app.commands.shell.command import BadData, command
from app.commands.shell.options import json_option, opened
from app.commands.shell.profiles import load_profile
from app.commands.shell.terminal import emit_json, emit_rows, say


@command("synth")
@click.argument("profile", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The dataset's folder (must not exist).")
@click.option("--sessions", type=click.IntRange(1), help="Top-level sessions to make [as many as were profiled].")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Equal seeds give equal datasets.")
@click.option("--check", is_flag=True, help="Profile the result too and print targets beside what was made.")
@json_option
def synth_command(profile: str, output: str, sessions: int | None, seed: int, check: bool, as_json: bool) -> None:
    """Make a dataset of seeded synthetic sessions like those of PROFILE.

    \b
    Examples:
      tracetower synth profile.json -o synthetic --sessions 10000 --seed 1
      tracetower synth profile.json -o synthetic --check
    """
    from traces.dataset.layout import NotADataset
    from traces.synth.workload import synthesize

    target = load_profile(profile)
    try:
        made = synthesize(target, output, sessions, seed)
    except NotADataset:
        raise
    except ValueError as error:
        raise BadData(f"{profile}: {error}") from None
    rows = []
    if check:
        from analysis.profile.targets import against

        rows = against(target, opened(output))
    if as_json:
        emit_json({"dataset": output, **made, "targets": rows})
        return
    say(f"{output}: {made['requests']:,} requests in {made['sessions']:,} sessions")
    if rows:
        emit_rows(rows)
