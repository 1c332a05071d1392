"""The command that says where the input tokens went: misses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.commands.misses_sections import SECTIONS
from app.commands.options import Size, opened, question_of, question_options
from app.commands.terminal import emit_frame, emit_json

if TYPE_CHECKING:
    import polars as pl


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
@click.option("--by", "axes", multiple=True, help="An axis to group by, or transition_detail (repeatable) [all].")
@click.option(
    "--show",
    "shown",
    multiple=True,
    type=click.Choice([*SECTIONS, "all"]),
    help="A section (repeatable) [all].",
)
@click.option("--most", type=click.IntRange(1), default=50, show_default=True, help="Sessions to list.")
@click.option("--remedy", help="Only sessions that this would bring tokens back to, those first where it brings most.")
@click.option("--per-request", is_flag=True, help="The causes of every request: the key requests, or a table of them.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write them to FILE: .parquet, .csv or .jsonl.")
@question_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def misses_command(
    dataset: str, capacity_tokens: int | None, ttl: float | None, replicas: int | None, policy: str | None,
    insert: str, axes: tuple[str, ...], shown: tuple[str, ...], most: int, remedy: str | None, per_request: bool,
    out: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Where the input tokens of DATASET went, and what would bring the lost ones back.

    Every prefix token is counted once: hit, or lost for one cause, in this order: in_flight (being computed by a
    running request), routing (in one shared cache of the same total size it would hit), ttl, capacity, block_rounding
    (shared, short of a full block), rewritten (the previous prompt had it behind a change), first_seen.

    Sections: causes (with 95 % intervals), sessions (to look at first, and the tokens by remedy), transitions (in
    detail, and what each loses), reported (by the provider, against what was achievable; by model, or by --by),
    divergences (where consecutive prompts part), what-ifs (what would change the ceiling).

    \b
    Examples:
      tracetower misses mine
      tracetower misses mine --by trajectory_type --by transition_detail --show causes
      tracetower misses mine --capacity-tokens 4M --ttl 300 --arrivals staggered:600
      tracetower misses mine --replicas 8 --policy session_hash --capacity-tokens 1M
      tracetower misses mine --show sessions --remedy longer_ttl
      tracetower misses mine --show reported --by session --by day
      tracetower misses mine --per-request --out misses.parquet
    """
    from analysis.headline.report import definition
    from analysis.store.question import BadQuestion
    from analysis.why.caches.asked import Cache
    from analysis.why.detailed_axis import check_miss_axis, grouped_misses
    from analysis.why.divergences import divergences
    from analysis.why.misses import misses
    from app.commands.misses_sections import Asked, answers, show

    _check(remedy, out)
    question = question_of(options)
    sections = SECTIONS if not shown or "all" in shown else shown
    warehouse = opened(dataset)
    cache = Cache(capacity_tokens, ttl, replicas, policy, insert)
    try:
        chosen = tuple(check_miss_axis(axis) for axis in axes) or ("all",)
        found = misses(warehouse, question, cache)
        if per_request or out is not None:
            from analysis.why.request_misses import request_misses

            by_request = request_misses(warehouse, question, found)
        told: dict[str, Any] = {}
        if as_json or "causes" in sections:
            told["rows"] = [row for axis in chosen for row in grouped_misses(warehouse, question, found, axis)]
        if as_json or "divergences" in sections:
            told["divergences"] = divergences(warehouse, question)
        if not per_request or as_json:
            told |= answers(Asked(warehouse, question, found, chosen, most, remedy), sections)
        means = definition(warehouse.prepare(question))
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    for note in found.notes:
        click.echo(note, err=True)
    if out is not None:
        _write(by_request, Path(out))
    if as_json:
        from analysis.why.session_losses import REMEDIES

        means |= {"cache": cache._asdict(), "causes": CAUSES_MEAN, "notes": list(found.notes), "remedies": REMEDIES}
        requests = {"requests": by_request.to_dicts()} if per_request else {}
        emit_json({"definition": means, **told, **requests})
    elif not per_request and not (warehouse.loaded().leaf >= 0).any():
        click.echo(NO_PROMPTS)
    elif not per_request:
        show(told, sections)
    elif out is None:
        emit_frame(by_request)


NO_PROMPTS = (
    "This trace has no block identity: it says how long prompts are, not what they share, so nothing can be said about "
    "why they miss. That needs block hashes (hash_ids), token ids, or the text of the prompts."
)

CAUSES_MEAN = (
    "per request and in this order, summing to its prefix tokens: hit, in_flight, routing, ttl, capacity, "
    "block_rounding, rewritten, first_seen; ttl and capacity as in one shared cache of the total size"
)

_WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson"}


def _check(remedy: str | None, out: str | None) -> None:
    from analysis.why.session_losses import REMEDIES

    if remedy is not None and remedy not in REMEDIES:
        raise click.UsageError(f"unknown remedy {remedy!r}. Remedies: {', '.join(REMEDIES)}")
    if out is not None and Path(out).suffix not in _WRITERS:
        raise click.UsageError(f"--out {out!r} must end in {', '.join(_WRITERS)}: that says the format")


def _write(frame: pl.DataFrame, path: Path) -> None:
    try:
        getattr(frame, _WRITERS[path.suffix])(path)
    except OSError as error:
        raise click.UsageError(f"--out {path} cannot be written: {error.strerror or error}") from None
    click.echo(f"{path}: {frame.height:,} requests", err=True)


COMMANDS: list[click.Command] = [misses_command]
