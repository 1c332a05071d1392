"""What the tests of the agents' readers share: run an ingest, and look at what came out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.places import SHARED
from traces.dataset.layout import Dataset
from traces.intake.ingest import NothingUsable, Options, ingest


def shared(name: str) -> Path:
    """A file of the shared traces; the test is skipped where there are none."""
    path = SHARED / "traces" / name
    return path


class Read:
    """An ingest: its receipt and its tables. `keys` of counts add up to what was read."""

    def __init__(self, folder: Path, *inputs: Path, format: str | None = None) -> None:
        out = folder / "dataset"
        self.receipt: dict[str, Any] = ingest([str(i) for i in inputs], out, Options(format=format, tokenizer="bytes"))
        data = Dataset(out)
        self.requests = pl.DataFrame(data.read("requests")).sort("request_id")
        self.sessions = pl.DataFrame(data.read("sessions")).sort("session_id")
        self.nodes = pl.DataFrame(data.read("prefixes"))
        counts = self.receipt["records"]
        assert counts["read"] == sum(counts[k] for k in ("used", "rejected", "duplicate", "ignored"))

    def total(self, column: str) -> int:
        """The sum of what is known."""
        return int(self.requests[column].sum())

    def column(self, name: str) -> list[Any]:
        """A column of the requests."""
        return self.requests[name].to_list()

    def shared(self, one: int, other: int) -> int:
        """Tokens that the prompts of two requests begin with."""
        ends = dict(self.nodes.select("prefix_id", "end_token").rows())
        return max((ends[node] for node in self._path(one) & self._path(other)), default=0)

    def roles(self, row: int) -> set[str]:
        """Whose text the prompt of a request holds."""
        told = dict(self.nodes.select("prefix_id", "role").rows())
        return {told[node] for node in self._path(row)}

    def _path(self, row: int) -> set[int]:
        parents = dict(self.nodes.select("prefix_id", "parent_id").rows())
        node, path = self.requests["prefix_id"][row], set()
        while node:
            path.add(node)
            node = parents[node]
        return path


def refused(folder: Path, *inputs: Path) -> dict[str, Any]:
    """The receipt of an ingest that found nothing to use."""
    with pytest.raises(NothingUsable) as caught:
        ingest([str(i) for i in inputs], folder / "dataset", Options(tokenizer="bytes"))
    return caught.value.receipt


def lines(folder: Path, name: str, *records: Any) -> Path:
    """Write records as JSON Lines."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def whole(folder: Path, name: str, value: Any) -> Path:
    """Write a value as a JSON document."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))
    return path
