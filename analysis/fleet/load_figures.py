"""The figures of a finished replay: hit rate and load together, because each alone is easy to optimise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.placement import vmr_band
from analysis.fleet.routing import Cell, Replay, Trace, replay
from traces.tree.compiled import njit

DEFINITION = {
    "hit_rate": "hit tokens / prefix tokens of requests whose prompt is known; a partial last block never hits",
    "one_cache_hit_rate": "the same requests at the same moments through one LRU cache of the replicas' total size",
    "loss_placement": "hits of the one cache that the chosen replica would not have had even if unbounded",
    "loss_capacity": "the rest of the loss: held once by the chosen replica, evicted since (negative if it kept more)",
    "cold_prefill_tokens": "sum of max(0, longest prefix held by any replica - the chosen replica's hit)",
    "vmr_running_requests": "sample variance over replicas / mean, each averaged over time, of requests in flight",
    "vmr_sessions": "the same for live sessions, each counted at the replica of its last request",
    "vmr_band": "95 % band of one look at that many Poisson loads: chi-squared(n - 1) / (n - 1)",
    "duty_cycle": "live sessions with a request in flight / live sessions, time-averaged",
    "p99_running_requests": "99th percentile over replicas and time of requests in flight",
    "ttft_s": "arrival to computed prompt, waiting included, between the service model's low and high",
    "duplicate_resident_tokens": "tokens held by several replicas at the end, all copies but one",
}


def figures(result: Replay) -> dict[str, Any]:
    """The figures of a replay by name, as `route` prints them; None is unknown or undefined."""
    cell, out = result.cell, result.outcome
    block = cell.block_tokens
    placed = out.replica >= 0
    prefix = int(result.prefix_tokens[placed].sum())
    hit, shared = (int(out.blocks[name][placed].sum()) * block for name in ("hit", "shared_hit"))
    unbounded = int(np.minimum(out.blocks["shared_hit"][placed], out.blocks["unbounded_hit"][placed]).sum()) * block
    replicas = out.samples.shape[1]
    by_tokens = np.bincount(out.replica[placed], result.prefix_tokens[placed], minlength=replicas).astype(np.int64)
    by_requests = np.bincount(out.replica[placed], minlength=replicas)
    timed = cell.service != "instant"
    whole = out.integrals[0]
    low, high = _ttft(result)
    return {
        "policy": cell.policy,
        "replicas": cell.replicas,
        "capacity_tokens": cell.capacity_tokens,
        "seed": cell.seed,
        "prefix_tokens": prefix,
        "hit_tokens": hit,
        "hit_rate": _ratio(hit, prefix),
        "one_cache_hit_rate": _ratio(shared, prefix),
        "loss_placement": _ratio(shared - unbounded, prefix),
        "loss_capacity": _ratio(unbounded - hit, prefix),
        "cold_prefill_tokens": int(np.maximum(out.blocks["best"][placed] - out.blocks["hit"][placed], 0).sum()) * block,
        "prefix_tokens_per_replica": by_tokens.tolist(),
        "requests_per_replica": by_requests.tolist(),
        "max_over_mean_load": _ratio(int(by_tokens.max(initial=0)) * replicas, prefix),
        "mean_running_requests": _ratio(whole["running_mean"], whole["seconds"]) if timed else None,
        "max_running_requests": int(out.counts["max_running"][0]) if timed else None,
        "vmr_running_requests": _ratio(whole["running_variance"], whole["running_mean"])
        if timed and replicas > 1
        else None,
        "vmr_sessions": _ratio(whole["sessions_variance"], whole["sessions_mean"])
        if result.times_known and result.sessions_known and replicas > 1
        else None,
        "vmr_band": _pair(vmr_band(cell.replicas)),
        "duty_cycle": _ratio(whole["sessions_busy"], whole["sessions_live"])
        if timed and result.sessions_known
        else None,
        "p99_running_requests": _weighted_quantile(out.load_seconds, 0.99) if timed else None,
        "queued_requests": int(out.counts["queued"][0]) if timed else None,
        "refused_requests": int(out.counts["refused"][0]) if timed else None,
        "unschedulable_requests": int(out.counts["unschedulable"][0]) if timed else None,
        "ttft_s_p50": _band(low, high, 0.5),
        "ttft_s_p99": _band(low, high, 0.99),
        "session_moves": int(out.counts["moves"][0]) if result.sessions_known else None,
        "duplicate_resident_tokens": int(out.counts["duplicate_blocks"][0]) * block,
        "max_in_flight_per_session": int(out.counts["max_session_running"][0])
        if timed and result.sessions_known
        else None,
        "estimated_duration_requests": result.estimated_durations if cell.service == "recorded" else None,
        "events": fleet_events(result),
    }


def cell_figures(trace: Trace, cell: Cell) -> dict[str, Any]:
    """`figures` of `trace` replayed in `cell`: one task of a grid."""
    return figures(replay(trace, cell))


def fleet_events(result: Replay) -> list[dict[str, Any]]:
    """One row per fleet event: sessions moved by their next request against the least that must move, tokens
    recomputed.

    Going from m to n replicas, 1 - m / n of the sessions must move to spread them evenly, or 1 - n / m when replicas
    leave.
    """
    rows = []
    for event, counts in zip(
        sorted(result.cell.events, key=lambda event: event.at_s), result.outcome.events, strict=True
    ):
        before, after, live = (int(counts[k]) for k in ("replicas_before", "replicas_after", "live_sessions"))
        happened = before > 0
        rows.append(
            {
                "kind": event.kind,
                "at_s": event.at_s,
                "replicas_before": before if happened else None,
                "replicas_after": after if happened else None,
                "live_sessions": live if happened else None,
                "moved_sessions": int(counts["moved_sessions"]) if happened else None,
                "moved_share": _ratio(int(counts["moved_sessions"]), live) if happened else None,
                "least_share": 1 - min(before, after) / max(before, after) if happened else None,
                "recomputed_tokens": int(counts["recomputed_blocks"]) * result.cell.block_tokens if happened else None,
            }
        )
    return rows


def load_over_time(result: Replay) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Seconds from the first arrival, float64[m], and requests in flight per replica, int32[m, R]; -1: not alive."""
    out = result.outcome
    return out.sample_s - (out.sample_s[0] if len(out.sample_s) else 0.0), out.samples


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None


