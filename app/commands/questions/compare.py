"""compare: two datasets or profiles side by side."""

from __future__ import annotations

from pathlib import Path

import click

from app.commands.shell.command import command
from app.commands.shell.options import arrivals_option, block_size_option, json_option, opened
from app.commands.shell.profiles import load_profile
from app.commands.shell.rules import Rule
from app.commands.shell.terminal import emit_json, emit_rows, note

OF_PROFILES = Rule(
    lambda given, values: bool(given & {"block_size", "arrivals"}) and all(_is_profile(values[k]) for k in "ab"),
    "--block-size and --arrivals mean nothing for two profiles: they were chosen when the profiles were made",
)


@command("compare", OF_PROFILES)
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@block_size_option
@arrivals_option
@json_option
def compare_command(a: str, b: str, block_size: int | None, arrivals: str, as_json: bool) -> None:
    """Two datasets or profiles side by side: differences (B minus A) with 95 % intervals, and warnings.

    \b
    Examples:
      tracetower compare before after
      tracetower compare profile.json synthetic --arrivals staggered:600
    """
    from analysis.profile.compare import compare, profile_of

    sides = [load_profile(side) if _is_profile(side) else profile_of(opened(side), block_size, arrivals)
             for side in (a, b)]  # fmt: skip
    compared = compare(sides[0], sides[1])
    if as_json:
        emit_json(compared)
        return
    for warning in compared["warnings"]:
        note(f"warning: {warning}")
    shown = []
    for row in compared["rows"]:
        low, high = row["interval"] or (None, None)
        sure = None if low is None or high is None else "" if low <= 0 <= high else "differs"
        shown.append({k: v for k, v in row.items() if k != "interval"} | {"from": low, "to": high, "verdict": sure})
    emit_rows(shown)


def _is_profile(side: object) -> bool:
    """Whether a side is a file, and not the zip of a bundle."""
    path = Path(str(side))
    return path.is_file() and path.suffix.lower() != ".zip"
