"""Which inputs are earlier states of others, or the same in another container, by the records they hold.

Every record has a digest of its time, counts and content, and every position of an input a digest of all records up to
there. An input whose last such digest stands at the same position of a longer input is a beginning of it, and one whose
records follow one another anywhere in a longer input is a part of it (the end of a log, a rotated piece). Records that
hold neither a time nor a text are evidence only where they are the whole input or many differ: two short tables of
lengths may begin alike by chance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.building.request_rows import Input
from traces.tree.compiled import njit
from traces.tree.nodes import mix

_COUNTS = [
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
]


_FACTOR = 0x9E3779B97F4A7C15
"""Of the polynomial that stands for consecutive records."""
_MANY = 16
"""Different records without times or texts that two inputs hardly share by chance."""


class _Run(NamedTuple):
    """Consecutive rows of one input: its label, name and digest, their count, what another run must be equal in to
    continue it, whether its records are evidence by themselves, and whether they are the whole input."""

    label: str
    name: tuple[str, str]
    first: int
    rows: int
    kin: Any
    evidence: bool
    whole: bool


def successions(
    rows: pl.DataFrame, inputs: list[Input], sessions: list[dict[str, Any]], origins: dict[str, int]
) -> dict[str, str]:
    """Label of each input that another one continues or contains -> label of that one (the longest).

    A continued input and its continuation begin with a session of the same name, or both without one. An input that
    another one contains has a session in common with it, or both have none: equal sessions of two names are two.

    Args:
        rows: every request in reading order, with `content` (traces.tree.insertion.Content.call).
        inputs: the inputs; equal ones belong to the one whose name sorts first.
        sessions: by session id, `own` (digest of its key).
        origins: where the clocks start whose zero is unknown, by input label.
    """
    if rows["input_label"].n_unique() < 2:
        return {}
    runs = _runs(rows, pl.col("input_label").rle_id(), inputs, sessions, whole=True)
    found = _continued(rows, runs)
    found |= _contained(rows, runs, [at for at in range(len(runs)) if at not in found], sessions, origins)
    return {runs[short].label: runs[longer].label for short, longer in found.items()}


def repeated_sessions(rows: pl.DataFrame, inputs: list[Input], sessions: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(place of a row, place of the row that it repeats) where an input holds the beginning of a session of another.

    So a file a session and one file of all of them, or the same sessions in another order, are the same.
    """
    own = pl.DataFrame(
        {"session_id": range(len(sessions)), "own": [s.get("own") for s in sessions]},
        schema={"session_id": pl.Int64, "own": pl.UInt64},
    )
    run = ["input_label", "session_id"]
    kin = rows.select(run).unique().join(own, on="session_id").filter(pl.col("own").is_duplicated())
    if kin.is_empty():
        return []
    some = rows.with_row_index("place").join(kin, on=run, how="semi", maintain_order="left")
    some = some.sort(run, maintain_order=True)
    runs = _runs(some, pl.struct(run).rle_id(), inputs, sessions)
    places = some["place"].to_numpy()
    repeated: list[tuple[int, int]] = []
    for short, longer in _continued(some, runs).items():
        a, b = runs[short], runs[longer]
        copies, originals = places[a.first : a.first + a.rows], places[b.first : b.first + a.rows]
        repeated += zip(copies.tolist(), originals.tolist(), strict=True)
    return repeated


def _continued(rows: pl.DataFrame, runs: list[_Run]) -> dict[int, int]:
    """Place of each run that is the beginning of a run of another input -> place of the longest such run."""
    run_of = np.repeat(np.arange(len(runs)), [run.rows for run in runs])
    first, counts = np.array([run.first for run in runs]), np.array([run.rows for run in runs])
    chain = np.empty(rows.height, np.uint64)
    _chain(_record_digests(rows, first, counts), run_of, chain)
    ends = chain[first + counts - 1]
    if np.unique(ends).size == ends.size and not np.isin(chain[_not_last(first, counts)], ends).any():
        return {}
    by_end: dict[int, list[int]] = {}
    for at, end in enumerate(ends.tolist()):
        by_end.setdefault(end, []).append(at)
    longest: dict[int, int] = {}
    for row in np.flatnonzero(np.isin(chain, ends)).tolist():
        place = int(run_of[row])
        longer = runs[place]
        for at in by_end[int(chain[row])]:
            short = runs[at]
            if short.rows != row - longer.first + 1 or short.label == longer.label:
                continue
            if not short.evidence and not (short.whole and short.rows == longer.rows):
                continue
            if short.kin != longer.kin or (short.rows == longer.rows and longer.name > short.name):
                continue
            if at not in longest or longer.rows > runs[longest[at]].rows:
                longest[at] = place
    return longest


