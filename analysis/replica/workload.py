"""The workload of a dataset for one replica: live contexts, shared prefixes, the hit rate at the replica's capacity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.sorted_runs import CapacityCurve, capacity_curve, hit_blocks_at, needed_blocks
from analysis.replica.answers import dataset_section
from analysis.replica.kv_budget import Budget
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from traces.tree.compiled import njit

Ints = NDArray[np.int64]


class Workload(NamedTuple):
    """The workload that a replica serves, independent of the replica: computed once per question, used for every
    budget.

    `contexts`: prompt tokens of a request at p50, p90, p99 and max. `think_s`: mean gap between a session's requests.
    `runs` is None where the order across sessions is not known (`note` says what to name) or no prompt is.
    """

    contexts: dict[str, float | None]
    output_tokens: float | None
    shared_prefix_tokens: float | None
    runs: RunLengths | None
    note: str | None
    reuse_horizon_s: float | None
    sessions_within_horizon: float | None
    think_s: float | None
    requests: int


@dataclass(frozen=True)
class RunLengths:
    """The reuse runs of the selected requests and the tokens they are a share of; a rate is one look-up."""

    distance_blocks: Ints
    blocks: Ints
    prefix_tokens: int
    block_tokens: int

    @cached_property
    def _curve(self) -> CapacityCurve:
        return capacity_curve(self.distance_blocks, self.blocks)

    @cached_property
    def _needed_blocks(self) -> int:
        return needed_blocks(self._curve)

    def hit_tokens(self, capacity_tokens: float) -> int:
        """Prompt tokens that one LRU cache of this many tokens hits."""
        capacity = min(int(capacity_tokens) // self.block_tokens, self._needed_blocks + 1)
        return int(hit_blocks_at(self._curve, np.array([capacity]))[0, 0]) * self.block_tokens

    def rate(self, capacity_tokens: float) -> float:
        """Hit rate of one LRU cache of this many tokens."""
        return self.hit_tokens(capacity_tokens) / self.prefix_tokens if self.prefix_tokens else 0.0

    def ceiling(self) -> float:
        """Hit rate without a capacity limit."""
        return self.rate((self._needed_blocks + 1) * self.block_tokens)

    def capacity_for(self, rate: float) -> int | None:
        """Smallest capacity in tokens (whole blocks) that reaches a hit rate; None if none does."""
        if rate > self.ceiling():
            return None
        low, high = 0, self._needed_blocks
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.rate(middle * self.block_tokens) >= rate else (middle + 1, high)
        return low * self.block_tokens


def run_lengths(warehouse: Warehouse, question: Question) -> RunLengths:
    """Distances and lengths of the reuse runs of the question's requests.

    Raises NeedsArrivals if times are relative: sessions that share nothing still evict each other's blocks from a
    finite cache, so stack distances depend on when sessions start.
    """
    prepared = warehouse.prepare(question)
    warehouse.need_times(prepared, "the hit rate at a capacity")
    runs = warehouse.query("reuse_runs", question)
    total = int(warehouse.grouped(question, "all")["prefix_tokens"].sum())
    distance, blocks = runs["distance_blocks"].to_numpy(), runs["blocks"].to_numpy()
    return RunLengths(distance.astype(np.int64), blocks.astype(np.int64), total, prepared.block_size)


@njit(cache=True)
def _shared_depth(parent: Ints, start: Ints, end: Ints, order: Ints, lowest: Ints, highest: Ints, leaf: Ints) -> Ints:
    """Tokens of each leaf's path that a prompt of another session also has; `order` visits children before parents."""
    for node in order:
        above = parent[node]
        if above >= 0 and highest[node] >= 0:
            lowest[above] = min(lowest[above], lowest[node])
            highest[above] = max(highest[above], highest[node])
    out = np.zeros(len(leaf), np.int64)
    for i in range(len(leaf)):
        node = leaf[i]
        while node >= 0 and lowest[node] == highest[node]:
            node = parent[node]
        out[i] = end[node] if node >= 0 else 0
    return out


