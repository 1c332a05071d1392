"""The findings of a question, kept in the dataset's cache: asked again, they are there without loading the trace."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from analysis.findings.finding import Finding, Stated
from analysis.findings.frames import Keep, all_frames, made_now
from analysis.findings.workload import findings
from analysis.store import arrivals as arrival_models
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.caches.cache import Cache

_SCHEMA = {"kind": pl.String, "words": pl.String, "figures": pl.String, "weight": pl.Float64, "page": pl.String,
           "settings": pl.String}  # fmt: skip


def findings_of(
    warehouse: Warehouse, question: Question, keep: Keep = made_now, cache: Cache | None = None
) -> list[Finding]:
    """`findings` of all frames of a question.

    Args:
        keep: where frames are kept in memory while this runs.
        cache: the cache that losses are counted in.
    """
    prepared = warehouse.prepare(question)
    asked = question._replace(block_size=prepared.block_size, arrivals=str(arrival_models.parse(question.arrivals)))
    frame = warehouse.dataset.caches.frame(
        "findings", (asked, cache or Cache()), lambda: _frame(findings(all_frames(warehouse, question, keep, cache)))
    )
    return [
        Finding(kind, words, {name: Stated(*stated) for name, stated in json.loads(figures).items()}, weight, page,
                json.loads(settings))
        for kind, words, figures, weight, page, settings in frame.rows()
    ]  # fmt: skip


def _frame(found: list[Finding]) -> pl.DataFrame:
    rows: list[dict[str, Any]] = [
        {**f._asdict(), "figures": json.dumps(f.figures), "settings": json.dumps(f.settings)} for f in found
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)
