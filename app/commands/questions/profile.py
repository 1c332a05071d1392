"""profile: the workload as distributions, for synth, compare and planners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from app.commands.shell.command import command
from app.commands.shell.options import arrivals_option, block_size_option, opened
from app.commands.shell.rules import alone
from app.commands.shell.terminal import emit_json, emit_rows, note, say


@command("profile", alone("show_schema"))
@click.argument("dataset", required=False, type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="The JSON file to write [standard output].")
@block_size_option
@arrivals_option
@click.option("--schema", "show_schema", is_flag=True, help="Print the JSON Schema of a profile (DATASET is not read).")
def profile_command(
    dataset: str | None, output: str | None, block_size: int | None, arrivals: str, show_schema: bool
) -> None:
    """The workload profile of DATASET: lengths, turns, gaps, reuse, buckets, arrivals. No ids, paths or text.

    \b
    Examples:
      tracetower profile mine -o profile.json
      tracetower profile mine -o profile.json --arrivals staggered:600
      tracetower profile --schema
    """
    from analysis.profile.profile import profile, schema

    if show_schema:
        emit_json(schema())
        return
    if dataset is None:
        raise click.UsageError("profile takes DATASET (or --schema)")
    made = profile(opened(dataset), block_size, arrivals)
    if output is None:
        emit_json(made)
        return
    from analysis.export.planners.output import new_file

    with new_file(Path(output)) as file:
        file.write(json.dumps(made, indent=1, allow_nan=False).encode() + b"\n")
    for warning in made["warnings"]:
        note(f"warning: {warning}")
    say(f"{output}: {made['coverage']['requests']:,} requests, {len(made['groups'])} groups")
    emit_rows(_figures(made["overall"]))


def _figures(group: dict[str, Any]) -> list[dict[str, Any]]:
    """The quantities of a group, one row per quantity."""
    named = {
        "input_tokens": group["input_tokens"],
        "new_tokens_per_turn": group["new_tokens_per_turn"],
        "output_tokens": group["output_tokens"],
        "turns": group["turns"],
        "gap_s": group["gap_s"]["all"],
        "duration_s": group["duration_s"],
    }
    return [
        {"quantity": name, "mean": d["mean"], "p50": d["p50"], "p90": d["p90"], "p99": d["p99"],
         "mean_from": d["interval"]["mean"][0], "mean_to": d["interval"]["mean"][1],
         "fit": d["fit"]["family"], "fit_error": d["fit"]["error"]}
        for name, d in named.items() if d is not None
    ]  # fmt: skip