def _pair(band: tuple[float, float] | None) -> list[float] | None:
    return None if band is None else list(band)


def _weighted_quantile(seconds: NDArray[np.float64], share: float) -> int | None:
    """The least load at or under which the replicas spent `share` of their time."""
    total = seconds.sum()
    return int(np.searchsorted(np.cumsum(seconds), share * total)) if total > 0 else None


def _band(low: NDArray[np.float64] | None, high: NDArray[np.float64] | None, share: float) -> list[float] | None:
    if low is None or high is None or not len(low):
        return None
    return [float(np.quantile(low, share)), float(np.quantile(high, share))]


def _ttft(result: Replay) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """TTFT of the placed requests, s, at the service model's low and high; None where it is not known."""
    cell, out = result.cell, result.outcome
    placed = np.flatnonzero(~np.isnan(out.times["computed_s"]) & (out.replica >= 0))
    if cell.service == "recorded" and result.ttft_known:
        waited = out.times["computed_s"][placed] - out.times["arrived_s"][placed]
        return waited, waited
    if cell.service != "model" or cell.model is None:
        return None, None
    placed = placed[np.argsort(out.times["admitted_s"][placed], kind="stable")]
    cached = out.blocks["hit"][placed] * cell.block_tokens
    new = result.what["tokens"][placed] - cached
    seconds = cell.model.prefill_s_per_token * new + cell.model.prefill_s_per_token_pair * (
        new * cached + new * new / 2.0
    )
    low, high = (
        _chained(out.replica[placed], out.times["admitted_s"][placed], seconds * factor, out.samples.shape[1])
        - out.times["arrived_s"][placed]
        for factor in (cell.model.low, cell.model.high)
    )
    return low, high


@njit(cache=True)
def _chained(replica: Any, admitted_s: Any, seconds: Any, replicas: int) -> Any:
    """When each prompt is computed, if a replica computes one prompt at a time, in order of admission."""
    free = np.full(replicas, -np.inf)
    done = np.empty(len(replica))
    for k in range(len(replica)):
        free[replica[k]] = max(free[replica[k]], admitted_s[k]) + seconds[k]
        done[k] = free[replica[k]]
    return done
