"""Synthetic sessions, batch by batch: drawn from strata, placed in time, grown into the prefix tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.synth.grids import pack
from traces.synth.kernel import Made, grow, normal_quantile
from traces.synth.sharing import GROUPS, RING, Growing
from traces.synth.tables import LABEL, SyntheticTables, null_below_zero

NEAR = 0.05
"""How far sessions may be shuffled in time, as a share of all sessions."""

NEAR_THE_END = 0.002
"""The same if the end of the trace cuts sessions: a session that starts later would continue after it."""

PINNED = 32
"""This many of the last session starts keep their distances."""

MOST_ROWS = 20_000_000
"""The most requests of a batch of sessions; a profile that needs more is damaged."""

DEEPEST = 4
"""Levels of sub-agents below a top-level session."""

_TRIGGERS = ("unknown", "tool", "user")


class _Batch(NamedTuple):
    """Sessions of one level; spawning request, its node and the parent session are -1 where there are none."""

    stratum: NDArray[np.int64]
    level: int
    start_s: NDArray[np.float64]
    spawn: NDArray[np.int64]
    spawn_leaf: NDArray[np.int64]
    parent: NDArray[np.int64]
    first_draw: NDArray[np.float64]  # which of its stratum's first prompts a session starts with, 0 to 1


class SessionMaker:
    """Grows batches of sessions, and keeps what later batches need."""

    def __init__(self, generator: dict[str, Any], wanted: int, seed: int, scratch: Path) -> None:
        self.generator = generator
        self.wanted = wanted
        self.strata = generator["strata"]
        self.grids = pack(generator)
        self.random = np.random.default_rng(seed)
        self.tables = SyntheticTables(scratch)
        zeros = np.zeros
        self.tree = Growing(
            zeros(1024, np.int64), zeros(1024, np.int64), zeros(1024, np.int64), np.array([1], np.int64),
            zeros((2, RING), np.int64), zeros((2, RING), np.int64), zeros((2, RING), np.int64), zeros((2, RING)),
            zeros((2, RING)), zeros((2, RING), np.int64), np.full((2, RING), -1), zeros(GROUPS, np.int64),
            zeros(1, np.int64), zeros(2, np.int64), np.full((2, RING), -1), np.full((2, RING), -1),
        )  # fmt: skip
        self.tree.parent[0] = -1
        self.rows = self.sessions = self.mains = 0
        self.timed = False
        self.clock = 0.0
        self.cut = bool(self.grids.wait_count.any())
        self.near = NEAR_THE_END if self.cut else NEAR
        # traces change over time, so strata and first prompts keep their places in it
        order = np.array(generator["order"], np.int64)
        top = [stratum["level"] == 0 for stratum in self.strata]
        if not all(0 <= place < len(top) and top[place] for place in order.tolist()):
            raise ValueError("order names a stratum that is no top-level one")
        self.plan = order[(self._near(wanted) * order.size).astype(np.int64)]
        self.first_draw = np.zeros(wanted)
        for s in np.unique(self.plan).tolist():
            here = np.flatnonzero(self.plan == s)
            self.first_draw[here] = self._near(here.size)

    def batch(self, count: int) -> None:
        """Make `count` top-level sessions and their sub-agents."""
        none = np.full(count, -1, np.int64)
        here = slice(self.mains, self.mains + count)
        level = _Batch(self.plan[here], 0, self._starts(count), none, none, none, self.first_draw[here])
        self.mains += count
        for _ in range(DEEPEST):
            level = self._grow(level)
            if not level.stratum.size:
                return

    def _agents(self, count: int) -> NDArray[np.int64]:
        """Strata of `count` sub-agents."""
        places = [i for i, s in enumerate(self.strata) if s["level"] == 1]
        edges = np.cumsum([self.strata[i]["weight"] for i in places])
        draws = self._even(count) * edges[-1]
        return np.array(places, np.int64)[np.minimum(np.searchsorted(edges, draws, side="right"), len(places) - 1)]

    def _even(self, count: int) -> NDArray[np.float64]:
        """Uniform draws spread evenly over [0, 1), in random order, which have less noise than independent draws."""
        return (self.random.permutation(count) + self.random.random(count)) / max(1, count)

    def _near(self, count: int) -> NDArray[np.float64]:
        """Draws spread evenly over [0, 1), ascending except that near ones are shuffled."""
        moved = np.arange(count) + count * self.random.uniform(-self.near, self.near, count)
        place = np.empty(count)
        place[np.argsort(moved, kind="stable")] = np.arange(count)
        return (place + self.random.random(count)) / max(1, count)

    def _even_by(self, stratum: NDArray[np.int64]) -> NDArray[np.float64]:
        """Draws like those of `_near`, spread evenly inside every stratum."""
        out = np.zeros(stratum.size)
        for s in np.unique(stratum).tolist():
            here = np.flatnonzero(stratum == s)
            out[here] = self._even(here.size)
        return out

    def _starts(self, count: int) -> NDArray[np.float64]:
        gaps = self.generator["start_gap_s"]
        if self.generator["relative"] or gaps is None:
            return np.zeros(count)
        levels, whole = self.generator["levels"], self.generator["start_s"]
        steps = np.interp(self._even(count), levels, gaps)
        if self.cut:
            return self._pinned_starts(steps)
        passed = self.clock + np.cumsum(steps)
        self.clock = float(passed[-1])
        scale = self.wanted / max(1, self.generator["main_sessions"])
        place = np.minimum(passed / max(1e-12, scale * whole[-1]), 1.0) if whole[-1] > 0 else np.zeros(count)
        return scale * np.interp(place, levels, whole)

    def _pinned_starts(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Start times with these distances; every `PINNED`th one is set to its time in the profiled trace."""
        first = self.mains + np.arange(steps.size)
        at = np.cumsum(steps)
        place = np.empty(steps.size)
        for low in range(0, steps.size, PINNED):
            some = slice(low, low + PINNED)
            reached = at[some] - at[low] + steps[low] / 2
            whole = reached[-1] + steps[some][-1] / 2
            place[some] = (first[low] + reached.size * reached / max(whole, 1e-300)) / self.wanted
        scale = self.wanted / max(1, self.generator["main_sessions"])
        return scale * np.interp(place, self.generator["levels"], self.generator["start_s"])

    def _grow(self, batch: _Batch) -> _Batch:
        """Grow the sessions of `batch`, write them, and return the sub-agents that they start."""
        count = batch.stratum.size
        turns = self._turns(batch)
        first = np.concatenate([[0], np.cumsum(turns)])
        rows = int(first[-1])
        if turns.min(initial=1) < 1 or rows > MOST_ROWS:
            raise ValueError(f"{count:,} sessions would have {rows:,} turns, the shortest {turns.min(initial=1)}")
        self._reserve(4 * rows + 4)
        made = Made(
            np.zeros(rows), np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, np.int64),
            np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows, np.int8), np.zeros(rows, np.int64),
        )  # fmt: skip
        scores = np.stack([normal_quantile(self._even_by(batch.stratum)) for _ in range(4)], axis=1)
        self._go_with_turns(scores[:, 0], batch.stratum, turns)
        grow(
            self.grids, self.tree, batch.stratum, np.full(count, min(batch.level, 1)), batch.start_s, batch.spawn_leaf,
            first, batch.first_draw, scores, int(self.random.integers(1 << 31)), made,
        )  # fmt: skip
        self.timed |= not bool(np.isnan(made.arrival_s).all())
        session = self.sessions + np.arange(count)
        self._write_requests(batch, made, turns, session)
        self._write_sessions(batch, made, first, session)
        children = self._children(batch, made, first, turns, session)
        self.rows += rows
        self.sessions += count
        return children

    def _drawn(self, stratum: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        """One value called `name` of each session's stratum."""
        out = np.zeros(stratum.size, np.int64)
        for s in np.unique(stratum).tolist():
            here, values = np.flatnonzero(stratum == s), np.array(self.strata[s][name], np.int64)
            out[here] = values[(self._even(here.size) * values.size).astype(np.int64)]
        return out

    def _go_with_turns(self, score: NDArray[np.float64], stratum: NDArray[np.int64], turns: NDArray[np.int64]) -> None:
        """Correlate (in place) the scores of growth with the numbers of turns as in the profile."""
        for s in np.unique(stratum).tolist():
            together = self.strata[s].get("new_tokens_by_turns", 0.0)
            here = np.flatnonzero(stratum == s)
            if together and here.size > 1:
                place = np.empty(here.size)
                place[np.lexsort((self.random.random(here.size), turns[here]))] = np.arange(here.size) + 0.5
                by = normal_quantile(place / here.size)
                score[here] = together * by + (1 - together**2) ** 0.5 * score[here]

    def _turns(self, batch: _Batch) -> NDArray[np.int64]:
        """Number of turns per session; if its stratum lists gaps one by one, that of the chosen example."""
        turns = self._drawn(batch.stratum, "turns")
        listed = self.grids.wait_count[batch.stratum]
        at = self.grids.wait_from[batch.stratum] + (batch.first_draw * listed).astype(np.int64)
        exact = np.flatnonzero((listed > 0) & (batch.level == 0))
        turns[exact] = 1 + np.diff(self.grids.wait_at)[at[exact]]
        listed = self.grids.listed_count[batch.stratum]
        at = self.grids.listed_from[batch.stratum] + (batch.first_draw * listed).astype(np.int64)
        whole = np.flatnonzero(listed > 0)
        turns[whole] = np.diff(self.grids.listed_at)[at[whole]]
        return turns

    def _children(
        self, batch: _Batch, made: Made, first: NDArray[np.int64], turns: NDArray[np.int64], session: NDArray[np.int64]
    ) -> _Batch:
        agents = self._drawn(batch.stratum, "subagents")
        if not any(s["level"] == 1 for s in self.strata):
            agents = np.zeros_like(agents)
        agents[self.grids.listed_count[batch.stratum] > 0] = 0
        drawn = np.repeat(np.arange(batch.stratum.size), agents)
        request = np.concatenate(
            [
                first[drawn] + (self.random.random(drawn.size) * turns[drawn]).astype(np.int64),
                np.repeat(np.arange(made.agents.size), np.maximum(made.agents, 0)),
            ]
        )
        of = np.searchsorted(first, request, side="right") - 1
        chosen = self._agents(of.size) if of.size else np.zeros(0, np.int64)
        lasted = np.nan_to_num(made.duration_s[request])
        start = made.arrival_s[request] + lasted + self._delays(chosen)
        return _Batch(
            chosen, batch.level + 1, start, self.rows + request, made.leaf[request], session[of], self._even_by(chosen)
        )

    def _delays(self, stratum: NDArray[np.int64]) -> NDArray[np.float64]:
        out = np.zeros(stratum.size)
        for s in np.unique(stratum).tolist():
            here, grid = stratum == s, self.strata[s]["spawn_delay_s"]
            if grid is not None:
                out[here] = np.interp(self.random.random(int(here.sum())), self.generator["levels"], grid)
        return out

    def _reserve(self, nodes: int) -> None:
        need = int(self.tree.n[0]) + nodes
        if need > self.tree.parent.size:
            size = max(need, self.tree.parent.size * 3 // 2)
            grown: dict[str, Any] = {}
            for name in ("parent", "start", "end"):
                grown[name] = np.zeros(size, np.int64)
                grown[name][: self.tree.parent.size] = getattr(self.tree, name)
            self.tree = self.tree._replace(**grown)

    def _write_requests(self, batch: _Batch, made: Made, turns: NDArray[np.int64], session: NDArray[np.int64]) -> None:
        rows = made.leaf.size
        of = np.repeat(np.arange(turns.size), turns)
        known = made.leaf >= 0
        tools = np.array([s["calls_tools"] for s in self.strata])[batch.stratum[of]]
        models = np.array([s["model"] for s in self.strata], object)[batch.stratum[of]]
        ids = self.rows + np.arange(rows)
        frame = pl.DataFrame(
            {
                "request_id": ids,
                "session_id": session[of],
                "turn": np.arange(rows) - np.repeat(np.cumsum(turns) - turns, turns),
                "arrival_s": pl.Series(np.round(made.arrival_s, 6), nan_to_null=True),
                "duration_s": pl.Series(np.round(made.duration_s, 6), nan_to_null=True),
                "model": pl.Series(models.tolist(), dtype=pl.String),
                "input_tokens": null_below_zero(made.input_tokens),
                "output_tokens": null_below_zero(made.output_tokens),
                "reasoning_tokens": null_below_zero(made.reasoning_tokens),
                "prefix_id": null_below_zero(made.leaf),
                "prefix_tokens": pl.Series(made.input_tokens).set(pl.Series(~known), None),
                "prompt_completeness": pl.Series(np.where(known, "hashes", "lengths").tolist(), dtype=pl.String),
                "trigger": pl.Series(list(_TRIGGERS)).gather(made.trigger.astype(np.uint32)),
                "tool_classes": pl.Series(
                    [["tool"] if tool else [] for tool in (self.random.random(rows) < tools).tolist()],
                    dtype=pl.List(pl.String),
                ),
                "record_ordinal": ids + 1,
            }
        ).with_columns(
            source_id=pl.lit(0), input_label=pl.lit(LABEL), status=pl.lit("ok"), work=pl.lit("unknown"),
            compaction=pl.lit(False), model=pl.when(pl.col("model") != "unknown").then("model"),
        )  # fmt: skip
        self.tables.add("requests", frame)

    def _write_sessions(self, batch: _Batch, made: Made, first: NDArray[np.int64], session: NDArray[np.int64]) -> None:
        picked = [self.strata[s] for s in batch.stratum.tolist()]
        frame = pl.DataFrame(
            {
                "session_id": session,
                "parent_session_id": null_below_zero(batch.parent),
                "spawn_request_id": null_below_zero(batch.spawn),
                "agent": pl.Series([None if s["agent"] == "unknown" else s["agent"] for s in picked], dtype=pl.String),
                "head_tokens": pl.Series([s["head_tokens"] for s in picked], dtype=pl.Int64),
            }
        ).with_columns(
            session_source=pl.lit("native"), source_id=pl.lit(0), input_label=pl.lit(LABEL),
            role=pl.lit("subagent" if batch.level else "main"),
        )  # fmt: skip
        self.tables.add("sessions", frame)

    def write(self, target: Path) -> dict[str, int]:
        """Turn the tables into the dataset at `target`."""
        counts = {"requests": self.rows, "sessions": self.sessions, "prefixes": int(self.tree.n[0])}
        basis = ("relative" if self.generator["relative"] else "trace") if self.timed else "none"
        self.tables.write(target, self.tree, counts, self.grids.native, basis)
        return counts
