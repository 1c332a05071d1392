"""FLOPs of a prefill after cache hits: the new tokens, and their attention over all earlier tokens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analysis.replica.models.config import AttentionWork, Model


class PrefillWork(NamedTuple):
    """FLOPs of a prefill. `remaining` = (linear + attention) / cold."""

    linear_flops: float
    attention_flops: float
    cold_flops: float

    @property
    def flops(self) -> float:
        """FLOPs left after the cached part."""
        return self.linear_flops + self.attention_flops

    @property
    def remaining(self) -> float:
        """Share of the cold prefill that is left, 0 to 1. Its inverse is the compute speed-up, never 1 / (1 - h)."""
        return self.flops / self.cold_flops if self.cold_flops else 0.0


def _pairs(start: Any, end: Any, work: AttentionWork) -> Any:
    """(query, key) pairs of queries at positions start..end: the integral of min(position / stride, limit)."""
    if work.limit is None:
        return (end * end - start * start) / 2 / work.stride
    knee = work.limit * work.stride
    below_start, below_end = np.minimum(start, knee), np.minimum(end, knee)
    grown = (below_end * below_end - below_start * below_start) / 2 / work.stride
    return grown + (np.maximum(end, knee) - np.maximum(start, knee)) * work.limit


def span_flops(model: Model, start: Any, end: Any) -> tuple[Any, Any]:
    """(linear, attention) FLOPs to prefill the tokens from `start` to `end` of a prompt: numbers, or arrays of them."""
    new = end - start
    linear = 2.0 * model.parameters.active * new
    attention = 0.0 * new
    for work in model.attention:
        attention += work.layers * (work.flops_per_pair * _pairs(start, end, work) + work.flops_per_token * new)
    return linear, attention


def prefill_work(model: Model, context_tokens: float, hit_rate: float = 0.0) -> PrefillWork:
    """FLOPs to prefill a prompt of which a share is cached.

    F_lin = 2 P_active n; F_attn = 2 L heads (d_qk + d_v) (n c + n^2 / 2) for full attention (c cached, n new tokens);
    windows and top-k selection bound the keys a query sees. Validated against Mooncake FAST'25, fig. 14: Llama-3-70B,
    128k, 95 % cached: -92 %. `hit_rate` is this request's, not a pooled one.

    Raises:
        ValueError: a hit rate outside 0..1, a negative context.
    """
    if not 0 <= hit_rate <= 1:
        raise ValueError(f"hit rate {hit_rate} must be between 0 and 1 (a fraction, not percent)")
    if context_tokens <= 0:
        raise ValueError(f"context {context_tokens} must be at least 1 token")
    linear, attention = span_flops(model, context_tokens * hit_rate, context_tokens)
    cold = sum(span_flops(model, 0.0, context_tokens))
    return PrefillWork(linear, attention, cold)


def latent_expansion_flops(model: Model, cached_tokens: float, chunks: int = 1) -> float:
    """FLOPs to expand cached MLA latents into keys and values, again for every prefill chunk; 0 without MLA.

    2 L rank heads (d_nope + d_v) per cached token and chunk: little at h = 0.95, +30 % at h = 0.99 for Kimi. Not part
    of `prefill_work`: engines differ in when they do it.
    """
    if not model.latent_rank:
        return 0.0
    full = next(g for g in model.groups if g.kind == "mla")
    pair = next(w for w in model.attention if w.flops_per_pair)
    expanded = pair.flops_per_pair / 2 - model.attention_heads * full.rope
    return 2.0 * full.layers * model.latent_rank * expanded * cached_tokens * chunks
