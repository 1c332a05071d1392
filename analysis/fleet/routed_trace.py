"""A dataset and a question as the arrays that a routing replay takes, and service times from a model and its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.fleet.routing import ServiceModel, Trace
from analysis.store.question import BadQuestion, NeedsArrivals, Question, own_definition

if TYPE_CHECKING:
    from analysis.replica.interactivity import Service
    from analysis.store.warehouse import Warehouse


class Routed(NamedTuple):
    """The inputs of a routing replay: the trace, the block size, and the sessions at once if arrivals are closed:N."""

    trace: Trace
    block_tokens: int
    population: int | None


def routed_trace(warehouse: Warehouse, question: Question) -> Routed:
    """The whole trace of a dataset under the question's arrival model.

    With closed:N, a session waits for its answers, and N top-level sessions run at once.

    Raises:
        BadQuestion: a block size or arrival model that does not fit the dataset, or a window or filter (replicas serve
            the whole trace).
        NeedsArrivals: times are relative and no arrival model is named.
    """
    own_definition(question, "route")
    if question.window != "all" or question.where:
        raise BadQuestion("replicas serve the whole trace: a window or a filter is not possible", "window")
    prepared = warehouse.prepare(question)
    arrived = warehouse.arrived(question.arrivals)
    if arrived.unanchored:
        raise NeedsArrivals("routing")
    loaded = warehouse.loaded()
    r = loaded.requests
    names = r.select("session_id").with_columns(code=loaded.session).drop_nulls().unique("code").sort("code")
    kind, _, value = question.arrivals.partition(":")
    known = loaded.leaf >= 0
    on_path = loaded.tree.end[np.where(known, loaded.leaf, 0)]
    trace = Trace(
        loaded.tree.parent,
        loaded.tree.start,
        loaded.tree.end,
        loaded.leaf,
        arrived.order,
        arrived.arrival_s,
        loaded.session,
        session_names=names["session_id"].cast(str).to_list(),
        # a prompt of which only the length is known hits nothing, but takes time and room
        tokens=np.where(known, on_path, r["input_tokens"].fill_null(0).to_numpy()),
        output_tokens=r["output_tokens"].fill_null(-1).to_numpy(),
        ttft_s=r["ttft_s"].fill_null(np.nan).to_numpy(),
        duration_s=r["duration_s"].fill_null(np.nan).to_numpy(),
        chain=_families(warehouse),
    )
    return Routed(trace, prepared.block_size, int(float(value)) if kind == "closed" else None)


def _families(warehouse: Warehouse) -> NDArray[np.int64]:
    """int64[r], the top-level session of each request; a request without session is a family of its own."""
    sessions = warehouse.dataset.read("sessions").select("session_id", "parent_session_id")
    above = dict(sessions.iter_rows())
    r = warehouse.loaded().requests["session_id"].to_list()
    codes: dict[object, int] = {}
    family = np.empty(len(r), np.int64)
    for k, name in enumerate(r):
        top = name
        seen = set()
        while above.get(top) is not None and top not in seen:
            seen.add(top)
            top = above[top]
        family[k] = codes.setdefault(("alone", k) if name is None else top, len(codes))
    return family


def service_model(service: Service, at_tokens: float = 100_000.0) -> ServiceModel:
    """Service times of a model on its GPUs, in the middle of the MFU and bandwidth bands.

    Prefill is fitted to the exact FLOPs of cold prompts of a tenth of `at_tokens` and of `at_tokens`; decode steps to
    batches of 1 and 8 with and without context. Sliding windows and sparse attention are therefore approximated.
    """
    from analysis.replica.interactivity import decode_step_seconds
    from analysis.replica.prefill import prefill_work

    short, long = at_tokens / 10, at_tokens
    assumptions = service.assumptions
    speed = service.peak_flops * assumptions.mid_mfu
    at_short, at_long = (prefill_work(service.model, tokens).flops / speed for tokens in (short, long))
    pair = max((at_long / long - at_short / short) / ((long - short) / 2), 0.0)

    def step(batch: float, context: float) -> float:
        return sum(decode_step_seconds(service, batch, context)) / 2

    one, eight, deep = step(1, 1.0), step(8, 1.0), step(1, at_tokens)
    return ServiceModel(
        at_long / long - pair * long / 2,
        pair,
        one,
        max((eight - one) / 7, 0.0),
        max((deep - one) / at_tokens, 0.0),
        assumptions.mid_mfu / assumptions.mfu[1],
        assumptions.mid_mfu / assumptions.mfu[0],
    )
