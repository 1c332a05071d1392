"""The questions in SQL: one file a question, its leading comment is its help text."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

QUERIES = Path(__file__).parent / "queries"


class Query(NamedTuple):
    """A table macro of `queries/`: its help text and its SQL."""

    name: str
    help: str
    sql: str


def queries() -> dict[str, Query]:
    """Every query by name, sorted."""
    found = {}
    for path in QUERIES.glob("*/*.sql"):
        sql = path.read_text("utf-8")
        found[path.stem] = Query(path.stem, help_of(sql), sql)
    return dict(sorted(found.items()))


def views() -> str:
    """The SQL of the views that all queries read."""
    return (QUERIES / "views.sql").read_text("utf-8")


def help_of(sql: str) -> str:
    """The leading comment of a query."""
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines)
