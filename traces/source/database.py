"""SQLite databases from elsewhere: reads only real tables, with limits on time and length, and never writes beside
them.

A database whose write-ahead log holds anything is copied together with it, because only SQLite itself can merge the two
and it writes while it does.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any
from urllib.parse import quote

from traces.source.limits import Meter
from traces.source.sources import Head, Source

MAGIC = b"SQLite format 3\0"
_MAX_CELL_BYTES = 64 << 20
_STEPS = 100_000
_SECONDS_PER_ROW = 60.0
_READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION}


class BadDatabase(ValueError):
    """A database, or one table of it, that cannot be read; the message names no content."""


class Database:
    """An open database. Use it in a `with` statement.

    Raises:
        BadDatabase: if it cannot be opened.
    """

    def __init__(self, source: Source) -> None:
        self._seconds = min(_SECONDS_PER_ROW, source.limits.seconds)
        self._deadline = time.monotonic() + self._seconds
        self._meter = Meter(source.limits, max(1, source.size))
        try:
            self._base = _opened(source)
            self._base.row_factory = sqlite3.Row
            self._base.text_factory = lambda data: data.decode("utf-8", "replace")
            self._base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
            self._base.execute("PRAGMA trusted_schema = OFF")
            self._base.execute("PRAGMA query_only = ON")
            self._base.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS)
            listed = self._base.execute(
                "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND sql IS NOT NULL"
            ).fetchall()
            self.tables: dict[str, str] = {str(row["name"]): str(row["sql"]).lower() for row in listed}
            """Name and definition of the real tables: views and virtual tables run code and are not read."""
            self._base.set_authorizer(_only_reads)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise BadDatabase(f"a database that cannot be read: {type(error).__name__}") from None

    def rows(self, table: str, order: str = "") -> Iterator[dict[str, Any]]:
        """Yield the rows of a table in the order of its columns `order`.

        Raises:
            BadDatabase: if the table does not exist, or where it cannot be read on.
        """
        if table not in self.tables:
            raise BadDatabase(f"a database without a table {table}")
        columns = ", ".join(f'"{name}"' for name in re.findall(r"\w+", order))
        statement = f"SELECT * FROM {_quoted(table)}"  # noqa: S608 (a quoted name that the schema lists)
        statement += f" ORDER BY {columns}" if columns else ""
        self._deadline = time.monotonic() + self._seconds
        try:
            for row in self._base.execute(statement):
                if over := self._meter.over(sum(len(cell) for cell in row if isinstance(cell, (str, bytes)))):
                    raise BadDatabase(f"the table {table} is not read on: the database {over}")
                yield dict(row)
                self._deadline = time.monotonic() + self._seconds
        except sqlite3.Error as error:
            slow = "interrupted" in str(error)
            why = f"took longer than {self._seconds:,.0f} s" if slow else type(error).__name__
            raise BadDatabase(f"the table {table} cannot be read on: {why}") from None

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it cannot be counted."""
        if table not in self.tables:
            return 0
        self._deadline = time.monotonic() + self._seconds
        try:
            return sum(1 for _ in self._base.execute(f"SELECT 1 FROM {_quoted(table)}"))  # noqa: S608 (as above)
        except sqlite3.Error:
            return 0

    def unread(self, *read: str) -> str:
        """Which tables hold rows beside those that were `read`, as a sentence; "" where none does."""
        rows = {table: self.count(table) for table in sorted(self.tables.keys() - {*read})}
        names = ", ".join(f"{table} ({count:,} rows)" for table, count in rows.items() if count)
        return f"tables of the database that hold rows and are not read: {names}" if names else ""

    def close(self) -> None:
        """Close it."""
        if hasattr(self, "_base"):
            self._base.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _opened(source: Source) -> sqlite3.Connection:
    if source.wal is None:
        return sqlite3.connect(f"file:{quote(str(source.local_path()))}?mode=ro&immutable=1", uri=True)
    copy = source.scratch() / "database"
    if not copy.exists():
        source.copy_to(copy)
        source.wal.copy_to(copy.with_name("database-wal"))
        source.remarks.add("a database was read together with its write-ahead log")
    return sqlite3.connect(copy)


def tables(head: Head) -> dict[str, str]:
    """Name and definition, in lower case, of the tables of a SQLite database; {} where an input is none."""
    if not head.start.startswith(MAGIC):
        return {}
    try:
        with Database(head.source) as database:
            return database.tables
    except BadDatabase:
        return {}


def _only_reads(action: int, *_: str | None) -> int:
    """Let a statement read columns and nothing else: a generated column's expression may call no function."""
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY
