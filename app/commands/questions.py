"""Commands that ask a dataset: report, curve, query."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.commands.options import Seconds, Sizes, opened, question_of, question_options
from app.commands.terminal import emit_figures, emit_frame, emit_json, emit_rows

NEED_CAUSES = ("misses", "missing_sessions")
"""Queries over the causes of every request: those of an unbounded cache unless a file of others is named."""

DEFINED = ("hit", "ceiling", "engine", "eviction", "method", "capacity", "concurrency", "replies")


def print_report(figures: dict[str, Any]) -> None:
    """The report for people: figures with what they mean, then the tables by axis."""
    for title, part in (("Workload", "workload"), ("Overlap", "overlap"), ("Hit rate", "hit_rate")):
        emit_figures(title, figures[part])
    for axis, rows in figures["by"].items():
        click.echo(f"\nBy {axis}")
        emit_rows(rows)
    print_definition(figures["definition"])


def print_definition(means: dict[str, Any]) -> None:
    """What the figures above mean, for people."""
    parts = [f"{name.capitalize()}: {means[name]}." for name in DEFINED if means.get(name)]
    click.echo(
        f"\nDefinition {means['name']}: {means['rate']}. {' '.join(parts)} "
        f"Block size {means['block_size']}, arrivals {means['arrivals']}, window {means['window']}."
    )


@click.command("report")
@click.argument("dataset", type=click.Path())
@click.option("--by", "axes", multiple=True, help="An axis to group by (repeatable) [trajectory_type].")
@question_options
@click.option("--html", type=click.Path(), help="Also write the report as one self-contained page.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def report_command(dataset: str, axes: tuple[str, ...], html: str | None, as_json: bool, **options: Any) -> None:
    """The headline figures of DATASET: workload, overlap, achievable and reported hit rate, by any axis.

    \b
    Examples:
      tracetower report mine
      tracetower report mine --by role --by model --json
      tracetower report mine --where trajectory_type=edited --html report.html
    """
    from analysis.headline.report import DEFAULT_AXES, report
    from analysis.store.question import BadQuestion, check_axis

    question = question_of(options)
    try:
        chosen = tuple(check_axis(a) for a in axes) or DEFAULT_AXES
        figures = report(opened(dataset), question, chosen)
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    if html is not None:
        from app.commands.html_report import write_html

        write_html(Path(html), figures)
        click.echo(f"{html} written", err=True)
    if as_json:
        emit_json(figures)
    else:
        print_report(figures)


@click.command("curve")
@click.argument("dataset", type=click.Path())
@click.option("--capacity-blocks", type=Sizes(), help="Capacities in blocks.")
@click.option("--capacity-tokens", type=Sizes(), help="Capacities in tokens (rounded down to blocks).")
@click.option("--capacity-bytes", type=Sizes(), help="Capacities in bytes; needs --model.")
@click.option("--model", help="Model whose KV bytes per token to use (kv-budget --list).")
@click.option("--kv-dtype", default="bf16", show_default=True, help="Precision of the KV cache.")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="GPUs that share the cache.")
@click.option("--ttl", type=Seconds(), help="Seconds a block outlives its last touch.")
@click.option("--tiers", type=Sizes(), help="Capacities of tiers in blocks, nearest first.")
@click.option("--cross", is_flag=True, help="Every capacity with every TTL.")
@click.option("--by", "axis", default="all", help="An axis to group by.")
@question_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def curve_command(
    dataset: str, capacity_blocks: list[int] | None, capacity_tokens: list[int] | None,
    capacity_bytes: list[int] | None, model: str | None, kv_dtype: str, tp: int, ttl: list[float] | None,
    tiers: list[int] | None, cross: bool, axis: str, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Hit rate of DATASET over cache capacity, TTL and tiers: exact at every point.

    \b
    Examples:
      tracetower curve mine --arrivals staggered:600
      tracetower curve mine --capacity-tokens 1M,4M --ttl 300,3600 --cross
      tracetower curve mine --capacity-bytes 80GiB,640GiB --model kimi-k2.6 --kv-dtype fp8
      tracetower curve mine --tiers 100k,1M --by trajectory_type
      tracetower curve mine --definition vllm --block-size 16 --capacity-tokens 1M
    """
    from analysis.headline.curves import curve, with_bytes
    from analysis.headline.report import definition
    from analysis.peers.engine_curve import replies_unknown
    from analysis.store.question import BadQuestion, check_axis, engine_of

    question = question_of(options)
    warehouse = opened(dataset)
    try:
        if axis != "all":
            check_axis(axis)
        prepared = warehouse.prepare(question)
        per_token = _bytes_per_token(model, kv_dtype, tp) if model else None
        blocks = list(capacity_blocks or [])
        blocks += [t // prepared.block_size for t in capacity_tokens or []]
        if capacity_bytes:
            if not per_token:
                raise click.UsageError("--capacity-bytes needs --model: bytes per token depend on it")
            blocks += [int(b / per_token) // prepared.block_size for b in capacity_bytes]
        asked = capacity_blocks is not None or capacity_tokens is not None or capacity_bytes is not None
        frame = curve(warehouse, question, axis, blocks if asked else None, ttl, tiers, cross)
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    if per_token is not None:
        frame = with_bytes(frame, per_token)
    means = definition(prepared)
    if engine_of(question.definition):
        means |= replies_unknown(warehouse)
        if means["replies_unknown"]:
            click.echo(f"{means['replies_unknown']:,} replies have no known content: nobody can hit them", err=True)
    if as_json:
        emit_json({"definition": means, "rows": frame.to_dicts()})
    else:
        emit_frame(frame)
        print_definition(means)


def _bytes_per_token(model: str, kv_dtype: str, tp: int) -> float:
    """Bytes that a token takes over the whole replica: on each GPU, times the GPUs (MLA is held on every one)."""
    from analysis.replica.models.catalog import load_model
    from analysis.replica.models.kv_layout import Sharding, token_bytes

    try:
        found = token_bytes(load_model(model).groups, kv_dtype, shards=Sharding(tp, 1, 1))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return found.per_token_per_gpu * tp


@click.command("query")
@click.argument("dataset", type=click.Path())
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--sql", help="One SELECT over the dataset's tables and the views facts, runs and selected.")
@click.option("--list", "list_all", is_flag=True, help="List the named queries with their help.")
@question_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def query_command(
    dataset: str, name: str | None, parameters: tuple[str, ...], sql: str | None, list_all: bool, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Run a named query of the catalogue, or read-only SQL, on DATASET.

    \b
    Examples:
      tracetower query mine --list
      tracetower query mine sessions most=20
      tracetower query mine --sql "SELECT model, count(*) FROM selected GROUP BY ALL"
    """
    from analysis.store.catalog import queries
    from analysis.store.question import BadQuestion, own_definition

    question = question_of(options)
    if list_all:
        for query in queries().values():
            click.echo(f"{query.name}\n{click.wrap_text(query.help, 100, '    ', '    ')}")
        return
    warehouse = opened(dataset)
    try:
        own_definition(question, "query")
        if sql is not None:
            frame = warehouse.sql(sql, question)
        elif name is not None:
            given = dict(_parameter(p) for p in parameters)
            if name in NEED_CAUSES and "causes" not in given:
                from analysis.why.misses import misses

                given["causes"] = misses(warehouse, question).causes
            frame = warehouse.query(name, question, **given)
        else:
            raise click.UsageError(f"name a query or give --sql. Queries: {', '.join(queries())}")
    except BadQuestion as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        emit_json({"rows": frame.to_dicts()})
    else:
        emit_frame(frame)


def _parameter(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"{text!r} is not KEY=VALUE")
    items: list[Any] = []
    for part in value.split(","):
        try:
            items.append(int(part))
        except ValueError:
            try:
                items.append(float(part))
            except ValueError:
                items.append({"true": True, "false": False}.get(part, part))
    return key, items if "," in value else items[0]


COMMANDS: list[click.Command] = [report_command, curve_command, query_command]
