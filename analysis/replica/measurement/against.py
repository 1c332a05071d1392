"""A measured run beside what the trace predicts for it: counts, hit rate, TTFT, load of each replica."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.headline.curves import curve
from analysis.replica.interactivity import Service
from analysis.replica.measurement.measured import Band, Measured
from analysis.replica.prefill import span_flops
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse

OTHER_RUN = 0.02
"""Counts that differ by more than this share are those of another workload, or of a part of it."""

MEANINGS = {
    "hit_rate": "predicted: the ceiling, one unbounded shared cache; measured: tokens found / tokens looked up, as the "
    "program counts them",
    "hit_rate_at_capacity": "predicted: one LRU cache of that capacity; measured: the same as hit_rate",
    "ttft": "predicted: prefill of the tokens that are not hit, without queueing or decoding beside it, from the high "
    "to the low end of the assumed MFU: an estimate; measured: as the program says, a histogram only within a bucket",
    "reasons": "what accounts for the difference between the ceiling and the measured hit rate, in hit rate; the rest "
    "is what they do not explain",
}


def against(
    warehouse: Warehouse,
    question: Question,
    measured: Measured,
    capacity_tokens: int | None = None,
    service: Service | None = None,
) -> dict[str, Any]:
    """What was measured beside what the trace predicts.

    Args:
        capacity_tokens: tokens that one replica's KV cache holds.
        service: the replica, for an estimate of TTFT.

    Returns:
        rows (metric, predicted, measured, difference = measured − predicted; null unknown), reasons, replicas,
        warnings, measured_by.
    """
    asked = _totals(warehouse, question)
    hits, prompt = asked["hit_tokens"], asked["prefix_tokens"]
    ceiling = hits / prompt if prompt and hits is not None else None
    rows = [
        _row(name, asked[name], getattr(measured, name)) for name in ("requests", "input_tokens", "output_tokens")
    ]  # fmt: skip
    rows.append(_row("hit_rate", ceiling, measured.hit_rate))
    at_capacity = None
    if capacity_tokens is not None:
        blocks = capacity_tokens // warehouse.prepare(question).block_size
        at_capacity = curve(warehouse, question, "all", [blocks])["hit_rate"][0]
        rows.append(_row("hit_rate_at_capacity", at_capacity, measured.hit_rate))
    estimate = {} if service is None or ceiling is None else _ttft(warehouse, question, service)
    for name in dict.fromkeys((*measured.ttft_s, *estimate)):
        rows.append(_bands(f"ttft_s_{name}", estimate.get(name), measured.ttft_s.get(name)))
    return {
        "measured_by": measured.written_by,
        "rows": rows,
        "reasons": _reasons(ceiling, at_capacity, measured),
        "replicas": _replicas(measured),
        "warnings": [*measured.notes, *_other_run(rows)],
    }


_TOTALS = """
SELECT count(*) AS requests, sum(input_tokens)::BIGINT AS input_tokens, sum(output_tokens)::BIGINT AS output_tokens,
  sum(hit_tokens)::BIGINT AS hit_tokens, sum(prefix_tokens)::BIGINT AS prefix_tokens,
  count(input_tokens) AS counted_inputs, count(output_tokens) AS counted_outputs
FROM selected"""


def _totals(warehouse: Warehouse, question: Question) -> dict[str, Any]:
    """Sums of the selected requests; null if a request does not say its part."""
    row = warehouse.select(question, _TOTALS).row(0, named=True)
    if row["counted_inputs"] < row["requests"]:
        row["input_tokens"] = None
    if row["counted_outputs"] < row["requests"]:
        row["output_tokens"] = None
    if not warehouse.prepare(question).order_known:
        row["hit_tokens"] = None
    return row


def _row(metric: str, predicted: float | None, measured: float | None) -> dict[str, Any]:
    both = predicted is not None and measured is not None
    difference = measured - predicted if both else None  # type: ignore[operator]
    return {"metric": metric, "predicted": predicted, "measured": measured, "difference": difference}


def _bands(metric: str, predicted: Band | None, measured: Band | None) -> dict[str, Any]:
    """A row of ranges; the difference goes from the least to the most that it can be."""
    difference = None
    if predicted is not None and measured is not None:
        difference = [measured[0] - predicted[1], measured[1] - predicted[0]]
    return {"metric": metric, "predicted": predicted and list(predicted), "measured": measured and list(measured),
            "difference": difference}  # fmt: skip


def _ttft(warehouse: Warehouse, question: Question, service: Service) -> dict[str, Band]:
    """Mean and percentiles of the estimated prefill times of the selected requests, with the ceiling's hits."""
    rows = warehouse.select(question, "SELECT hit_tokens, prefix_tokens FROM selected WHERE prefix_tokens > 0")
    hits, prompt = (rows[name].cast(pl.Float64).to_numpy() for name in rows.columns)
    if not prompt.size:
        return {}
    flops = sum(span_flops(service.model, hits, prompt))
    low, high = service.assumptions.mfu
    fixed = service.assumptions.fixed_s
    seconds = np.stack([flops / service.peak_flops / high + fixed[0], flops / service.peak_flops / low + fixed[-1]])
    figures = {"mean": seconds.mean(axis=1), **{f"p{p}": np.percentile(seconds, p, axis=1) for p in (50, 90, 99)}}
    return {name: (float(band[0]), float(band[1])) for name, band in figures.items()}


def _reasons(ceiling: float | None, at_capacity: float | None, measured: Measured) -> list[dict[str, Any]]:
    if ceiling is None or measured.hit_rate is None:
        return []
    reasons = []
    reached = ceiling
    if at_capacity is not None:
        reasons.append({"reason": "capacity", "hit_rate": at_capacity - ceiling})
        reached = at_capacity
    rest = "above what the trace shares" if measured.hit_rate > reached else "not explained"
    return [*reasons, {"reason": rest, "hit_rate": measured.hit_rate - reached}]


def _replicas(measured: Measured) -> list[dict[str, Any]]:
    total = sum(replica.queried_tokens or 0 for replica in measured.replicas)
    return [
        {
            "replica": name,
            "requests": requests,
            "queried_tokens": queried,
            "hit_rate": hit / queried if hit is not None and queried else None,
            "share": queried / total if queried is not None and total else None,
        }
        for name, queried, hit, requests in measured.replicas
    ]


def _other_run(rows: list[dict[str, Any]]) -> list[str]:
    """A warning for each count that is not that of this trace."""
    return [
        f"{row['metric'].replace('_', ' ')}: {row['measured']:,.0f} were measured, and the trace has "
        f"{row['predicted']:,.0f}: this run did not send this trace, or not all of it"
        for row in rows[:3]
        if row["difference"] is not None and abs(row["difference"]) > OTHER_RUN * max(row["predicted"], 1)
    ]
