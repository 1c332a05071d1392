"""The effect of changing one replica: KV precision, twice the GPUs, a better drafter; each with formula and source.

A change of precision is never shown as free: it comes with an evaluation before and after, or with "not evaluated".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from analysis.replica.evaluation import Comparison
from analysis.replica.interactivity import Service, decode_point, speculation_speedup
from analysis.replica.kv_budget import Budget, Replica, kv_budget
from analysis.replica.prefill import prefill_work
from analysis.replica.speculation import RATIO_NOTE, Speculation, drafter_gain
from analysis.replica.tiers import TierCost, host_tier, tier_cost

if TYPE_CHECKING:
    from analysis.replica.workload import RunLengths

LOWER_PRECISION = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla", "int8", "nvfp4", "fp4")


class Change(NamedTuple):
    """One quantity before and after. `ratio` is after / before, None where before is 0. `evaluation`: for precision."""

    change: str
    quantity: str
    before: float
    after: float
    ratio: float | None
    formula: str
    source: str
    evaluation: str | None = None
    unit: str = "tokens"  # tokens | tokens/s | rate | s | "" (a plain number)


def _row(
    change: str, quantity: str, before: float, after: float, formula: str, source: str, unit: str = "tokens"
) -> Change:
    return Change(change, quantity, before, after, after / before if before else None, formula, source, None, unit)


def _hits(
    change: str, runs: RunLengths | None, before: float, after: float, quantity: str = "hit rate"
) -> list[Change]:
    """The dataset's hit rate at two capacities in tokens; nothing without a dataset."""
    if runs is None:
        return []
    formula, source = "Σ min(max(C − distance, 0), length) / prompt tokens", "this dataset's reuse runs, one LRU cache"
    return [_row(change, quantity, runs.rate(before), runs.rate(after), formula, source, "rate")]


def _served(service: Service, replica: Replica, batch: int, context_tokens: float) -> tuple[Budget, float, float]:
    """(budget, tokens/s per user, tokens/s per GPU) of a variant; speeds are the middle of their range."""
    variant = dataclasses.replace(service, shards=replica.shards, kv_dtype=replica.kv_dtype)
    point = decode_point(variant, batch, context_tokens)
    user, gpu = point.tokens_per_s_per_user, point.tokens_per_s_per_gpu
    return kv_budget(replica), sum(user) / 2, sum(gpu) / 2


def precision_change(
    replica: Replica,
    service: Service,
    to: str,
    batch: int,
    context_tokens: float,
    evaluation: Comparison | None = None,
    runs: RunLengths | None = None,
) -> list[Change]:
    """Another KV precision on the same GPUs: tokens that fit, hit rate of a dataset's runs, tokens a second."""
    name = f"{replica.kv_dtype} → {to} KV"
    before, user, _ = _served(service, replica, batch, context_tokens)
    after, user_after, _ = _served(service, dataclasses.replace(replica, kv_dtype=to), batch, context_tokens)
    was, now = before.token_bytes.per_token_per_gpu, after.token_bytes.per_token_per_gpu
    bytes_formula = f"{was:,.0f} → {now:,.0f} B a token on each GPU"
    rows = [
        _row(name, "tokens in the replica", before.replica_tokens, after.replica_tokens, bytes_formula, "row layouts"),
        *_hits(name, runs, before.replica_tokens, after.replica_tokens),
        _row(name, f"tokens/s per user at batch {batch}", user, user_after, "1 / step; KV read per step / bandwidth",
             "roofline, middle of the band", "tokens/s"),
    ]  # fmt: skip
    said = evaluation.sentence() if evaluation is not None else "not evaluated"
    lower = to in LOWER_PRECISION or replica.kv_dtype in LOWER_PRECISION
    return [row._replace(evaluation=said if lower else None) for row in rows]


def tp_change(
    replica: Replica, service: Service, to: int, batch: int, context_tokens: float, runs: RunLengths | None = None
) -> list[Change]:
    """Another number of GPUs: tokens in the replica and per GPU, hit rate, speed per user and per GPU.

    More capacity is not the goal by itself: tokens a second per GPU usually fall. Raises ValueError for an impossible
    TP.
    """
    name = f"TP{replica.shards.tp} → TP{to}"
    wider = dataclasses.replace(replica, shards=dataclasses.replace(replica.shards, tp=to))
    before, user, gpu = _served(service, replica, batch, context_tokens)
    after, user_after, gpu_after = _served(service, wider, batch, context_tokens)
    free = f"{before.free_bytes_per_gpu:,.0f} → {after.free_bytes_per_gpu:,.0f} B free per GPU"
    gpus = replica.shards.tp
    fits, fits_after = before.replica_tokens, after.replica_tokens
    step = "1 / step; (weights + KV) per GPU / bandwidth"
    roofline = "roofline, middle of the band"
    return [
        _row(name, "tokens in the replica", fits, fits_after, free, "weights divide over GPUs"),
        _row(name, "tokens per GPU", fits / gpus, fits_after / to, free, "weights divide over GPUs"),
        *_hits(name, runs, fits, fits_after),
        _row(name, f"tokens/s per user at batch {batch}", user, user_after, step, roofline, "tokens/s"),
        _row(name, f"tokens/s per GPU at batch {batch}", gpu, gpu_after, "batch / step / GPUs", roofline, "tokens/s"),
    ]


