"""One replica's answers as the command line prints them and the app shows them: steps, notes, assumptions by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.replica.interactivity import Service, closed_loop, decode_point, prefill_seconds, speculation_speedup
from analysis.replica.kv_budget import Budget, Replica, kv_budget
from analysis.replica.models.kv_layout import row_bytes, token_bytes
from analysis.replica.prefill import prefill_work
from analysis.replica.speculation import RATIO_NOTE, Speculation

KIND_NAMES = {
    "gqa": "keys and values",
    "mla": "MLA latent",
    "index": "indexer keys",
    "compressed": "compressed latent",
    "state": "recurrent state",
}


def budget_json(budget: Budget, session_tokens: Sequence[int] = (32_000, 100_000, 200_000)) -> dict[str, object]:
    """The JSON object of `tracetower kv-budget` (without `dataset`)."""
    per = budget.token_bytes
    r = budget.replica
    return {
        "definition": {
            "model": r.model.name,
            "model_source": r.model.source,
            "gpu": r.gpu.name,
            "tp": r.shards.tp,
            "dp": r.shards.dp,
            "dcp": r.shards.dcp,
            "kv_dtype": r.kv_dtype,
            "engine": r.engine,
            "utilization": budget.utilization,
            "range_utilization": list(budget.range_utilization),
            "notes": budget_notes(budget),
        },
        "bytes_per_token": _whole(per.per_token),
        "bytes_per_token_per_gpu": _whole(per.per_token_per_gpu),
        "bytes_per_sequence": _whole(per.per_sequence),
        "bytes_per_sequence_per_gpu": _whole(per.per_sequence_per_gpu),
        "gpu_bytes": _whole(budget.gpu_bytes),
        "weights_bytes": _whole(budget.weights_bytes),
        "weights_bytes_per_gpu": _whole(budget.weights_bytes_per_gpu),
        "free_bytes_per_gpu": _whole(budget.free_bytes_per_gpu),
        "replica_tokens": budget.replica_tokens,
        "fits": budget.fits,
        "short_bytes_per_gpu": _whole(budget.short_bytes_per_gpu),
        "range": {"low_tokens": budget.low_tokens, "high_tokens": budget.high_tokens},
        "steps": [{"name": s.name, "bytes": _whole(s.bytes), "note": s.note} for s in budget.steps],
        "sessions_at": {str(n): budget.sessions(n) for n in session_tokens},
    }


def row_formulas(budget: Budget) -> list[dict[str, object]]:
    """The derivation of the bytes per token or sequence, one row per kind of layer: formula in words and numbers,
    bytes."""
    r = budget.replica
    sparse = any(g.kind == "index" for g in r.model.groups)
    rows: list[dict[str, object]] = []
    for g in r.model.groups:
        row = row_bytes(g, r.kv_dtype, r.engine, r.model.state_bytes, sparse)
        local = g.local_heads(r.shards.attention_tp)
        kept = (g.window or 1) if g.constant else 1
        every = f" / {g.stride} tokens" if g.stride > 1 and not g.constant else ""
        wide = f" × {g.window:,} rows" if g.constant and g.window else ""
        parted = f" / {r.shards.dcp} context ranks" if r.shards.dcp > 1 and not g.constant else ""
        size = row * g.layers * kept / (1 if g.constant else g.stride)
        rows.append(
            {
                "kind": KIND_NAMES[g.kind] + (" in a window" if g.window else ""),
                "per": "sequence" if g.constant else "token",
                "whole": f"{g.layers} layers × {_heads(g.heads)} × {row:g} B{wide}{every}",
                "whole_bytes": size * g.heads,
                "gpu": f"{g.layers} layers × {_heads(local)} × {row:g} B{wide}{every}{parted}",
                "gpu_bytes": size * local / (1 if g.constant else r.shards.dcp),
            }
        )
    return rows


def _heads(count: int) -> str:
    return "1 head" if count == 1 else f"{count} heads"


def budget_notes(budget: Budget) -> list[str]:
    """Notes that a reader needs to judge the figures: layouts, copies, per-sequence parts, unverified rows."""
    r, per = budget.replica, budget.token_bytes
    notes = list(r.model.notes)
    latent = any(g.kind == "mla" for g in r.model.groups)
    if latent and r.shards.attention_tp > 1 and r.shards.dcp == 1:
        notes.append(f"MLA keeps one latent for all heads: each of {r.shards.attention_tp} ranks stores every token")
    if latent and r.engine == "vllm" and r.kv_dtype == "fp8" and not any(g.kind == "index" for g in r.model.groups):
        notes.append("fp8 here is vLLM's 656-byte row (fp8_ds_mla); backends with plain e4m3 rows: fp8_e4m3")
    if per.per_sequence:
        notes.append(
            "tokens count what grows with the context; windows and states are kept per sequence (bytes_per_sequence), "
            "and sessions count both"
        )
    if r.shards.dp > 1:
        notes.append(
            f"{r.shards.dp} DP-attention ranks hold different requests: a prefix hits only on the rank that has it"
        )
    if not r.gpu.verified and r.gpu_bytes is None:
        notes.append(f"the figures of {r.gpu.name} are rounded announcements, not measured")
    return notes


def capacity_mark(budget: Budget, block_tokens: int) -> dict[str, object]:
    """The configuration as a mark on the capacity curve: label, GiB of KV over the replica, tokens, blocks."""
    r = budget.replica
    held = max(0.0, budget.free_bytes_per_gpu) * r.shards.tp
    extra = f" DP{r.shards.dp}" if r.shards.dp > 1 else ""
    extra += f" DCP{r.shards.dcp}" if r.shards.dcp > 1 else ""
    return {
        "label": f"{r.shards.tp}×{r.gpu.name.upper()} TP{r.shards.tp}{extra}, {r.kv_dtype} KV",
        "gib": held / (1 << 30),
        "tokens": budget.replica_tokens,
        "blocks": budget.blocks(block_tokens),
    }


def dataset_section(
    budget: Budget,
    live_context: Mapping[str, float | None],
    in_flight_output: float = 0.0,
    shared_prefix_tokens: float = 0.0,
    curve: Callable[[int], float] | None = None,
    capacity_for_rate: Callable[[float], int | None] | None = None,
    ceiling: float | None = None,
    reuse_horizon_sessions: float | None = None,
) -> dict[str, object]:
    """Sessions of a dataset's size in this replica: the `dataset` object of `tracetower kv-budget`.

    Args:
        budget: the replica's budget.
        live_context: tokens of a live context at "p50", "p90", "p99", "max"; None where unknown.
        in_flight_output: output tokens that a running request holds in addition to its prompt.
        shared_prefix_tokens: tokens common to all sessions, counted once.
        curve: capacity in tokens -> hit rate (0-1).
        capacity_for_rate: hit rate -> smallest capacity in tokens that reaches it, None if none does.
        ceiling: the hit rate without a capacity limit.
        reuse_horizon_sessions: sessions that return within the reuse horizon, so must stay cached while idle.

    Returns:
        live_context_*, sessions_at_* (running sessions, unrounded), hit_rate_at_capacity, capacity_tokens_losing_points
        (the capacity at which 1, 5 and 10 points of the ceiling are lost) and the idle sessions' need.
    """
    contexts = {q: live_context.get(q) for q in ("p50", "p90", "p99", "max")}
    out: dict[str, object] = {f"live_context_{q}": v for q, v in contexts.items()}
    for q, value in contexts.items():
        # At most the prompt can be shared; generated tokens belong to one request.
        fitting = (
            budget.sessions(value + in_flight_output, min(shared_prefix_tokens, value)) if value is not None else None
        )
        out[f"sessions_at_{q}"] = fitting if fitting is not None and math.isfinite(fitting) else None
    out["in_flight_output"] = in_flight_output
    out["shared_prefix_tokens"] = shared_prefix_tokens
    out["hit_rate_at_capacity"] = curve(budget.replica_tokens) if curve is not None and budget.fits else None
    out["ceiling"] = ceiling
    losing: dict[str, int | None] = {}
    if capacity_for_rate is not None and ceiling is not None:
        losing = {str(points): capacity_for_rate(ceiling - points / 100) for points in (1, 5, 10)}
    out["capacity_tokens_losing_points"] = losing or None
    typical = contexts["p50"]
    if reuse_horizon_sessions is None or typical is None:
        out["idle_sessions_tokens"] = None
    else:
        out["idle_sessions_tokens"] = (
            reuse_horizon_sessions * max(0.0, typical - shared_prefix_tokens) + shared_prefix_tokens
        )
    return out


def _whole(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def interactivity_json(
    service: Service,
    context: int,
    output: int,
    batch: int,
    hit_rate: float | None = None,
    draft: Speculation | None = None,
    sessions: int | None = None,
    think_s: float | None = None,
) -> dict[str, Any]:
    """The JSON object of `tracetower interactivity`. Seconds and rates are [low, high].

    `prefill_flops` is the cold prefill, `prefill_remaining` the share of it left after the hits. `recompute_s` (null
    without a hit rate) is what computing the cached part again would take at the middle MFU, `reload_s` reading it
    back over the host link.
    """
    a, model = service.assumptions, service.model
    if output < 0:
        raise ValueError(f"output {output} must not be negative")
    work = prefill_work(model, context, hit_rate or 0.0)
    ttft = prefill_seconds(service, work.flops)
    live = context + output / 2
    point = decode_point(service, batch, live, draft)
    cached = context * hit_rate if hit_rate is not None else None
    per = token_bytes(model.groups, service.kv_dtype, service.engine, model.state_bytes, service.shards)
    reload_s = recompute_s = None
    if cached is not None:
        moved = cached * per.per_token_per_gpu + (per.per_sequence_per_gpu if cached else 0.0)
        reload_s = moved / a.link_bytes_per_s
        recompute_s = (work.cold_flops - work.flops) / (service.peak_flops * a.mid_mfu)
    budget = kv_budget(
        Replica(model, service.gpu, service.shards, service.kv_dtype, service.engine, weights_scheme=service.scheme)
    )
    loop = None
    if sessions is not None:
        if think_s is None:
            raise ValueError("a closed loop needs the think time: give its seconds")
        loop = closed_loop(service, sessions, think_s, context, output, hit_rate or 0.0, draft)._asdict()
    return {
        "prefill_flops": work.cold_flops,
        "prefill_flops_left": work.flops,
        "prefill_remaining": work.remaining,
        "attention_share_cold": 1 - 2.0 * model.parameters.active * context / work.cold_flops,
        "ttft_s": [ttft[0] + a.fixed_s[0], ttft[1] + a.fixed_s[1]],
        "decode_step_s": list(point.step_s),
        "tokens_per_s_per_user": list(point.tokens_per_s_per_user),
        "tokens_per_s_per_gpu": list(point.tokens_per_s_per_gpu),
        "speculative_speedup": speculation_speedup(service, batch, live, draft) if draft is not None else None,
        "reload_s": reload_s,
        "recompute_s": recompute_s,
        "sessions_that_fit": budget.sessions(context + output),
        "closed_loop": loop,
        "assumptions": _named_assumptions(service, draft),
    }


def _named_assumptions(service: Service, draft: Speculation | None) -> dict[str, Any]:
    a = service.assumptions
    out: dict[str, Any] = {
        "mfu": list(a.mfu),
        "mfu_middle": a.mid_mfu,
        "peak_flops_per_gpu": service.gpu.peak_flops(service.scheme)[0],
        "peak_flops_unit": service.gpu.peak_flops(service.scheme)[1],
        "bandwidth_efficiency": list(a.bandwidth_efficiency),
        "hbm_bytes_per_s": service.gpu.hbm_bytes_per_s,
        "layer_overhead_s": list(a.layer_overhead_s),
        "link_bytes_per_s": a.link_bytes_per_s,
        "queue_and_tokenise_s": list(a.fixed_s),
        "weights": service.scheme,
        "weights_source": service.model.source,
        "gpu_source": service.gpu.source,
        "ttft": "without waiting for other requests",
        "step": "weights touched + KV read per GPU over HBM bandwidth, or compute if that is slower",
    }
    if service.model.experts:
        out["expert_coverage"] = "independent uniform routing: an upper bound on weights read"
    if draft is not None:
        out |= {"verify_tokens": draft.verified, "draft_cost": draft.draft_cost, "accept_length_note": RATIO_NOTE}
    return out
