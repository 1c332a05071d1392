"""A prepared question: the files that answer it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from analysis.store.question import Question


class Prepared(NamedTuple):
    """A question with the files of its facts and runs, and what is known about its times.

    Attributes:
        question: the question as given.
        block_size: tokens of a block.
        facts, runs: Parquet files: a row per request, and a row per reuse run (`analysis.store.facts`).
        unanchored: recorded times do not say when sessions start relative to each other.
        order_known: the order of requests is known, or changes no figure.
        timed: every request has an arrival time.
        requests: rows of the facts.
    """

    question: Question
    block_size: int
    facts: Path
    runs: Path
    unanchored: bool
    order_known: bool
    timed: bool
    requests: int

    def read_facts(self, columns: list[str] | None = None) -> pl.DataFrame:
        """The facts, a row per request."""
        return pl.read_parquet(self.facts, columns=columns, glob=False)

    def read_runs(self, columns: list[str] | None = None) -> pl.DataFrame:
        """The reuse runs."""
        return pl.read_parquet(self.runs, columns=columns, glob=False)
