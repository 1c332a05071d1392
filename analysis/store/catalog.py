"""The questions in SQL: one file per question, whose leading comment is its help text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from analysis.store import axes
from analysis.store.question import BadQuestion

QUERIES = Path(__file__).parent / "queries"

_HEADER = re.compile(r"CREATE MACRO (\w+)\((.*?)\) AS TABLE")
_PARAMETER = re.compile(r"(\w+) (VARCHAR|BIGINT|DOUBLE|BIGINT\[\]|DOUBLE\[\]) := ([^,]+)")
_NEEDS = re.compile(r"^-- Needs: (order|times)\.$", re.MULTILINE)
_KINDS: dict[str, tuple[Any, str]] = {
    "VARCHAR": (str, "text"), "BIGINT": (int, "a whole number"), "DOUBLE": (float, "a number"),
}  # fmt: skip
_EXAMPLES = {"VARCHAR": "NAME", "BIGINT": "N", "DOUBLE": "X", "BIGINT[]": "N,…", "DOUBLE[]": "X,…"}


class Query(NamedTuple):
    """A table macro of `queries/`.

    Attributes:
        name: of the macro and its file.
        subject: the folder that it lies in.
        help: its leading comment.
        sql: the statement that makes the macro.
        parameters: name -> SQL type of each parameter; all of them have defaults.
        needs: "order" where the answer depends on when sessions start relative to each other, "times" where it also
            depends on seconds, "" where neither matters.
    """

    name: str
    subject: str
    help: str
    sql: str
    parameters: dict[str, str]
    needs: str

    @property
    def usage(self) -> str:
        """The name and its parameters as users write them."""
        return " ".join([self.name, *(f"{name}={_EXAMPLES[kind]}" for name, kind in self.parameters.items())])

    def bind(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values for the macro's parameters, from Python values or from text as users write it.

        Raises:
            BadQuestion: for an unknown parameter, or a value of another type.
        """
        unknown = [name for name in values if name not in self.parameters]
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise BadQuestion(f"{self.name} has no parameter {unknown[0]!r}. Parameters: {known}", unknown[0])
        bound = {name: _converted(name, value, self.parameters[name]) for name, value in values.items()}
        if bound.get("axis", "all") != "all":
            axes.check_axis(bound["axis"])
        return bound


@cache
def queries() -> dict[str, Query]:
    """Every query by name, sorted."""
    texts = {path: path.read_text("utf-8") for path in QUERIES.glob("*/*.sql")}
    return {path.stem: _parsed(path, texts[path]) for path in sorted(texts, key=lambda path: path.stem)}


def views() -> str:
    """The SQL of the views that all queries read."""
    text = (QUERIES / "views.sql").read_text("utf-8")
    parts = {"{filters}": axes.filter_sql(), "{group}": axes.group_sql(), "{order}": axes.order_sql()}
    for mark, sql in parts.items():
        head, _, tail = text.rpartition(mark)  # the last one: the leading comment names the marks
        text = head + sql + tail
    return text


def help_of(sql: str) -> str:
    """The leading comment of a query."""
    lines = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        if not _NEEDS.match(line):
            lines.append(line.removeprefix("--").strip())
    return " ".join(lines)


def _parsed(path: Path, sql: str) -> Query:
    header = _HEADER.search(sql)
    assert header is not None, f"{path.name} makes no macro"
    assert header[1] == path.stem, f"{path.name} makes a macro of another name"
    parameters = {name: kind for name, kind, _ in _PARAMETER.findall(header[2])}
    needs = _NEEDS.search(sql)
    return Query(path.stem, path.parent.name, help_of(sql), sql, parameters, needs[1] if needs else "")


def _converted(name: str, value: Any, kind: str) -> Any:
    element = kind.removesuffix("[]")
    if kind != element:
        parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
        return [_converted(name, part, element) for part in parts]
    convert, word = _KINDS[kind]
    try:
        found = convert(value)
        if isinstance(value, float) and found != value:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise BadQuestion(f"{name} takes {word}, not {value!r}", name) from None
    return found
