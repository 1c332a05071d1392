"""Whether tables made by anyone are what `traces.schema` declares: checked before compiled code sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.manifest import AGAIN
from traces.dataset.paths import NotADataset
from traces.schema import TABLE_TOKENS, TABLES, Column, polars_schema

MOST_SUM = 1 << 53
"""No column of tokens adds up to this, so sums are exact in every type."""
ROWS_PER_BYTE, FREE_ROWS = 64, 1 << 16
"""A file of fewer bytes than rows allow is not read: what it would unpack to has no limit."""

PathOf = Callable[[str], Path]


def check_tables(path_of: PathOf, rows: dict[str, int]) -> None:
    """Check every table: columns and types, values, references, and that the prefixes are a tree.

    Args:
        path_of: table name -> its Parquet file.
        rows: how many rows the manifest gives some of the tables.

    Raises:
        NotADataset: naming the table, the column and the row (from 0) of the first value that does not fit.
    """
    for name in TABLES:
        _check_shape(name, path_of(name), rows.get(name))
    try:
        ids = _check_values(path_of)
        _check_tree(path_of)
        _check_prompts(path_of)
        _check_parents(path_of, ids["sessions"])
    except (OSError, pl.exceptions.PolarsError) as error:
        raise NotADataset(f"a table cannot be read ({type(error).__name__}: {error!s:.100}); {AGAIN}") from None


def _check_shape(name: str, path: Path, rows: int | None) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    try:
        size = path.stat().st_size
        stored = parquet.read_metadata(path).num_rows
        if stored > size * ROWS_PER_BYTE + FREE_ROWS:
            raise NotADataset(f"table {name} has {stored:,} rows in {size:,} bytes; {AGAIN}")
        schema = pl.scan_parquet(path, glob=False).collect_schema()
    except (OSError, ValueError, pyarrow.ArrowException, pl.exceptions.PolarsError) as error:
        if isinstance(error, NotADataset):
            raise
        raise NotADataset(f"table {name} cannot be read ({type(error).__name__}); {AGAIN}") from None
    wanted = polars_schema(TABLES[name])
    for column, dtype in wanted.items():
        if column not in schema:
            raise NotADataset(f"table {name} has no column {column}; {AGAIN}")
        if schema[column] != dtype:
            raise NotADataset(f"table {name}, column {column} is {schema[column]} instead of {dtype}; {AGAIN}")
    if list(schema) != list(wanted):
        raise NotADataset(f"table {name} has columns that this release does not know; {AGAIN}")
    if rows is not None and rows != stored:
        raise NotADataset(f"table {name} has {stored:,} rows and the manifest says {rows:,}; {AGAIN}")


def _check_values(path_of: PathOf) -> dict[str, NDArray[np.int64]]:
    """Check each column's own values and references; return the ids of every table that is referred to."""
    ids: dict[str, NDArray[np.int64]] = {}
    for name in ("sources", "sessions", "requests", "prefixes"):
        key = TABLES[name][0].name
        if name != "prefixes":  # `_check_tree` has stricter rules for all of its numbers
            _check_columns(name, path_of(name))
        values = pl.read_parquet(path_of(name), columns=[key], glob=False)[key].cast(pl.Int64).to_numpy()
        if name in ("sources", "prefixes"):
            _refuse(name, key, values != np.arange(values.size), values, "is not its row")
        else:
            _refuse(name, key, np.append(False, values[1:] <= values[:-1]), values, "does not ascend")
        ids[name] = values
    for name in ("divergences", "rejects"):
        _check_columns(name, path_of(name))
    for name, table in TABLES.items():
        for column in table:
            if column.refers is not None:
                _check_reference(name, path_of(name), column, ids[column.refers])
    return ids


class _Check(NamedTuple):
    """A rule of a column: `fails` in one pass over its statistics, `wrong` row by row, and what to say of a row."""

    column: Column
    fails: pl.Expr
    wrong: pl.Expr
    reason: str


def _checks(table: str) -> Iterator[_Check]:
    for column in TABLES[table]:
        value = pl.col(column.name)
        if column.known:
            yield _Check(column, value.null_count() > 0, value.is_null(), "is missing")
        if column.dtype == pl.Float64:
            yield _Check(column, value.is_nan().any(), value.is_nan(), "is no number")
        if column.least is not None:
            yield _Check(column, value.min() < column.least, value < column.least, f"is below {column.least:g}")
        if column.below is not None:
            high = value >= column.below
            yield _Check(column, value.max() >= column.below, high, f"is not below {column.below:g}")
        if column.unit == "tokens" and column.name not in ("start_token", "end_token"):
            most = value.max().cast(pl.Float64) * pl.len() >= MOST_SUM
            over = (value == value.max()) & (value.cast(pl.Float64).sum() >= MOST_SUM)
            yield _Check(column, most, over, "is the largest of too large a sum")


