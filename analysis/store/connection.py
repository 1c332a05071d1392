"""DuckDB over the files of one dataset and nothing else: no other file, no network, no extension, a memory limit."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl

from analysis.store import catalog
from analysis.store.question import BadQuestion

MOST_ROWS = 10_000_000
"""The most rows that a user's SELECT may return: more would fill the memory of this process."""
_PLAIN_TYPES = {
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT",
    "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", '"NULL"',
}  # fmt: skip
"""SQL types that polars has too, as are decimals and lists of these."""


def connect(tables: Mapping[str, Path], folders: list[Path], spill: Path) -> duckdb.DuckDBPyConnection:
    """A connection that knows the tables and the views, and can read nothing but `folders`. `define` adds queries.

    Args:
        tables: name -> Parquet file.
        folders: the only folders whose files SQL may read.
        spill: where DuckDB puts what does not fit into memory.
    """
    con = duckdb.connect(
        config={
            "threads": "4",
            "memory_limit": f"{_memory_bytes() // 2}B",
            "temp_directory": str(spill),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "error_on_division_by_zero": "false",  # a division by zero is null
            "ieee_floating_point_ops": "false",
        }
    )
    for name, path in tables.items():
        con.execute(f"SET VARIABLE {name}_file = $value", {"value": pattern_of(path)})
        if name not in ("facts", "runs"):  # views.sql makes these two
            con.execute(f"CREATE VIEW {name} AS FROM read_parquet(getvariable('{name}_file'))")
    con.execute(catalog.views())
    # DuckDB compares a path with this list before it expands the pattern, so both spellings are needed
    allowed = [f"{spelling}/" for folder in folders for spelling in (folder.resolve(), pattern_of(folder))]
    con.execute("SET allowed_directories = $value", {"value": allowed})
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def define(con: duckdb.DuckDBPyConnection, sql: str, defined: set[str]) -> None:
    """Make the macros of the queries that `sql` may name, except those in `defined`, and add them there.

    All of them would take longer than most questions. A statement that DuckDB puts together from texts may name any.
    """
    text = sql.lower()
    for name, query in catalog.queries().items():
        if name not in defined and (name in text or "query" in text):
            con.execute(query.sql)
            defined.add(name)


def pattern_of(path: Path) -> str:
    """The pattern that matches exactly this path where DuckDB takes a pattern."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path.resolve()))


def select(cursor: duckdb.DuckDBPyConnection, sql: str, params: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Run one SELECT of the program.

    Raises:
        BadQuestion: DuckDB's reason in one line.
    """
    try:
        return cursor.sql(sql, params=dict(params)).pl() if params else cursor.sql(sql).pl()
    except duckdb.Error as error:
        raise BadQuestion(_reason(error)) from None


class Limits(NamedTuple):
    """What a user's SELECT may take: rows, and seconds until it is stopped (None: as long as it takes)."""

    rows: int = MOST_ROWS
    seconds: float | None = None


def select_text(cursor: duckdb.DuckDBPyConnection, text: str, limits: Limits) -> pl.DataFrame:
    """Run one SELECT that a user wrote. Types that polars lacks (intervals, unions, …) come back as text.

    Raises:
        BadQuestion: it is not one SELECT, DuckDB cannot run it, or it is beyond the limits.
    """
    timer = None if limits.seconds is None else threading.Timer(limits.seconds, cursor.interrupt)
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        text.encode()  # raises for half a surrogate pair
        statements = duckdb.extract_statements(text)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise BadQuestion("SQL is one SELECT: the dataset is only read", "sql")
        relation = cursor.sql(text)
        if any(not _is_plain(str(kind)) for kind in relation.types):
            relation = relation.project(
                ", ".join(
                    f"#{place}{'' if _is_plain(str(kind)) else '::VARCHAR'} AS {_quoted(name)}"
                    for place, (name, kind) in enumerate(zip(relation.columns, relation.types, strict=True), 1)
                )
            )
        frame: pl.DataFrame = relation.limit(limits.rows + 1).pl()
    except duckdb.InterruptException:
        raise BadQuestion(f"stopped after {limits.seconds:g} s: ask for less, or use the command line", "sql") from None
    except (duckdb.Error, UnicodeError, pl.exceptions.PolarsError) as error:
        raise BadQuestion(_reason(error), "sql") from None
    finally:
        if timer is not None:
            timer.cancel()
    if frame.height > limits.rows:
        raise BadQuestion(f"the answer has more than {limits.rows:,} rows: add a LIMIT", "sql")
    return frame


def _reason(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _is_plain(kind: str) -> bool:
    while kind.endswith("]"):
        kind = kind[: kind.rindex("[")]
    return kind in _PLAIN_TYPES or kind.startswith("DECIMAL(")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
