"""formats: what can be read."""

from __future__ import annotations

import click

from app.commands.shell.command import command
from app.commands.shell.options import json_option
from app.commands.shell.terminal import emit_json, say


@command("formats")
@json_option
def formats_command(as_json: bool) -> None:
    """List every format: what it carries, and what can be computed from it.

    \b
    Example:
      tracetower formats
    """
    from traces.intake.registry import READERS, reader

    found = {name: dict(reader(name).SUMMARY) for name in READERS}
    if as_json:
        emit_json(found)
        return
    for name, summary in found.items():
        say(name)
        for part, text in summary.items():
            say(click.wrap_text(f"{part}: {text}", 110, "    ", "      "))
