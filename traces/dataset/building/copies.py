"""Which of several records of one call counts: one owner each, whatever the order of the inputs.

Three rules make records one call, the surest first.

- *Id.* The reader names the call (`Request.dedupe_key`): equal names are one call.
- *Content and position.* An input whose records, from the first to its last, follow one another in another input is an
  earlier state of it, a part of it, or the same in another container; the longer one counts (`successions`).
  So are the records of one session that begin the session of the same name in another input.
- *Fingerprint.* Transcripts of several files that hold a call at the same wall time, with the same counts, after the
  same text and with the same answer, hold copies of it: a fork or resume re-issued its ids. So do other records that
  have no id, in sessions of the same name or in none. Two such records of one file are two calls, so the n-th of one
  file is paired with the n-th of the other.

The most complete record owns the call, so a message that one ingest met cut off is replaced by its complete form.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.building.request_rows import Input
from traces.dataset.building.successions import repeated_sessions

_SAME_CALL = ["arrival_us", "content", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"]
_TRANSCRIPTS = ("no_head", "structure")
"""Prompts that an agent's own record implies. Logs of an API know their calls by the provider's ids."""


class Copies:
    """Rows that name their call: row, digest of the call's name, rank (the smallest owns the call)."""

    def __init__(self) -> None:
        self.rows = array("q")
        self.digests = array("Q")
        self.ranks: list[tuple[Any, ...]] = []

    def add(self, row: int, digest: int, rank: tuple[Any, ...]) -> None:
        """Take a row. Ranks are mostly those of the row before, and are kept once."""
        self.rows.append(row)
        self.digests.append(digest)
        self.ranks.append(self.ranks[-1] if self.ranks and self.ranks[-1] == rank else rank)

    def __len__(self) -> int:
        return len(self.rows)

    def repeated(self) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """(row, digest, rank) of the calls that several rows name, in the order they came."""
        digests = self._digests()
        _, inverse, counts = np.unique(digests, return_inverse=True, return_counts=True)
        for at in np.flatnonzero(counts[inverse] > 1).tolist():
            yield self.rows[at], self.digests[at], self.ranks[at]

    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Rows and digests."""
        return np.array(self.rows, np.int64), self._digests()

    def _digests(self) -> NDArray[np.uint64]:
        return np.array(self.digests, np.uint64)


class Owners(NamedTuple):
    """Which rows count, which sessions copied their history, and how many copies only a fingerprint showed."""

    owner: NDArray[np.bool_]
    forks: dict[int, int]
    by_fingerprint: int


def owners(copies: Copies, rows: pl.DataFrame, inputs: list[Input], sessions: list[dict[str, Any]]) -> Owners:
    """Choose the one row that counts of each call.

    Args:
        copies: the rows that name their call.
        rows: every request (traces.dataset.building.builder.Builder.all_rows).
        inputs: the inputs that `input_label` names.
        sessions: by session id, `own` (digest of its name) and `started_at_us`, as far as known.

    Returns:
        A flag per row, and for each session that logged calls again which belong to another: that session.
    """
    owner = np.ones(rows.height, dtype=bool)
    names = {i.label: (i.name, i.digest) for i in inputs}
    lost = _by_id(copies, rows, names, owner)
    lost += _by_place_in_session(rows, inputs, sessions, owner)
    lost += _by_fingerprint(rows, names, sessions, owner, copies.columns()[0])
    session_ids = rows["session_id"]
    forks: dict[int, int] = {}
    for copy, original, _ in lost:
        here, there = session_ids[copy], session_ids[original]
        if here is not None and there is not None and here != there:
            forks.setdefault(here, there)
    return Owners(owner, forks, sum(seen for _, _, seen in lost))


def _by_id(
    copies: Copies, rows: pl.DataFrame, names: dict[str, tuple[str, str]], owner: NDArray[np.bool_]
) -> list[tuple[int, int, bool]]:
    """Clear `owner` of copies by id: the smallest (completeness, rank, input name, ordinal) keeps the call."""
    ids = rows["request_id"].to_numpy()
    repeated = list(copies.repeated())
    places = np.flatnonzero(np.isin(ids, [row for row, _, _ in repeated])).tolist()
    place = {int(ids[i]): i for i in places}
    facts = dict(zip(places, _facts(rows, places), strict=True))
    best: dict[int, tuple[Any, int]] = {}
    lost: list[tuple[int, int]] = []
    for row, digest, rank in repeated:
        i = place.get(row)
        if i is None:
            continue
        incomplete, label, ordinal = facts[i]
        bid = (incomplete, _comparable(rank), names[label], ordinal)
        held = best.get(digest)
        if held is not None:
            lost.append((held[1] if bid < held[0] else i, digest))
        if held is None or bid < held[0]:
            best[digest] = (bid, i)
    for i, _ in lost:
        owner[i] = False
    return [(i, best[digest][1], False) for i, digest in lost]


def _facts(rows: pl.DataFrame, places: list[int]) -> list[tuple[tuple[int, int], str, int]]:
    """(how incomplete, label, ordinal) of some rows."""
    some = rows.select("output_complete", "output_tokens", "input_label", "record_ordinal")[places]
    return [
        ((1 if done is None else 0 if done else 2, -(output or 0)), label, ordinal)
        for done, output, label, ordinal in some.iter_rows()
    ]


def _comparable(rank: Any) -> tuple[Any, ...]:
    """Ranks may hold None and numbers or text: None comes last, types never meet."""
    return tuple((2, "") if r is None else (1, r) if isinstance(r, str) else (0, r) for r in rank)


def _by_place_in_session(
    rows: pl.DataFrame, inputs: list[Input], sessions: list[dict[str, Any]], owner: NDArray[np.bool_]
) -> list[tuple[int, int, bool]]:
    """Clear `owner` of records that are the beginning of the same session in another input."""
    places = np.flatnonzero(owner)
    repeated = repeated_sessions(rows.filter(pl.Series(owner)), inputs, sessions)
    lost = [(int(places[copy]), int(places[original]), False) for copy, original in repeated]
    for copy, _, _ in lost:
        owner[copy] = False
    return lost


def _by_fingerprint(
    rows: pl.DataFrame,
    names: dict[str, tuple[str, str]],
    known: list[dict[str, Any]],
    owner: NDArray[np.bool_],
    with_id: NDArray[np.int64],
) -> list[tuple[int, int, bool]]:
    """Clear `owner` of copies by time, counts and text: the session that started first keeps the call."""
    started_us = [s.get("started_at_us") for s in known]
    transcript = pl.col("prompt_completeness").is_in(_TRANSCRIPTS) & (pl.col("content") != 0)
    told_apart = (pl.col("content") != 0) | pl.col("session_id").is_not_null()
    without_id = told_apart & ~pl.col("request_id").is_in(with_id)
    eligible = rows.with_row_index("place").filter(
        pl.Series(owner) & (transcript | without_id) & pl.col("wall") & pl.col("arrival_us").is_not_null()
        & pl.col("output_tokens").is_not_null()
    )  # fmt: skip
    if eligible.height < 2 or not eligible.select("arrival_us", "content").is_duplicated().any():
        return []
    own = pl.Series([s.get("own") for s in known], dtype=pl.UInt64)
    session = pl.when(~transcript).then(own.gather(eligible["session_id"]))
    eligible = eligible.with_columns(of=session).with_columns(
        nth=pl.int_range(pl.len()).over("input_label", "of", *_SAME_CALL)
    )
    same = ["nth", "of", *_SAME_CALL]
    groups = eligible.group_by(same, maintain_order=True).agg("place").filter(pl.col("place").list.len() > 1)
    lost: list[tuple[int, int, bool]] = []
    for (places,) in groups.select("place").iter_rows():
        sessions = rows["session_id"][places].to_list()
        starts = [None if s is None or s >= len(started_us) else started_us[s] for s in sessions]
        bids = [
            ((start is None, start or 0), names[label], ordinal, place)
            for start, place, (_, label, ordinal) in zip(starts, places, _facts(rows, places), strict=True)
        ]
        first = min(bids)[-1]
        for place in places:
            if place != first:
                owner[place] = False
                lost.append((place, first, True))
    return lost
