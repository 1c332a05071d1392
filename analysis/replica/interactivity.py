"""How fast a replica answers: prefill remaining after hits, time to first token, decode, speculation, closed loops.

The formulas are a roofline with named assumptions, each a band; `calibrate` replaces the bands by measurements.
Relative figures (what a hit rate, a precision or a drafter changes) are sturdier than seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis.replica.models.catalog import Gpu
from analysis.replica.models.config import Model
from analysis.replica.models.kv_layout import ONE_GPU, Sharding, check_layout, check_sharding, sequence_bytes_per_gpu
from analysis.replica.prefill import prefill_work
from analysis.replica.speculation import Speculation, speculative_speedup

Range = tuple[float, float]


@dataclass(frozen=True)
class Assumptions:
    """Assumed values that only a measurement could replace; pairs are (low, high).

    mfu: share of peak FLOP/s in prefill. bandwidth_efficiency: share of peak HBM bandwidth in decode. step_overhead_s:
    communication and launch time of a decode step per layer, with TP above 1. link_bytes_per_s: achieved rate of the
    host link per GPU. fixed_s: time of a request before prefill (queue, tokenising). mid_mfu, mid_bandwidth: the values
    for figures that need a single one.
    """

    mfu: Range = (0.2, 0.5)
    mid_mfu: float = 0.35
    bandwidth_efficiency: Range = (0.6, 0.9)
    mid_bandwidth: float = 0.8
    layer_overhead_s: Range = (0.0, 20e-6)
    link_bytes_per_s: float = 50e9
    fixed_s: Range = (0.0, 0.0)

    def replace(self, **changes: Any) -> Assumptions:
        """A copy with some values replaced; a given band also moves its middle. ValueError: a share outside (0, 1]."""
        new = dataclasses.replace(self, **changes)
        for name in ("mfu", "bandwidth_efficiency"):
            low, high = getattr(new, name)
            if not 0 < low <= high <= 1:
                raise ValueError(f"{name} must be LOW,HIGH with 0 < LOW <= HIGH <= 1, found {low:g},{high:g}")
        if new.link_bytes_per_s <= 0:
            raise ValueError("the link must move more than 0 bytes a second")
        if "mfu" in changes:
            new = dataclasses.replace(new, mid_mfu=sum(new.mfu) / 2)
        if "bandwidth_efficiency" in changes:
            new = dataclasses.replace(new, mid_bandwidth=sum(new.bandwidth_efficiency) / 2)
        return new


@dataclass(frozen=True)
class Service:
    """A model on a replica, with its precision and the assumptions about speed. Raises ValueError like `kv_budget`."""

    model: Model
    gpu: Gpu
    shards: Sharding = ONE_GPU
    kv_dtype: str = "bf16"
    engine: str = "ideal"
    weights_scheme: str | None = None
    assumptions: Assumptions = Assumptions()

    def __post_init__(self) -> None:
        check_layout(self.kv_dtype, self.engine)
        check_sharding(self.model.groups, self.model.attention_heads, self.shards)
        self.model.weight_bytes_split(self.scheme)

    @property
    def scheme(self) -> str:
        """Precision of the weights as served: 4-bit checkpoints run as NVFP4 where the GPU has FP4 units."""
        if self.weights_scheme is not None:
            return self.weights_scheme
        checkpoint = self.model.weights
        return "nvfp4" if checkpoint in ("int4", "mxfp4") and self.gpu.fp4_flops is not None else checkpoint

    @property
    def peak_flops(self) -> float:
        """Dense FLOP/s of the whole replica at the precision of the weights."""
        return self.gpu.peak_flops(self.scheme)[0] * self.shards.tp


def prefill_seconds(service: Service, flops: float) -> Range:
    """Seconds for `flops` at the high and the low end of the MFU band."""
    low, high = service.assumptions.mfu
    return flops / (service.peak_flops * high), flops / (service.peak_flops * low)


def touched_weight_bytes(model: Model, scheme: str, tokens: float) -> float:
    """Bytes of weights one step reads for `tokens` tokens: all that is not routed, and the experts that are chosen.

    Expected coverage 1 - (1 - k / E)^tokens under independent uniform routing, an upper bound for correlated drafts.
    The input embedding is looked up, not read, unless it is the output head too.
    """
    routed, rest = model.weight_bytes_split(scheme)
    rest -= (model.parameters.embedding - model.parameters.head) * 2
    if not model.experts:
        return routed + rest
    return rest + routed * (1 - (1 - model.experts_per_token / model.experts) ** tokens)


class StepBytes(NamedTuple):
    """Bytes one GPU reads in a decode step, and the FLOPs of the whole replica."""

    weights: float
    kv: float
    flops: float


def step_bytes(service: Service, batch: float, context_tokens: float, verify_tokens: int = 1) -> StepBytes:
    """What a decode step of `batch` sequences moves on each GPU.

    Under DP-attention a rank reads the KV of batch / dp sequences. MLA is read in full on every attention rank.
    """
    s, model = service, service.model
    weights = touched_weight_bytes(model, s.scheme, batch * verify_tokens) / s.shards.tp
    per_sequence = sequence_bytes_per_gpu(
        model.groups, context_tokens, s.kv_dtype, s.engine, model.state_bytes, s.shards
    )
    flops = 2.0 * model.parameters.active * batch * verify_tokens
    return StepBytes(weights, per_sequence * batch / s.shards.dp, flops)


def decode_step_seconds(service: Service, batch: float, context_tokens: float, verify_tokens: int = 1) -> Range:
    """Seconds of one decode step, (fast, slow) end of the assumptions: memory or compute bound, plus communication."""
    moved = step_bytes(service, batch, context_tokens, verify_tokens)
    a = service.assumptions
    # a low end above 0 was measured, and holds for one GPU too; the assumed band is communication
    layers = service.model.layers if service.shards.tp > 1 or a.layer_overhead_s[0] > 0 else 0
    bounds = []
    for fast, overhead in ((1, a.layer_overhead_s[0]), (0, a.layer_overhead_s[1])):
        efficiency, mfu = a.bandwidth_efficiency[fast], a.mfu[fast]
        memory = (moved.weights + moved.kv) / (efficiency * service.gpu.hbm_bytes_per_s)
        bounds.append(max(memory, moved.flops / (service.peak_flops * mfu)) + overhead * layers)
    return bounds[0], bounds[1]


def _mid_step_seconds(service: Service, batch: float, context_tokens: float, verify_tokens: int = 1) -> float:
    moved = step_bytes(service, batch, context_tokens, verify_tokens)
    a = service.assumptions
    memory = (moved.weights + moved.kv) / (a.mid_bandwidth * service.gpu.hbm_bytes_per_s)
    return max(memory, moved.flops / (service.peak_flops * a.mid_mfu)) + a.layer_overhead_s[0] * service.model.layers


def speculation_speedup(service: Service, batch: float, context_tokens: float, draft: Speculation) -> float:
    """Speed-up of decoding with the verification cost of this model at this batch (expert coverage included)."""
    plain = _mid_step_seconds(service, batch, context_tokens)
    verify = _mid_step_seconds(service, batch, context_tokens, draft.verified)
    return speculative_speedup(draft, plain, verify)


class Point(NamedTuple):
    """One concurrency: seconds and tokens a second as (low, high)."""

    batch: int
    step_s: Range
    tokens_per_s_per_user: Range
    tokens_per_s_per_gpu: Range


def decode_point(service: Service, batch: int, context_tokens: float, draft: Speculation | None = None) -> Point:
    """Step time and speed at one batch. With a draft the step is verification plus drafting."""
    if batch < 1:
        raise ValueError(f"batch {batch} must be at least 1")
    step = decode_step_seconds(service, batch, context_tokens)
    gained = 1.0
    if draft is not None:
        verify = decode_step_seconds(service, batch, context_tokens, draft.verified)
        step = (verify[0] + draft.draft_cost * step[0], verify[1] + draft.draft_cost * step[1])
        gained = draft.accept_length
    user = (gained / step[1], gained / step[0])
    gpus = service.shards.tp
    return Point(batch, step, user, (user[0] * batch / gpus, user[1] * batch / gpus))


def concurrency_curve(
    service: Service, context_tokens: float, batches: Sequence[int], draft: Speculation | None = None
) -> list[Point]:
    """Tokens a second per user against per GPU over concurrency (decode alone)."""
    return [decode_point(service, batch, context_tokens, draft) for batch in batches]


class ClosedLoop(NamedTuple):
    """A steady state of N sessions that think between requests, at the middle of the assumptions."""

    requests_per_s: float
    running: float
    response_s: float
    prefill_share: float


def closed_loop(
    service: Service,
    sessions: float,
    think_s: float,
    context_tokens: float,
    output_tokens: float,
    hit_rate: float = 0.0,
    draft: Speculation | None = None,
) -> ClosedLoop:
    """Little's law for a closed population: X = N / (R + Z), running = X R.

    Each request prefills for p seconds alone, then decodes in the share of time that prefills leave. Solved by
    bisection over X: N - X Z sessions run, and need X R of them. `think_s` is the mean of the trace's own gaps.
    """
    if sessions <= 0 or think_s < 0 or output_tokens < 0:
        raise ValueError("sessions must be above 0, think time and output at least 0")
    a = service.assumptions
    prefill = (
        prefill_work(service.model, context_tokens, hit_rate).flops / (service.peak_flops * a.mid_mfu) + a.fixed_s[0]
    )
    gained = draft.accept_length if draft else 1.0

    def response(rate: float) -> float:
        running = max(1e-9, sessions - rate * think_s)
        step = _mid_step_seconds(service, max(1.0, running), context_tokens + output_tokens / 2)
        if draft is not None:
            verify = _mid_step_seconds(service, max(1.0, running), context_tokens + output_tokens / 2, draft.verified)
            step = verify + draft.draft_cost * step
        left = 1 - rate * prefill
        return prefill / left + output_tokens * step / gained / left if left > 1e-12 else float("inf")

    high = sessions / think_s if think_s else float("inf")
    if prefill > 0:
        high = min(high, 1 / prefill)
    if high == float("inf"):
        high = sessions / max(response(0.0), 1e-12) * 2
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * (response(middle) + think_s) < sessions else (low, middle)
    rate = (low + high) / 2
    return ClosedLoop(rate, max(0.0, sessions - rate * think_s), max(0.0, sessions / rate - think_s), rate * prefill)
