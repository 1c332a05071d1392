"""What a change of one replica buys: KV precision, twice the GPUs, a better drafter; each with its formula and source.

A change of precision is never shown as free: beside it stands an evaluation before and after, or "not evaluated".
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from analysis.evaluation import Comparison
from analysis.interactivity import Service, decode_point
from analysis.kv_budget import Budget, Replica, kv_budget
from analysis.speculation import RATIO_NOTE, Speculation, drafter_gain

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


def _row(change: str, quantity: str, before: float, after: float, formula: str, source: str) -> Change:
    return Change(change, quantity, before, after, after / before if before else None, formula, source)


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
) -> list[Change]:
    """Another KV precision on the same GPUs: tokens that fit, and tokens a second at a batch."""
    name = f"{replica.kv_dtype} → {to} KV"
    before, user, _ = _served(service, replica, batch, context_tokens)
    after, user_after, _ = _served(service, dataclasses.replace(replica, kv_dtype=to), batch, context_tokens)
    was, now = before.token_bytes.per_token_per_gpu, after.token_bytes.per_token_per_gpu
    bytes_formula = f"{was:,.0f} → {now:,.0f} B a token on each GPU"
    rows = [
        _row(name, "tokens in the replica", before.replica_tokens, after.replica_tokens, bytes_formula, "row layouts"),
        _row(name, f"tokens/s per user at batch {batch}", user, user_after, "KV read per step / bandwidth", "roofline"),
    ]
    said = evaluation.sentence() if evaluation is not None else "not evaluated"
    return [row._replace(evaluation=said if to in LOWER_PRECISION else None) for row in rows]


def tp_change(replica: Replica, service: Service, to: int, batch: int, context_tokens: float) -> list[Change]:
    """Another number of GPUs: tokens in the replica and per GPU, speed per user and per GPU.

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
    step = "(weights + KV) per GPU / bandwidth"
    return [
        _row(name, "tokens in the replica", fits, fits_after, free, "weights divide over GPUs"),
        _row(name, "tokens per GPU", fits / gpus, fits_after / to, free, "weights divide over GPUs"),
        _row(name, f"tokens/s per user at batch {batch}", user, user_after, step, "roofline"),
        _row(name, f"tokens/s per GPU at batch {batch}", gpu, gpu_after, "batch / step / GPUs", "roofline"),
    ]


def draft_change(before: Speculation, after: Speculation) -> Change:
    """A better drafter at equal step time: the ratio of accept lengths."""
    ratio = drafter_gain(before.accept_length, after.accept_length)
    name = f"accept length {before.accept_length:.2f} → {after.accept_length:.2f}"
    source = f"arXiv 2211.17192; {RATIO_NOTE}"
    return Change(name, "tokens/s per user", before.accept_length, after.accept_length, ratio, "τ₂ / τ₁", source)
