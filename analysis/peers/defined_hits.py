"""Hits of every request as another tool or an engine counts them (`Question.definition`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.store.question import BadQuestion, Question, engine_of
from analysis.store.warehouse import Warehouse

Tokens = NDArray[np.int64]


def defined_hits(warehouse: Warehouse, question: Question, capacity_tokens: int | None) -> tuple[Tokens, Tokens]:
    """(hit tokens with an unbounded cache, hit tokens at the capacity), int64[r] each, under the question's definition.

    Raises:
        BadQuestion: the definition has no answer for this dataset or this capacity.
    """
    named = engine_of(question.definition)
    block = warehouse.prepare(question).block_size
    capacity = None if capacity_tokens is None else capacity_tokens // block
    if named is not None:
        return _engine(warehouse, question, *named, capacity)
    return _peer(warehouse, question, capacity)


def _peer(warehouse: Warehouse, question: Question, capacity: int | None) -> tuple[Tokens, Tokens]:
    from analysis.peers.peer_definitions import simulated_hits, units_of

    units = units_of(warehouse, question)
    block = warehouse.prepare(question).block_size
    if question.definition == "aiperf" and capacity is not None:
        raise BadQuestion("aiperf knows no capacity", "definition", ["tracetower"])
    ceiling = np.minimum(units.hit * block, units.tokens)
    if capacity is None:
        return ceiling, ceiling
    return ceiling, np.minimum(simulated_hits(units, capacity) * block, units.tokens)


def _engine(
    warehouse: Warehouse, question: Question, engine: str, version: str | None, capacity: int | None
) -> tuple[Tokens, Tokens]:
    from analysis.peers.engine_curve import ample_blocks, engine_paths, outcomes_of

    paths = engine_paths(warehouse, question)
    try:
        capacities = [ample_blocks(paths), *([] if capacity is None else [capacity])]
        outcomes = outcomes_of(paths, engine, capacities, version)
    except ValueError as error:
        raise BadQuestion(str(error)) from None
    hits = []
    for outcome in outcomes:
        hit = np.zeros(len(warehouse.loaded().leaf), np.int64)
        hit[paths.row] = outcome.hit_blocks * paths.block_tokens
        hits.append(hit)
    # An engine's eviction order is not LRU, so a smaller cache may keep a block that a larger one evicts.
    return np.maximum(hits[0], hits[-1]), hits[-1]
