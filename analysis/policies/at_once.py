"""How many sessions at once before the cache thrashes: hit rate, recomputed tokens, TTFT and throughput by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.reuse import reuse
from analysis.policies.admission import RULES, Schedule, median_live_tokens, schedule
from analysis.policies.turns import Turns, turns
from analysis.replica.interactivity import Service
from analysis.replica.prefill import span_flops
from analysis.store.arrivals import arrival_order
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse

MOST_AT_ONCE = 4096
PERCENTILE = 50

MEANINGS = {
    "at_once": "users, each of whom sends one session after another; what happens inside a session keeps its recorded "
    "distances in time",
    "hit_rate": "hit tokens / prompt tokens in one LRU cache of the capacity, exact for these arrivals: that of `curve "
    "--arrivals closed:N`, where no session is held back",
    "recomputed_tokens": "prompt tokens that do not hit",
    "duration_s": "from the first start to the end of the last reply, at the recorded pace",
    "ttft_s": "median over requests of the prefill of what does not hit, without queueing, from the high to the low "
    "end of the assumed MFU: an estimate; null without a model and GPU",
    "wait_s_p50": "time that a session waited before its start and while it was paused",
    "tokens_per_s": "output tokens a second: at the recorded pace, or slower if the prefills alone take longer than "
    "that; from the low to the high end of the assumed MFU: an estimate; null without a model and GPU",
    "knee": "the largest number of sessions whose live contexts fit: their median, over the time in which they run, is "
    "at most the capacity",
}


class _Trace(NamedTuple):
    """What every number of sessions is asked of."""

    turns: Turns
    rank: NDArray[Any]
    ordinal: NDArray[Any]
    selected: NDArray[np.bool_]
    prompt: NDArray[np.int64]
    output_tokens: int


def at_once(
    warehouse: Warehouse,
    question: Question,
    capacity_tokens: int,
    numbers: Sequence[int],
    rules: Sequence[str] = ("none",),
    service: Service | None = None,
) -> dict[str, Any]:
    """One row for each admission rule and number of sessions, and the knee.

    Args:
        question: block size and filters; arrivals and window must be the defaults.
        capacity_tokens: tokens that the replica's cache holds.
        numbers: how many sessions at once.
        rules: names of `analysis.policies.admission.RULES`.
        service: the replica, for TTFT and throughput.

    Returns:
        rows (`MEANINGS`), knee (at_once and reason; None if not even one session fits), sessions (top-level sessions
        in the trace), left_out (numbers above that, for which no row can be made).

    Raises:
        BadQuestion: a number, rule or capacity that means nothing, or times that the dataset does not have.
    """
    _check(numbers, rules, capacity_tokens, question)
    trace = _trace(warehouse, question)
    possible = [n for n in dict.fromkeys(numbers) if n <= trace.turns.families]
    rows = [
        _row(warehouse, question, trace, rule, n, capacity_tokens, service) for rule in dict.fromkeys(rules)
        for n in possible
    ]  # fmt: skip
    return {
        "rows": rows,
        "knee": _knee(trace.turns, capacity_tokens),
        "sessions": trace.turns.families,
        "left_out": [n for n in dict.fromkeys(numbers) if n > trace.turns.families],
    }


def _check(numbers: Sequence[int], rules: Sequence[str], capacity_tokens: int, question: Question) -> None:
    if not numbers or any(not 1 <= n <= MOST_AT_ONCE for n in numbers):
        raise BadQuestion(f"sessions at once are whole numbers from 1 to {MOST_AT_ONCE:,}", "at_once")
    for rule in rules:
        if rule not in RULES:
            raise BadQuestion(f"unknown admission rule {rule!r}. Rules: {', '.join(RULES)}", "admission", RULES)
    if capacity_tokens < 1:
        raise BadQuestion("a cache must hold at least 1 token", "capacity_tokens")
    if (question.arrivals, question.window, question.definition) != ("recorded", "all", "tracetower"):
        raise BadQuestion(
            "sessions at once are an arrival model: arrivals, window and definition mean nothing beside it"
        )


def _trace(warehouse: Warehouse, question: Question) -> _Trace:
    loaded = warehouse.loaded()
    selected = np.zeros(loaded.requests.height, np.bool_)
    selected[warehouse.grouped(question, "all")["row"].to_numpy()] = True
    if not selected.any():
        raise BadQuestion("no request has a known prompt, so nothing can be said about a cache")
    prompt = np.where(loaded.leaf >= 0, np.asarray(loaded.tree.end)[np.maximum(loaded.leaf, 0)], 0)
    output = loaded.requests["output_tokens"].fill_null(0).to_numpy()
    return _Trace(
        turns(warehouse),
        loaded.requests["input_rank"].to_numpy(),
        loaded.requests["record_ordinal"].to_numpy(),
        selected,
        prompt,
        int(output[selected].sum()),
    )


def _row(
    warehouse: Warehouse,
    question: Question,
    trace: _Trace,
    rule: str,
    number: int,
    capacity_tokens: int,
    service: Service | None,
) -> dict[str, Any]:
    planned = schedule(trace.turns, rule, number, capacity_tokens)
    hits = _hits(warehouse, question, trace, planned, capacity_tokens)
    mine, total = hits[trace.selected], int(trace.prompt[trace.selected].sum())
    row: dict[str, Any] = {
        "at_once": number,
        "admission": rule,
        "hit_rate": int(mine.sum()) / total,
        "recomputed_tokens": total - int(mine.sum()),
        "duration_s": planned.end_s,
        "ttft_s": None,
        "wait_s_p50": float(np.percentile(planned.wait_s, 50)),
        "wait_s_p99": float(np.percentile(planned.wait_s, 99)),
        "tokens_per_s": None,
    }
    if service is not None:
        row |= _speed(trace, hits, planned, service)
    return row


def _hits(
    warehouse: Warehouse, question: Question, trace: _Trace, planned: Schedule, capacity_tokens: int
) -> NDArray[np.int64]:
    """Hit tokens of each row in an LRU cache of the capacity, if turns arrive as planned."""
    loaded, block = warehouse.loaded(), warehouse.prepare(question).block_size
    arrival = np.empty(len(trace.prompt))
    arrival[trace.turns.row] = planned.arrival_s
    order = arrival_order(arrival, trace.rank, trace.ordinal)
    tree = loaded.tree
    runs = reuse(tree.parent, tree.start, tree.end, loaded.leaf, order, arrival, block, None, loaded.paths)
    found = np.clip(capacity_tokens // block - runs.distance_blocks, 0, runs.blocks)
    return np.bincount(runs.request, weights=found, minlength=len(trace.prompt)).astype(np.int64) * block


def _speed(trace: _Trace, hits: NDArray[np.int64], planned: Schedule, service: Service) -> dict[str, Any]:
    known = trace.prompt > 0
    flops = np.zeros(len(hits))
    prompts = trace.prompt[known].astype(np.float64)
    flops[known] = sum(span_flops(service.model, np.minimum(hits[known], prompts), prompts))
    ends = [flops / (service.peak_flops * mfu) for mfu in reversed(service.assumptions.mfu)]
    chosen = trace.selected & known
    rates = [trace.output_tokens / max(planned.end_s, float(seconds.sum())) for seconds in ends if flops.any()]
    return {
        "ttft_s": [float(np.percentile(seconds[chosen], PERCENTILE)) for seconds in ends],
        "tokens_per_s": sorted(rates) if planned.end_s > 0 else None,
    }


def _knee(found: Turns, capacity_tokens: int) -> dict[str, Any] | None:
    """The largest number of sessions whose live tokens fit, by their median over time."""
    one = median_live_tokens(found)
    most = found.families
    fits = min(most, int(capacity_tokens // one)) if one else most
    if not fits:
        reason = f"one session has {one:,.0f} live tokens (the median over its time), more than {capacity_tokens:,}"
        return {"at_once": None, "reason": reason}
    reason = f"{fits:,} sessions have {fits * one:,.0f} live tokens (the median of one, over its time, is {one:,.0f})"
    after = (
        f"{fits + 1:,} have {(fits + 1) * one:,.0f}, more than the {capacity_tokens:,} that the cache holds"
        if fits < most
        else f"the trace has no more sessions, and they fit into {capacity_tokens:,}"
    )
    return {"at_once": fits, "reason": f"{reason}; {after}"}
