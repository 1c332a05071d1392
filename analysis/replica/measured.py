"""Replaces assumed efficiencies by measured ones: from two points, or from a trace with TTFT and cache reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.replica.calibration import Calibration, calibrate, calibrate_trace
from analysis.replica.interactivity import Assumptions, Service, step_bytes
from analysis.replica.prefill import prefill_work

if TYPE_CHECKING:
    from analysis.store.question import Question
    from analysis.store.warehouse import Warehouse

SAMPLED_REQUESTS = 5000
"""The most requests of a trace that are used, spread evenly over it; FLOPs are computed for each."""


def prefill_from_points(service: Service, lengths: tuple[float, float], seconds: tuple[float, float]) -> Calibration:
    """MFU and fixed time from two cold prefills: prompt tokens and the seconds to the first token.

    Raises:
        ValueError: see `calibration.calibrate`.
    """
    work = (prefill_work(service.model, lengths[0]).flops, prefill_work(service.model, lengths[1]).flops)
    return calibrate(work, seconds)


def decode_from_points(
    service: Service, batches: tuple[float, float], context_tokens: float, seconds: tuple[float, float]
) -> Calibration:
    """Bandwidth reached and fixed time from decode steps at two batches of equal contexts: the seconds of a step.

    Raises:
        ValueError: see `calibration.calibrate`.
    """
    moved = [step_bytes(service, b, context_tokens) for b in batches]
    return calibrate((sum(moved[0][:2]), sum(moved[1][:2])), seconds)


def prefill_from_trace(warehouse: Warehouse, question: Question, service: Service) -> Calibration:
    """MFU and fixed time from a trace's TTFT, for requests whose input and cache reads are known.

    TTFT includes queueing, so the fixed time is longer than the engine's own. The trace must come from this model on
    this replica, which cannot be checked.

    Raises:
        ValueError: too few such requests, or times that do not grow with the work.
    """
    rows = warehouse.sql(
        "SELECT input_tokens, cache_read_tokens, ttft_s FROM selected "
        "WHERE ttft_s > 0 AND cache_read_tokens IS NOT NULL AND input_tokens > cache_read_tokens ORDER BY rank",
        question,
    )
    every = max(1, -(-rows.height // SAMPLED_REQUESTS))
    rows = rows.gather_every(every)
    work = [
        prefill_work(service.model, tokens, read / tokens).flops
        for tokens, read in rows.select("input_tokens", "cache_read_tokens").iter_rows()
    ]
    return calibrate_trace(np.array(work, np.float64), rows["ttft_s"].to_numpy().astype(np.float64))


def with_prefill(assumptions: Assumptions, service: Service, found: Calibration) -> Assumptions:
    """The assumptions with a measured MFU (one value, no band) and fixed time.

    Raises:
        ValueError: a rate above the peak: other hardware, or lengths and seconds that do not belong together.
    """
    share = found.share_of(service.peak_flops)
    if not 0 < share <= 1:
        raise ValueError(
            f"this would be {share:.2f} × the peak of {service.shards.tp} × {service.gpu.name}: the points are of "
            "another replica, of cached prompts, or in other units"
        )
    return assumptions.replace(mfu=(share, share), fixed_s=(found.fixed_s, found.fixed_s))


def with_decode(assumptions: Assumptions, service: Service, found: Calibration) -> Assumptions:
    """The assumptions with a measured share of the HBM bandwidth (one value) and the step's fixed time over its layers.

    Raises:
        ValueError: a rate above the peak bandwidth.
    """
    share = found.share_of(service.gpu.hbm_bytes_per_s)
    if not 0 < share <= 1:
        raise ValueError(
            f"this would be {share:.2f} × the HBM bandwidth of {service.gpu.name}: the points are of another "
            "replica or in other units"
        )
    layer = found.fixed_s / service.model.layers
    return assumptions.replace(bandwidth_efficiency=(share, share), layer_overhead_s=(layer, layer))
