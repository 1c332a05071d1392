"""Writes the selected requests of a dataset as a dataset, so that a profile target describes only them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from analysis.export.rows import ExportSelection
from analysis.store.warehouse import Warehouse, open_dataset
from traces.dataset.writing import write_generation
from traces.schema import TABLES, empty


def subset(warehouse: Warehouse, out: ExportSelection, path: Path) -> Warehouse:
    """Write the requests of `out` as a dataset at `path` (which must not exist) and open it.

    Times are those of `out`, so its arrival model, window and rate apply. Turns count only the selected requests.
    """
    dataset = warehouse.dataset
    tables = {name: dataset.read(name) for name in TABLES}
    requests = tables["requests"]
    chosen = out.frame.select("row", "turn", "session", "arrival_s")
    lone = pl.col("session").is_null()
    taken = (
        requests.with_row_index("row").cast({"row": pl.Int64}).drop("turn", "arrival_s")
        .join(chosen.with_columns(turn=pl.when(~lone).then("turn")), on="row", maintain_order="left")
        .select(requests.columns).cast(requests.schema)
    )  # fmt: skip
    tables["requests"] = taken
    tables["sessions"] = tables["sessions"].filter(pl.col("session_id").is_in(taken["session_id"].unique().to_list()))
    if out.anchored:
        known = pl.col("time_basis").is_in(["relative", "none"])
        tables["sources"] = tables["sources"].with_columns(
            time_basis=pl.when(known).then(pl.lit("trace")).otherwise("time_basis")
        )
    tables["divergences"], tables["rejects"] = empty("divergences"), empty("rejects")
    rows = {name: frame.height for name, frame in tables.items()}
    write_generation(path, tables, dataset.manifest | {"rows": rows}, {})
    return open_dataset(path)