def _check_columns(name: str, path: Path) -> None:
    """Check nulls and bounds of all columns in one pass over the file."""
    checks = {str(place): check for place, check in enumerate(_checks(name))}
    failing = pl.scan_parquet(path, glob=False).select(**{key: check.fails for key, check in checks.items()})
    for key, fails in failing.collect().row(0, named=True).items():
        if fails:
            column, _, wrong, reason = checks[key]
            values = pl.read_parquet(path, columns=[column.name], glob=False)
            rows = values.select(wrong.fill_null(False)).to_series().arg_true()
            if rows.len():
                raise _wrong(name, column.name, int(rows[0]), values[column.name][int(rows[0])], reason)


def _check_reference(name: str, path: Path, column: Column, ids: NDArray[np.int64]) -> None:
    gapless = not ids.size or ids[-1] == ids.size - 1  # the ids ascend, and none is below 0
    if gapless:
        largest = pl.scan_parquet(path, glob=False).select(pl.col(column.name).max()).collect().item()
        if largest is None or largest < ids.size:
            return
    series = pl.read_parquet(path, columns=[column.name], glob=False)[column.name].cast(pl.Int64)
    values, known = series.fill_null(-1).to_numpy(), series.is_not_null().to_numpy()
    reason = f"is in no row of {column.refers}"
    if gapless:
        _refuse(name, column.name, known & (values >= ids.size), values, reason)
        return
    place = np.minimum(np.searchsorted(ids, values), ids.size - 1)
    _refuse(name, column.name, known & (ids[place] != values), values, reason)


def _check_tree(path_of: PathOf) -> None:
    """A child starts where its parent ends and is not empty, so every path ends at the root."""
    tree = pl.read_parquet(path_of("prefixes"), columns=["parent_id", "start_token", "end_token"], glob=False)
    if tree.is_empty():
        raise NotADataset(f"table prefixes has no root; {AGAIN}")
    for name in ("start_token", "end_token"):
        if tree[name].null_count():
            raise _wrong("prefixes", name, tree[name].is_null().arg_max() or 0, None, "is missing")
    start, end = tree["start_token"].to_numpy(), tree["end_token"].to_numpy()
    if end.max() >= TABLE_TOKENS:
        raise _wrong("prefixes", "end_token", int(end.argmax()), end.max(), f"is not below {TABLE_TOKENS:g}")
    missing = tree["parent_id"].is_null().to_numpy()
    parent = tree["parent_id"].fill_null(0).to_numpy()
    rooted = np.append(missing[0], ~missing[1:])
    _refuse("prefixes", "end_token", np.append(end[0] != 0, end[1:] <= start[1:]), end, "is not after its start")
    _refuse("prefixes", "parent_id", ~rooted, parent, "is missing, or not the root's null")
    _refuse("prefixes", "start_token", np.append(start[0] != 0, start[1:] != end[parent[1:]]), start,
            "is not where its parent ends")  # fmt: skip


def _check_prompts(path_of: PathOf) -> None:
    """A prompt's length is where its node ends."""
    ends = pl.read_parquet(path_of("prefixes"), columns=["end_token"], glob=False)["end_token"].to_numpy()
    prompts = pl.read_parquet(path_of("requests"), columns=["prefix_id", "prefix_tokens"], glob=False)
    leaf, length = (prompts[name].fill_null(-1).to_numpy() for name in prompts.columns)
    expected = np.where(leaf >= 0, ends[np.maximum(leaf, 0)], -1)
    _refuse("requests", "prefix_tokens", expected != length, length, "is not where its prefix ends")


def _check_parents(path_of: PathOf, ids: NDArray[np.int64]) -> None:
    """No session starts itself, not even through others."""
    name = "parent_session_id"
    parents = pl.read_parquet(path_of("sessions"), columns=[name], glob=False)[name].fill_null(-1).to_numpy()
    _refuse("sessions", name, leads_back(ids, parents), parents, "leads around in a circle")


def leads_back(ids: NDArray[np.int64], parents: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for each of the ascending `ids` whose chain of `parents` (-1: none) never ends."""
    if not ids.size:
        return np.zeros(0, bool)
    place = np.minimum(np.searchsorted(ids, parents), ids.size - 1)
    above = np.where(ids[place] == parents, place, -1)
    for _ in range(ids.size.bit_length() + 1):  # each round doubles the distance looked up
        if (above < 0).all():
            break
        above = np.where(above >= 0, above[above], -1)
    return above >= 0


def _refuse(table: str, column: str, wrong: NDArray[np.bool_], values: NDArray[Any], reason: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _wrong(table, column, row, values[row], reason)


def _wrong(table: str, column: str, row: int, value: Any, reason: str) -> NotADataset:
    return NotADataset(f"table {table}, column {column}, row {row:,}: {value!s:.40} {reason}; {AGAIN}")