def shared_prefix_tokens(warehouse: Warehouse) -> float | None:
    """Median over sessions of the tokens of a session's first prompt that another session's prompts start with too.

    None without sessions or prompts.
    """
    loaded = warehouse.loaded()
    known = np.flatnonzero((loaded.leaf >= 0) & (loaded.session >= 0))
    if not len(known):
        return None
    tree, nodes = loaded.tree, len(loaded.tree.parent)
    lowest, highest = np.full(nodes, loaded.sessions, np.int64), np.full(nodes, -1, np.int64)
    np.minimum.at(lowest, loaded.leaf[known], loaded.session[known])
    np.maximum.at(highest, loaded.leaf[known], loaded.session[known])
    turns = loaded.requests["turn"].fill_null(0).to_numpy()[known]
    first: dict[int, tuple[int, int]] = {}
    for session, turn, leaf in zip(
        loaded.session[known].tolist(), turns.tolist(), loaded.leaf[known].tolist(), strict=True
    ):
        if session not in first or turn < first[session][0]:
            first[session] = (turn, leaf)
    leaves = np.array([leaf for _, leaf in first.values()], np.int64)
    # A child starts where its parent ends, so later starts are deeper; ties with an empty parent go by the end.
    order = np.lexsort((-tree.end, -tree.start))
    depth = _shared_depth(tree.parent, tree.start, tree.end, order, lowest, highest, leaves)
    return float(np.median(depth))


def _idle_sessions(warehouse: Warehouse, question: Question) -> tuple[float | None, float | None]:
    """(reuse horizon in seconds, sessions alive within it), see queries/reuse_horizon.sql; None if untimed."""
    prepared = warehouse.prepare(question)
    if prepared.unanchored or not prepared.timed:
        return None, None
    found = warehouse.query("reuse_horizon", question)
    return (found["horizon_s"][0], found["sessions"][0]) if found.height else (None, None)


def workload_of(warehouse: Warehouse, question: Question) -> Workload:
    """Live contexts, replies, sharing, reuse and pauses of the question's requests.

    Live context: prompt tokens over requests. Raises BadQuestion for a block size that does not fit the dataset.
    """
    from analysis.store.question import NeedsArrivals

    sizes = warehouse.query("live_context", question).row(0, named=True)
    runs, note = None, None
    try:
        runs = run_lengths(warehouse, question)
    except NeedsArrivals as error:
        note = str(error)
    horizon, alive = _idle_sessions(warehouse, question)
    paused = warehouse.sql("SELECT avg(gap_s) AS think_s FROM selected WHERE gap_s IS NOT NULL", question)
    return Workload(
        contexts={q: sizes[q] for q in ("p50", "p90", "p99", "max")},
        output_tokens=sizes["output_tokens_mean"],
        shared_prefix_tokens=shared_prefix_tokens(warehouse),
        runs=runs if runs is not None and runs.prefix_tokens else None,
        note=note,
        reuse_horizon_s=horizon,
        sessions_within_horizon=alive,
        think_s=paused["think_s"][0] if paused.height else None,
        requests=sizes["requests"],
    )


def beside(budget: Budget, workload: Workload) -> dict[str, object]:
    """The workload's sessions in this replica: the `dataset` object of `tracetower kv-budget`."""
    runs = workload.runs
    section = dataset_section(
        budget,
        workload.contexts,
        in_flight_output=workload.output_tokens or 0.0,
        shared_prefix_tokens=workload.shared_prefix_tokens or 0.0,
        curve=runs.rate if runs is not None else None,
        capacity_for_rate=runs.capacity_for if runs is not None else None,
        ceiling=runs.ceiling() if runs is not None else None,
        reuse_horizon_sessions=workload.sessions_within_horizon,
    )
    section |= {
        "reuse_horizon_s": workload.reuse_horizon_s,
        "sessions_within_reuse_horizon": workload.sessions_within_horizon,
        "hit_rate_note": workload.note,
    }
    return section


def replica_workload(
    budget: Budget, dataset: str | Path | Warehouse, block_size: int | None = None, arrivals: str = "recorded"
) -> dict[str, object]:
    """`beside` of a dataset's requests. Where the order across sessions is not known the hit rates are None.

    Raises:
        ValueError: no dataset there, a block size that does not fit it.
    """
    warehouse = dataset if isinstance(dataset, Warehouse) else open_dataset(dataset)
    return beside(budget, workload_of(warehouse, Question(block_size=block_size, arrivals=arrivals)))