def _contained(
    rows: pl.DataFrame, runs: list[_Run], shorts: list[int], sessions: list[dict[str, Any]], origins: dict[str, int]
) -> dict[int, int]:
    """Place of each run of `shorts` whose records follow one another inside a run of another input -> that run."""
    first, counts = np.array([run.first for run in runs]), np.array([run.rows for run in runs])
    starts = np.array([-origins.get(run.label, 0) * (not rows["wall"][run.first]) for run in runs], np.int64)
    digests = _record_digests(rows, first, counts, starts)
    _mix_in(digests, rows["model"].hash().to_numpy().view(np.int64))
    by_first: dict[int, list[int]] = {}
    for at in shorts:
        if runs[at].evidence or origins.get(runs[at].label):  # a time after the clock's zero
            by_first.setdefault(int(digests[first[at]]), []).append(at)
    inside = np.ones(rows.height, bool)
    inside[first] = False
    places = np.flatnonzero(inside & np.isin(digests, np.fromiter(by_first, np.uint64, len(by_first))))
    if not places.size:
        return {}
    sums = np.zeros(rows.height + 1, np.uint64)
    _sum(digests, sums)
    names = pl.Series([s.get("own") for s in sessions], dtype=pl.UInt64)
    own = names.gather(rows["session_id"]).fill_null(0).to_numpy()
    run_of = np.repeat(np.arange(len(runs)), counts)
    found: dict[int, int] = {}
    for row in places.tolist():
        place = int(run_of[row])
        longer = runs[place]
        for at in by_first[int(digests[row])]:
            short, stop = runs[at], row + runs[at].rows
            if short.label == longer.label or stop > longer.first + longer.rows:
                continue
            if at in found and runs[found[at]].rows >= longer.rows:
                continue
            end = short.first + short.rows
            alike = _between(sums, row, stop) == _between(sums, short.first, end)
            if alike and (own[row:stop] == own[short.first : end]).any():
                found[at] = place
    return found


def _between(sums: NDArray[np.uint64], first: int, stop: int) -> int:
    """The digest of the records `first` to `stop`, wherever they stand."""
    return (int(sums[stop]) - int(sums[first]) * pow(_FACTOR, stop - first, 1 << 64)) % (1 << 64)


def _not_last(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    inside = np.ones(int(counts.sum()), bool)
    inside[first + counts - 1] = False
    return inside


def _runs(
    rows: pl.DataFrame, by: pl.Expr, inputs: list[Input], sessions: list[dict[str, Any]], whole: bool = False
) -> list[_Run]:
    """The rows of equal consecutive `by`, a run each; their kin is the name of their first session."""
    run = rows.select(by).to_series().to_numpy()
    first = np.flatnonzero(np.append(True, run[1:] != run[:-1]))
    counts = np.diff(np.append(first, rows.height))
    timed = (pl.col("wall") | (pl.col("arrival_us") != 0)) & pl.col("arrival_us").is_not_null()
    evidence = rows.select(timed.fill_null(False) | (pl.col("content") != 0)).to_series().to_numpy()
    some = np.logical_or.reduceat(evidence, first)
    for at in np.flatnonzero(~some & (counts >= _MANY)).tolist():
        some[at] = rows[int(first[at]) : int(first[at] + counts[at])].select(_COUNTS).unique().height >= _MANY
    labels, keys = rows["input_label"].gather(first).to_list(), rows["session_id"].gather(first).to_list()
    kin = [None if key is None else sessions[key].get("own") for key in keys]
    names = {i.label: (i.name, i.digest) for i in inputs}
    whose = [names[label] for label in labels]
    alone = [whole] * len(labels)
    found = zip(labels, whose, first.tolist(), counts.tolist(), kin, some.tolist(), alone, strict=True)
    return [_Run(*run) for run in found]


def _record_digests(
    rows: pl.DataFrame, first: NDArray[np.int64], counts: NDArray[np.int64], zeros: NDArray[np.int64] | None = None
) -> NDArray[np.uint64]:
    """A digest per record of its time, counts and text.

    Times count from each run's zero: `zeros`, or its first record where the clock's zero is unknown.
    """
    digests = rows["content"].to_numpy().astype(np.uint64)
    arrival = rows["arrival_us"].fill_null(-1).to_numpy().astype(np.int64)
    if zeros is None:
        zeros = np.where(rows["wall"].gather(first).fill_null(False).to_numpy(), 0, arrival[first])
    _mix_in(digests, arrival - np.repeat(zeros, counts))
    for name in _COUNTS:
        _mix_in(digests, rows[name].fill_null(-1).to_numpy().astype(np.int64))
    return digests


@njit(cache=True)
def _mix_in(digests: Any, values: Any) -> None:
    for i in range(digests.size):
        digests[i] = mix(digests[i], values[i])


@njit(cache=True)
def _chain(digests: Any, label: Any, chain: Any) -> None:
    """At each row, the digest of its input's records up to there."""
    for i in range(digests.size):
        before = chain[i - 1] if i > 0 and label[i - 1] == label[i] else np.uint64(0)
        chain[i] = mix(before, digests[i])


@njit(cache=True)
def _sum(digests: Any, sums: Any) -> None:
    """After each row, a polynomial of all digests so far, from which that of any run of rows follows."""
    for i in range(digests.size):
        sums[i + 1] = sums[i] * np.uint64(_FACTOR) + digests[i]
