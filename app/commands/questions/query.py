"""query: a named query of the catalogue, or read-only SQL."""

from __future__ import annotations

from typing import Any

import click

from app.commands.shell.command import command
from app.commands.shell.options import dataset_argument, json_option, opened, question_of, question_options
from app.commands.shell.rules import alone, excludes
from app.commands.shell.terminal import emit_frame, emit_json, say

NEED_CAUSES = ("misses", "missing_sessions", "session_turns")
"""Queries over the causes of every request: those of an unbounded cache unless a file of others is named."""


@command("query", alone("list_all"), excludes("sql", "name", "parameters"))
@dataset_argument
@click.argument("name", required=False)
@click.argument("parameters", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--sql", help="One SELECT over the dataset's tables and the views facts, runs and selected.")
@click.option("--list", "list_all", is_flag=True, help="List the named queries with their help.")
@question_options
@json_option
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
    from analysis.store.question import own_definition

    question = question_of(options)
    if list_all:
        if as_json:
            emit_json(
                {
                    "queries": [
                        {"name": q.name, "subject": q.subject, "parameters": q.parameters, "help": q.help}
                        for q in queries().values()
                    ]
                }
            )
            return
        for query in sorted(queries().values(), key=lambda query: (query.subject, query.name)):
            say(f"{query.subject}: {query.usage}\n{click.wrap_text(query.help, 100, '    ', '    ')}")
        return
    warehouse = opened(dataset)
    own_definition(question, "query")
    if sql is not None:
        frame = warehouse.sql(sql, question)
    elif name is not None:
        given: dict[str, Any] = dict(_parameter(p) for p in parameters)
        if name in NEED_CAUSES and "causes" not in given:
            from analysis.why.misses import misses

            given["causes"] = misses(warehouse, question).causes
        frame = warehouse.query(name, question, **given)
    else:
        raise click.UsageError(f"name a query or give --sql. Queries: {', '.join(queries())}")
    if as_json:
        emit_json({"rows": frame.to_dicts()})
    else:
        emit_frame(frame)


def _parameter(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"{text!r} is not KEY=VALUE")
    return key, value
