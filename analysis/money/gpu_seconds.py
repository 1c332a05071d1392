"""GPU time of prefills on the user's own replica: without a cache, as reported, and at the ceiling (estimates)."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.replica.interactivity import Service, prefill_seconds
from analysis.replica.prefill import span_flops
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse

HOUR_S = 3600.0
MEANING = (
    "GPU seconds of all prefills: FLOPs of the tokens that are not hit, with their attention over the whole prompt, "
    "over the peak of the GPUs at the high and the low end of the assumed MFU. An estimate: it counts no decode and no "
    "idle time"
)
_HITS = """
SELECT prefix_tokens, hit_tokens, CASE WHEN cache_read_tokens <= prefix_tokens THEN cache_read_tokens END AS read_tokens
FROM selected WHERE prefix_tokens > 0"""


def gpu_seconds(
    warehouse: Warehouse, question: Question, service: Service, usd_per_gpu_hour: float | None = None
) -> dict[str, Any]:
    """GPU seconds of the selected requests' prefills, as [low, high] of the assumed MFU.

    Returns:
        no_cache and ceiling over `requests`, whose prompt is known; reported over `reported_requests`, whose reads are
        known too, with reported_ceiling, the ceiling of the same; with a price per hour also …_usd of each. ceiling is
        None where it depends on when sessions start and the dataset does not say that.
    """
    rows = warehouse.select(question, _HITS)
    prompt, hits, read = (rows[name].cast(float).to_numpy() for name in rows.columns)
    known = ~np.isnan(read)
    order = warehouse.prepare(question).order_known

    def spent(cached: Any, prompts: Any) -> list[float] | None:
        if not prompts.size or not (order or cached is not hits):
            return None
        flops = sum(part.sum() for part in span_flops(service.model, cached, prompts))
        return [service.shards.tp * seconds for seconds in prefill_seconds(service, float(flops))]

    figures: dict[str, Any] = {
        "no_cache": spent(np.zeros_like(prompt), prompt),
        "ceiling": spent(hits, prompt),
        "reported": spent(read[known], prompt[known]),
        "reported_ceiling": spent(hits[known], prompt[known]) if order else None,
    }
    if usd_per_gpu_hour is not None:
        figures |= {
            f"{name}_usd": None if band is None else [s / HOUR_S * usd_per_gpu_hour for s in band]
            for name, band in tuple(figures.items())
        }
    return {"requests": int(prompt.size), "reported_requests": int(known.sum()), **figures}
