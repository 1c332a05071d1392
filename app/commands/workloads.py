"""Commands that hand a workload on: profile, export, synth, compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from app.commands.options import BadData, Size, filters_of, opened
from app.commands.terminal import emit_json, emit_rows


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
@click.option("--where", multiple=True, metavar="AXIS=VALUE", help="Only these requests (repeatable).")
@click.option("--block-size", type=Size(), help="Tokens a block holds [largest native block; 64 for text].")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the draw of --sessions.")
@click.option("--list", "list_all", is_flag=True, help="List the targets with a line each.")
@click.option("--json", "as_json", is_flag=True, help="What was written as one JSON object.")
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
        raise click.UsageError(f"unknown target {target!r}. Targets: {', '.join(TARGETS)}")
    from analysis.export.selection import Scaling
    from analysis.export.write import export
    from analysis.store.question import BadQuestion

    try:
        chosen = Scaling(where=filters_of(where), **scaling)
        written = export(opened(dataset), target, Path(output), block_size, chosen)
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
    from analysis.export.planners import TARGETS

    rows = [{"target": name, "exports": t.takes, "what": t.line} for name, t in TARGETS.items()]
    if as_json:
        emit_json({"targets": rows})
    else:
        emit_rows(rows)


@click.command("profile")
@click.argument("dataset", type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="The JSON file to write [standard output].")
@click.option("--block-size", type=Size(), help="Tokens a block holds [largest native block; 64 for text].")
@click.option("--arrivals", default="recorded", show_default=True,
              help="recorded | staggered:S | poisson:PER_HOUR[:SEED] | closed:N")  # fmt: skip
@click.option("--schema", "show_schema", is_flag=True, help="Print the JSON Schema of a profile (DATASET is not read).")
def profile_command(dataset: str, output: str | None, block_size: int | None, arrivals: str, show_schema: bool) -> None:
    """The workload profile of DATASET: lengths, turns, gaps, reuse, buckets, arrivals. No ids, paths or text.

    \b
    Examples:
      tracetower profile mine -o profile.json
      tracetower profile mine -o profile.json --arrivals staggered:600
      tracetower profile - --schema
    """
    from analysis.profile.profile import profile, schema
    from analysis.store.question import BadQuestion

    if show_schema:
        emit_json(schema())
        return
    try:
        found = profile(opened(dataset), block_size, arrivals)
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    if output is None:
        emit_json(found)
        return
    from analysis.export.planners.output import new_file

    with new_file(Path(output)) as file:
        file.write(json.dumps(found, indent=1, allow_nan=False).encode() + b"\n")
    for warning in found["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    click.echo(f"{output}: {found['coverage']['requests']:,} requests, {len(found['groups'])} groups")
    emit_rows(_figures(found["overall"]))


def _figures(group: dict[str, Any]) -> list[dict[str, Any]]:
    """The quantities of a group, a row each."""
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


def load_profile(path: str) -> dict[str, Any]:
    """A profile from a file.

    Raises:
        BadData: where it is none.
    """
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadData(f"{path} is no profile: not JSON. Make one with: tracetower profile DATASET -o {path}") from None
    from analysis.profile.profile import READABLE, SCHEMA

    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise BadData(f"{path} is no profile. Make one with: tracetower profile DATASET -o {path}")
    if found.get("version") not in READABLE:
        raise BadData(
            f"{path} is a profile of version {found.get('version')}, this release reads "
            f"{' and '.join(map(str, READABLE))}. Make one with: tracetower profile DATASET -o {path}"
        )
    return found


@click.command("synth")
@click.argument("profile", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The dataset's folder (must not exist).")
@click.option("--sessions", type=click.IntRange(1), help="Top-level sessions to make [as many as were profiled].")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Equal seeds give equal datasets.")
@click.option("--check", is_flag=True, help="Profile the result too and print targets beside what was made.")
@click.option("--json", "as_json", is_flag=True, help="What was made as one JSON object.")
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
    except NotADataset as error:
        raise BadData(str(error)) from None
    except ValueError as error:
        raise BadData(f"{profile}: {error}") from None
    rows = []
    if check:
        from analysis.profile.targets import against

        rows = against(target, opened(output))
    if as_json:
        emit_json({"dataset": output, **made, "targets": rows})
        return
    click.echo(f"{output}: {made['requests']:,} requests in {made['sessions']:,} sessions")
    if rows:
        emit_rows(rows)


@click.command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("--block-size", type=Size(), help="Tokens a block holds, for datasets [their own].")
@click.option("--arrivals", default="recorded", show_default=True,
              help="recorded | staggered:S | poisson:PER_HOUR[:SEED] | closed:N")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def compare_command(a: str, b: str, block_size: int | None, arrivals: str, as_json: bool) -> None:
    """Two datasets or profiles side by side: differences (B minus A) with 95 % intervals, and warnings.

    \b
    Examples:
      tracetower compare before after
      tracetower compare profile.json synthetic --arrivals staggered:600
    """
    from analysis.profile.compare import compare, profile_of
    from analysis.store.question import BadQuestion

    try:
        sides = [
            load_profile(side) if Path(side).is_file() else profile_of(opened(side), block_size, arrivals)
            for side in (a, b)
        ]
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    found = compare(sides[0], sides[1])
    if as_json:
        emit_json(found)
        return
    for warning in found["warnings"]:
        click.echo(f"warning: {warning}", err=True)
    shown = []
    for row in found["rows"]:
        low, high = row["interval"] or (None, None)
        sure = None if low is None or high is None else "" if low <= 0 <= high else "differs"
        shown.append({k: v for k, v in row.items() if k != "interval"} | {"from": low, "to": high, "verdict": sure})
    emit_rows(shown)


COMMANDS: list[click.Command] = [profile_command, export_command, synth_command, compare_command]
