"""Which inputs are earlier states of others, or the same in another container, by the records they hold.

Every record has a digest of its time, counts and content, and every position of an input a digest of all records up to
there. An input whose last such digest stands at the same position of a longer input is a beginning of it. Records that
hold neither a time nor a text are no evidence: two short tables of lengths may begin alike by chance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.building.request_rows import Input
from traces.tree.compiled import njit
from traces.tree.nodes import mix

_HASHED = [
    "arrival_us",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
]


class _Run(NamedTuple):
    """The rows of one input: its label, first row, row count, first session and whether its records are evidence."""

    label: str
    first: int
    rows: int
    session: int | None
    evidence: bool


def successions(rows: pl.DataFrame, inputs: list[Input], sessions: list[dict[str, Any]]) -> dict[str, str]:
    """Label of each input that another one continues -> label of that one (the longest).

    Args:
        rows: every request in reading order, with `content` (traces.tree.insertion.Content.call).
        inputs: the inputs; equal ones belong to the one whose name sorts first.
        sessions: by session id, `own` (digest of its key).
    """
    if rows.is_empty():
        return {}
    label = rows["input_label"].rle_id().to_numpy()
    first = np.flatnonzero(np.append(True, label[1:] != label[:-1]))
    chain = np.empty(rows.height, np.uint64)
    _chain(_record_digests(rows), label, chain)
    counts = np.diff(np.append(first, rows.height))
    ends = chain[first + counts - 1]
    if np.unique(ends).size == ends.size and not np.isin(chain[_not_last(first, counts)], ends).any():
        return {}
    runs = _runs(rows, first, counts)
    names = {i.label: (i.name, i.digest) for i in inputs}
    by_end: dict[int, list[int]] = {}
    for at, end in enumerate(ends.tolist()):
        by_end.setdefault(end, []).append(at)
    found: dict[str, str] = {}
    longest: dict[str, int] = {}
    for row in np.flatnonzero(np.isin(chain, ends)).tolist():
        longer = runs[label[row]]
        for at in by_end[int(chain[row])]:
            short = runs[at]
            if short.rows != row - longer.first + 1 or short.label == longer.label or not short.evidence:
                continue
            if short.rows == longer.rows and names[longer.label] > names[short.label]:
                continue
            if longer.rows > longest.get(short.label, 0) and _same_session(short, longer, sessions):
                found[short.label], longest[short.label] = longer.label, longer.rows
    return found


def _not_last(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    inside = np.ones(int(counts.sum()), bool)
    inside[first + counts - 1] = False
    return inside


def _runs(rows: pl.DataFrame, first: NDArray[np.int64], counts: NDArray[np.int64]) -> list[_Run]:
    timed = (pl.col("wall") | (pl.col("arrival_us") != 0)) & pl.col("arrival_us").is_not_null()
    evidence = rows.select(timed.fill_null(False) | (pl.col("content") != 0)).to_series().to_numpy()
    some = np.logical_or.reduceat(evidence, first).tolist()
    labels, sessions = rows["input_label"].gather(first).to_list(), rows["session_id"].gather(first).to_list()
    return [_Run(*values) for values in zip(labels, first.tolist(), counts.tolist(), sessions, some, strict=True)]


def _same_session(short: _Run, longer: _Run, sessions: list[dict[str, Any]]) -> bool:
    """Whether both begin with a session of the same name, or both without one. Equal sessions of two names are two."""
    if short.session is None or longer.session is None:
        return short.session is longer.session
    return sessions[short.session].get("own") == sessions[longer.session].get("own")


def _record_digests(rows: pl.DataFrame) -> NDArray[np.uint64]:
    """A digest per record of its time, counts and content."""
    digests = rows["content"].to_numpy().astype(np.uint64)
    for name in _HASHED:
        values = rows[name].fill_null(-1).to_numpy().astype(np.int64)
        _mix_in(digests, values)
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
