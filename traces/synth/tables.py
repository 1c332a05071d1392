"""Tables of a synthetic workload: written batch by batch, then turned into a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.writing import write_generation
from traces.schema import TABLES, empty, polars_schema
from traces.synth.sharing import Growing

LABEL = "input-000001"
"""The single input that all rows name as their source."""


class SyntheticTables:
    """Parquet files in a scratch folder that grow row group by row group."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.parts: dict[str, Any] = {}

    def add(self, name: str, frame: pl.DataFrame) -> None:
        """Append rows to a table; missing columns are null."""
        import pyarrow.parquet as pq

        schema = polars_schema(TABLES[name])
        missing = [pl.lit(None, dtype).alias(column) for column, dtype in schema.items() if column not in frame.columns]
        table = frame.with_columns(missing).select(schema.names()).cast(schema).to_arrow()
        if name not in self.parts:
            self.parts[name] = pq.ParquetWriter(
                self.scratch / f"{name}.parquet", table.schema, compression="zstd", compression_level=1
            )
        self.parts[name].write_table(table)

    def write(self, target: Path, tree: Growing, counts: dict[str, int], native: int, basis: str) -> None:
        """Add the tree and turn the tables into the dataset at `target`.

        Args:
            target: the dataset's folder.
            tree: the prefix tree.
            counts: rows of requests, sessions and prefixes.
            native: tokens of a native block, 1 for text.
            basis: where times start: trace, relative (the session's start) or none.
        """
        size = counts["prefixes"]
        for low in range(0, size, 1 << 20):
            high = min(size, low + (1 << 20))
            parent = pl.Series(tree.parent[low:high])
            frame = pl.DataFrame(
                {
                    "prefix_id": np.arange(low, high),
                    "parent_id": parent.set(parent < 0, None),
                    "start_token": tree.start[low:high],
                    "end_token": tree.end[low:high],
                }
            ).with_columns(role=pl.lit("unknown"))
            self.add("prefixes", frame)
        for writer in self.parts.values():
            writer.close()
        source = {
            "source_id": 0, "format": "synthetic", "id_namespace": "dataset", "native_block_tokens": native,
            "tail": "floor" if native > 1 else None, "lengths": "trace",
            "time_basis": basis, "time_unit": "s",
        }  # fmt: skip
        schema = empty("sources").schema
        sources = pl.DataFrame([{name: source.get(name) for name in schema.names()}], schema=schema)
        tables: dict[str, Any] = {name: _Moved(self.scratch / f"{name}.parquet") for name in self.parts}
        tables |= {"sources": sources, "divergences": empty("divergences"), "rejects": empty("rejects")}
        write_generation(target, tables, _manifest(counts, native), {})


class _Moved:
    """A table that is a file already."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write_parquet(self, target: Path, **_: Any) -> None:
        """Put the file where the dataset wants it."""
        self.path.replace(target)


def _manifest(counts: dict[str, int], native: int) -> dict[str, Any]:
    return {
        "rows": counts | {"sources": 1, "rejects": 0, "divergences": 0},
        "inputs": [{"label": LABEL, "order": 0, "format": "synthetic", "digest": "synthetic"}],
        "receipt": {"formats": {"synthetic": 1}, "requests": counts["requests"], "sessions": counts["sessions"],
                    "block_size": native if native > 1 else None, "warnings": []},
    }  # fmt: skip


def null_below_zero(values: NDArray[np.int64]) -> pl.Series:
    """The values, unknown where they are below 0."""
    series = pl.Series(values)
    return series.set(series < 0, None)
