"""The questions in SQL: one file a question, its leading comment is its help text."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple


class Query(NamedTuple):
    """A table macro of `analysis/queries`: its help text and its SQL."""

    name: str
    help: str
    sql: str


def queries() -> dict[str, Query]:
    """Every query by name, sorted."""
    found = {}
    for path in sorted(files("analysis.queries").iterdir(), key=lambda p: p.name):
        if path.name.endswith(".sql") and path.name != "views.sql":
            sql = path.read_text("utf-8")
            name = path.name.removesuffix(".sql")
            found[name] = Query(name, help_of(sql), sql)
    return found


def views() -> str:
    """The SQL of the views that all queries read."""
    return files("analysis.queries").joinpath("views.sql").read_text("utf-8")


def help_of(sql: str) -> str:
    """The leading comment of a query."""
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines)