def draft_change(before: Speculation, after: Speculation) -> Change:
    """A better drafter at equal step time: the ratio of accept lengths."""
    ratio = drafter_gain(before.accept_length, after.accept_length)
    name = f"accept length {before.accept_length:.2f} → {after.accept_length:.2f}"
    source = f"arXiv 2211.17192; {RATIO_NOTE}"
    quantity = "tokens per verification (τ)"
    return Change(name, quantity, before.accept_length, after.accept_length, ratio, "τ₂ / τ₁", source, None, "")


def draft_speedup(
    service: Service, before: Speculation, after: Speculation, batch: int, context_tokens: float
) -> Change:
    """The gain of both drafters over none, including the cost of verification, which is higher for a mixture of
    experts."""
    was, now = (speculation_speedup(service, batch, context_tokens, d) for d in (before, after))
    name = f"accept length {before.accept_length:.2f} → {after.accept_length:.2f}"
    source = "arXiv 2211.17192; verification touches more experts (arXiv 2506.20675), independent uniform routing"
    formula = "τ / (t_verify / t_step + draft cost)"
    return _row(name, f"speed-up over no draft at batch {batch}", was, now, formula, source, "")


def tier_change(
    budget: Budget,
    service: Service,
    context_tokens: float,
    ratio: float = 2.0,
    runs: RunLengths | None = None,
    factors: Sequence[float] = (1.0, 2.0),
) -> list[Change]:
    """Without and with a host memory tier: tokens within reach, hit rates as load rises, and the cost of a return.

    Load: with `factor` times as many sessions interleaved a cache acts as if it were that much smaller (see
    `tiers.overload`).
    """
    held = max(0.0, budget.free_bytes_per_gpu)
    tier = host_tier(held, budget.token_bytes.per_token_per_gpu, budget.replica.shards, ratio)
    name = f"L2 off → on ({ratio:g} × device pool, {tier.host_bytes / (1 << 30):,.0f} GiB of host memory)"
    first, both = budget.replica_tokens, budget.replica_tokens + tier.tokens
    rows = [
        _row(name, "tokens within reach", first, both, f"L1 + {ratio:g} × L1; every rank keeps its own copy",
             "SGLang HiCache, hicache_ratio 2.0 by default")
    ]  # fmt: skip
    for factor in factors:
        at = "hit rate" if factor == 1 else f"hit rate at {factor:g} × the load"
        rows += _hits(name, runs, first / factor, both / factor, at)
    rows.append(reload_change(budget, service, context_tokens)._replace(change=name))
    return rows


def tier_traffic(
    budget: Budget, service: Service, runs: RunLengths, context_tokens: float, ratio: float = 2.0
) -> tuple[int, TierCost]:
    """(prompt tokens of the dataset that L1 serves, what those that L2 serves cost and save over the whole trace).

    Computing is at the rate of a cold prompt of `context_tokens` at the middle MFU, reloading at the assumed link.
    """
    per_gpu = budget.token_bytes.per_token_per_gpu
    tier = host_tier(max(0.0, budget.free_bytes_per_gpu), per_gpu, budget.replica.shards, ratio)
    first = runs.hit_tokens(budget.replica_tokens)
    second = runs.hit_tokens(budget.replica_tokens + tier.tokens) - first
    a = service.assumptions
    seconds = prefill_work(service.model, context_tokens).flops / (service.peak_flops * a.mid_mfu)
    return first, tier_cost(second, per_gpu, a.link_bytes_per_s, context_tokens / seconds, budget.replica.shards.tp)


def reload_change(budget: Budget, service: Service, context_tokens: float) -> Change:
    """Seconds to restore an evicted context: by computing it, or by reading it over every GPU's host link."""
    a = service.assumptions
    moved = context_tokens * budget.token_bytes.per_token_per_gpu + budget.token_bytes.per_sequence_per_gpu
    recompute = prefill_work(service.model, context_tokens).flops / (service.peak_flops * a.mid_mfu)
    quantity = f"{context_tokens:,.0f} tokens back in"
    formula = f"cold FLOPs / (peak × MFU {a.mid_mfu:g}) → bytes per GPU / {a.link_bytes_per_s:.3g} B/s"
    return _row("L2", quantity, recompute, moved / a.link_bytes_per_s, formula, "estimate: MFU and link assumed", "s")
