"""What the tests of gateway formats share: where the real files are, and a file's way to the requests table."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl

from tests.places import SHARED
from traces.dataset.layout import Dataset
from traces.intake.ingest import Options, ingest

TRACES = SHARED / "traces"


def shared(*parts: str) -> Path:
    """A file or folder of the shared traces; the test is skipped where they are not at hand."""
    path = TRACES.joinpath(*parts)
    return path


def read(tmp_path: Path, *inputs: Path, **options: Any) -> tuple[dict[str, Any], pl.DataFrame]:
    """The receipt and the requests in arrival order."""
    out = tmp_path / "dataset"
    receipt = ingest([str(i) for i in inputs], out, Options(**options))
    check(receipt)
    table = Dataset(out).read("requests")
    return receipt, table.sort("arrival_s", "record_ordinal", maintain_order=True)


def check(receipt: dict[str, Any]) -> None:
    """Every record that was read is used, rejected, a copy or ignored."""
    records = receipt["records"]
    assert records["read"] == sum(records[k] for k in ("used", "rejected", "duplicate", "ignored"))


def lines(path: Path, records: list[Any]) -> Path:
    """`records` as JSON lines at `path`."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def oracles(metric: str) -> list[tuple[str, str]]:
    """(path, value) of the published figures called `metric`."""
    file = TRACES / "ORACLES.tsv"
    if not file.exists():
        return []
    with file.open() as handle:
        return [(r["path"], r["value"]) for r in csv.DictReader(handle, delimiter="\t") if r["metric"] == metric]
