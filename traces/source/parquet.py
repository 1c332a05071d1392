"""Rows of a Parquet file, in memory that is bounded by their bytes, with cells of JSON text as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from traces.source.json_values import parse_json
from traces.source.limits import Limits, Meter
from traces.source.packed import Damage

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 512
BATCH_BYTES = 16 << 20
"""Rows become Python objects in slices of about this size."""
MAX_ROW_BYTES = 256 << 20
_TEXTS = ("STRING", "JSON", "ENUM", "BSON", "NONE")
"""Logical types of columns of bytes that can be read as dictionaries."""

Row = tuple[int, dict[str, Any]]
"""(row, 1-based; its cells by column)."""


def column_names(path: Path) -> list[str]:
    """The names of a file's columns; [] where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            return list(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError):
        return []


def parquet_rows(
    path: Path, limits: Limits, damaged: Callable[[Damage], None], names: list[str] | None = None
) -> Iterator[Row]:
    """Rows of a Parquet file.

    Every column of texts is read as a dictionary, so a text that a small file repeats a million times is held once.
    Groups of rows are counted by what their values take in memory, and not read beyond the limits. A slice of rows is
    as long as its bytes allow.

    Args:
        path: the file.
        limits: what it may unpack to.
        damaged: called where it cannot be read on.
        names: the columns to read, where they exist; None reads all.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
        leaves = [metadata.schema.column(at) for at in range(len(metadata.schema))]
        texts = [
            leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in _TEXTS
        ]
        wanted = schema.names if names is None else [name for name in names if name in schema.names]
        meter = Meter(limits, path.stat().st_size)
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            for group in range(metadata.num_row_groups):
                size = _group_bytes(metadata.row_group(group), {*wanted}, {*texts})
                if over := meter.over(size):
                    return damaged(Damage(f"the Parquet file {over}", f"{number:,} rows"))
                each = size // max(1, metadata.row_group(group).num_rows)
                at_once = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, each)))
                for batch in file.iter_batches(batch_size=at_once, row_groups=[group], columns=wanted):
                    rows, over = _rows_at_once(batch), meter.over()
                    if over or not rows:
                        over = over or f"has rows of more than {MAX_ROW_BYTES >> 20} MiB each"
                        return damaged(Damage(f"the Parquet file {over}", f"{number:,} rows"))
                    for start in range(0, batch.num_rows, rows):
                        for row in batch.slice(start, rows).to_pylist():
                            number += 1
                            yield number, row
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        damaged(Damage(f"the Parquet file cannot be read on ({type(error).__name__})", f"{number:,} rows"))


def _group_bytes(group: Any, wanted: set[str], texts: set[str]) -> int:
    """What the wanted columns of a group of rows take in memory: values of 4 or 8 bytes, and the texts themselves."""
    size = 0
    for at in range(group.num_columns):
        column = group.column(at)
        path = column.path_in_schema
        if path.partition(".")[0] in wanted or path in wanted:
            of_values = column.num_values * (4 if path in texts else 8)
            size += max(of_values, column.total_uncompressed_size)
    return size


def _rows_at_once(batch: pa.RecordBatch) -> int:
    """How many rows of a batch become objects at once; 0 where one row may be too large."""
    sizes = [_row_bytes(column, batch.num_rows) for column in batch.columns]
    if sum(sizes) > MAX_ROW_BYTES:
        return 0
    return max(1, min(batch.num_rows, BATCH_BYTES // max(1, sum(sizes))))


def _row_bytes(column: pa.Array, rows: int) -> int:
    """The bytes of a row of this column: the longest of its texts for each value, the mean of other values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        longest: int = pc.max(pc.binary_length(column.dictionary)).as_py() or 0
        return longest * -(-len(column) // max(1, rows))
    if pa.types.is_struct(column.type):
        return sum(_row_bytes(inner, rows) for inner in column.flatten())
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return _row_bytes(column.flatten(), rows)
    return column.nbytes // max(1, rows)


def parquet_lines(rows: Iterator[Row]) -> Iterator[tuple[int, bytes | None]]:
    """Rows as lines of JSON, as a reader of JSON Lines takes them.

    A column all of whose first texts are JSON objects or arrays holds JSON; a file whose only column does holds one
    record a cell. Cells without a value are left out, as lines leave them out.
    """
    json_columns: set[str] | None = None
    waiting: list[tuple[int, dict[str, Any]]] = []
    for number, row in rows:
        waiting.append((number, row))
        if json_columns is None and len(waiting) == 64:
            json_columns = _json_columns([row for _, row in waiting])
        if json_columns is not None:
            yield from _encoded(waiting, json_columns)
            waiting = []
    yield from _encoded(waiting, json_columns or _json_columns([row for _, row in waiting]))


def _json_columns(rows: list[dict[str, Any]]) -> set[str]:
    columns = set()
    for name in {name for row in rows for name in row}:
        cells = [row[name] for row in rows if row.get(name) is not None]
        if cells and all(isinstance(cell, str) and cell.lstrip()[:1] in ("{", "[") for cell in cells):
            try:
                for cell in cells:
                    parse_json(cell.encode("utf-8", "replace"))
            except ValueError:
                continue
            columns.add(name)
    return columns


def _encoded(rows: list[tuple[int, dict[str, Any]]], json_columns: set[str]) -> Iterator[tuple[int, bytes | None]]:
    for number, row in rows:
        if len(row) == 1 and row.keys() <= json_columns:
            text = next(iter(row.values()))
            if text is not None:
                yield number, text.encode("utf-8", "replace").replace(b"\n", b" ")
            continue
        values = {name: _value(cell, name in json_columns) for name, cell in row.items() if cell is not None}
        yield number, orjson.dumps(values, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def _value(cell: Any, is_json: bool) -> Any:
    if is_json and isinstance(cell, str):
        try:
            return parse_json(cell.encode("utf-8", "replace"))
        except ValueError:
            return cell
    return cell


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    return str(value)
