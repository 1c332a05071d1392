"""The command that says where the input tokens went: misses."""

from __future__ import annotations

from typing import Any

import click

from app.options import Size, opened, question_of, question_options
from app.terminal import emit_json, emit_rows


@click.command("misses")
@click.argument("dataset", type=click.Path())
@click.option("--capacity-tokens", type=Size(), help="Size of the cache, of each replica, in tokens [unbounded].")
@click.option("--ttl", type=click.FloatRange(0), help="Seconds a block outlives its last touch [for ever].")
@click.option("--replicas", type=click.IntRange(1), help="Replicas behind --policy [one cache].")
@click.option("--policy", help="Routing policy; needs --replicas.")
@click.option(
    "--insert",
    type=click.Choice(["arrival", "finish"]),
    default="arrival",
    show_default=True,
    help="When a prompt can be hit: at its arrival, or once it is computed.",
)
@click.option("--by", "axes", multiple=True, help="An axis to group by (repeatable) [all].")
@question_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def misses_command(
    dataset: str, capacity_tokens: int | None, ttl: float | None, replicas: int | None, policy: str | None,
    insert: str, axes: tuple[str, ...], as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Where the input tokens of DATASET went, and where consecutive prompts part.

    Every prefix token is counted once: hit, or lost for one cause, in this order: in_flight (being computed by a
    running request), routing (in one shared cache of the same total size it would hit), ttl, capacity, block_rounding
    (shared, short of a full block), rewritten (the previous prompt had it behind a change), first_seen.

    \b
    Examples:
      tracetower misses mine
      tracetower misses mine --by trajectory_type --by role
      tracetower misses mine --capacity-tokens 4M --ttl 300 --arrivals staggered:600
      tracetower misses mine --replicas 8 --policy session_hash --capacity-tokens 1M
    """
    from analysis.divergences import divergences
    from analysis.misses import Cache, by_group, misses
    from analysis.question import BadQuestion, check_axis
    from analysis.report import definition

    question = question_of(options)
    warehouse = opened(dataset)
    cache = Cache(capacity_tokens, ttl, replicas, policy, insert)
    try:
        chosen = tuple(check_axis(axis) for axis in axes) or ("all",)
        found = misses(warehouse, question, cache)
        rows = [row for axis in chosen for row in by_group(warehouse, question, found, axis)]
        parted = divergences(warehouse, question)
        means = definition(warehouse.prepare(question))
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    for note in found.notes:
        click.echo(note, err=True)
    if as_json:
        means |= {"cache": cache._asdict(), "causes": CAUSES_MEAN, "notes": list(found.notes)}
        emit_json({"definition": means, "rows": rows, "divergences": parted})
        return
    _print(rows, parted)


CAUSES_MEAN = (
    "per request and in this order, summing to its prefix tokens: hit, in_flight, routing, ttl, capacity, "
    "block_rounding, rewritten, first_seen; ttl and capacity as in one shared cache of the total size"
)


def _print(rows: list[dict[str, Any]], parted: list[dict[str, Any]]) -> None:
    click.echo("Where the input tokens went")
    emit_rows(rows, leave_out=("axis", "first_seen_by_role") if len({r["axis"] for r in rows}) == 1 else
              ("first_seen_by_role",))  # fmt: skip
    for row in rows[:1] if len(rows) == 1 else []:
        by_role = ", ".join(f"{role} {tokens:,}" for role, tokens in row["first_seen_by_role"].items())
        click.echo(f"first seen by role: {by_role or '–'}")
    click.echo("\nWhere consecutive prompts part")
    emit_rows(parted)


COMMANDS: list[click.Command] = [misses_command]
