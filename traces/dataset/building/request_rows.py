"""Requests that were taken, input by input: first as they are, then as columns, a batch at a time."""

from __future__ import annotations

from collections import Counter
from itertools import starmap
from typing import Any, NamedTuple

import polars as pl

from traces.dataset.building.columns import FROM_REQUEST, TYPES, columns
from traces.records import Evidence, Request

Row = tuple[int, int | None, int, Request]
"""(row, session, source, request)"""


class Claim(NamedTuple):
    """A file that the reader of another one read beside it: its path from there, and its content as in `Input`."""

    path: str
    digest: str
    size: int
    start: str


class Input(NamedTuple):
    """One input of the dataset. `name` is private; `label` stands for it everywhere else.

    digest, size, start: of its content, the keyed digest, the bytes, and the keyed digest of its first bytes
    (traces.intake.known_files). claims: the files that its reader read beside it. successor: the label of the input
    that holds everything this one held, so that this one's requests no longer count. alone: its reader looks for files
    beside it, and none were given. evidence: what it showed of its usage figures.
    """

    label: str
    name: str
    digest: str
    format: str
    size: int = 0
    start: str = ""
    claims: tuple[Claim, ...] = ()
    successor: str | None = None
    alone: bool = False
    evidence: tuple[Evidence, ...] = ()

    @classmethod
    def restored(cls, values: list[Any]) -> Input:
        """The input that was written as a list of JSON values."""
        made = cls(*values)
        shown = tuple(
            one._replace(proofs=tuple((p, n) for p, n in one.proofs)) for one in starmap(Evidence, made.evidence)
        )
        return made._replace(claims=tuple(starmap(Claim, made.claims)), evidence=shown)


class Counts(Counter[str]):
    """What became of the records: used, rejected, duplicate, ignored, failed_attempt."""


class Taken(NamedTuple):
    """Requests of one input that are no columns yet. `counted`: its counts were returned with these as used."""

    input: Input
    clock: str
    counts: Counts
    rows: list[Row]
    counted: bool


class RequestRows:
    """Requests of all inputs.

    Inputs of few requests wait for each other, since a batch costs about the same whatever it holds. Those with a value
    that no column holds are rejects: (label of the input, ordinal, reason).
    """

    def __init__(self) -> None:
        self.frames: list[pl.DataFrame] = []
        self.origins: dict[str, int] = {}  # where clocks start whose zero is unknown
        self.rejects: list[tuple[str, int, str]] = []
        self.late: list[tuple[str, int, str]] = []  # found unusable after the counts of their input were returned
        self.waiting = 0
        self._taken: list[Taken] = []

    def add(self, taken: Taken) -> None:
        """Take the requests of an input, or some of them; they count as used."""
        self._taken.append(taken)
        self.waiting += len(taken.rows)
        taken.counts["used"] += len(taken.rows)

    def flush(self, bad: dict[int, str]) -> None:
        """Make columns of what waits, without the rows `bad`, which are rejects for the reason given."""
        taken = self._taken
        if bad:
            for one in taken:
                for row, _, _, request in one.rows:
                    if row in bad:
                        self._reject(one, request, bad[row])
            taken = [one._replace(rows=[row for row in one.rows if row[0] not in bad]) for one in taken]
        self._keep([one for one in taken if one.rows])
        self._taken, self.waiting = [], 0

    def frame(self) -> pl.DataFrame:
        """The columns of every request so far."""
        if not self.frames:
            names = ["request_id", "session_id", "source_id", "input_label", "prompt_completeness", "record_ordinal"]
            types = {name: TYPES[name] for name in [*names, *FROM_REQUEST]}
            return pl.DataFrame(schema=types | {"arrival_us": pl.Int64, "wall": pl.Boolean})
        whole = pl.concat(self.frames, how="diagonal", rechunk=True)  # so that what is made of it shares its memory
        self.frames = [whole]
        return whole

    def _reject(self, taken: Taken, request: Request, reason: str) -> None:
        taken.counts["used"] -= 1
        taken.counts["rejected"] += 1
        (self.late if taken.counted else self.rejects).append((taken.input.label, request.ordinal, reason))

    def _keep(self, taken: list[Taken]) -> None:
        if not taken:
            return
        try:
            self.frames.append(columns([(t.input.label, t.clock, t.rows) for t in taken], self.origins))
        except (OverflowError, TypeError, ValueError, pl.exceptions.PolarsError):
            if len(taken) > 1:
                half = len(taken) // 2
                self._keep(taken[:half])
                self._keep(taken[half:])
                return
            (one,) = taken
            if len(one.rows) == 1:
                self._reject(one, one.rows[0][3], "a number that is absurdly large")
                return
            half = len(one.rows) // 2
            self._keep([one._replace(rows=one.rows[:half])])
            self._keep([one._replace(rows=one.rows[half:])])
