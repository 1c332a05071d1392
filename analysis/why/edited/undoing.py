"""Which changes of history a what-if undoes, and how the prompt then goes on from its session's previous one."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.attribution import Rows
from analysis.why.causes import REWRITING
from analysis.why.divergences import BRANCHING, CHANCE_TOKENS, parted
from analysis.why.edited.undone import Undone
from analysis.why.misses import Misses

COMPACTION = ("compaction",)
REWRITTEN = REWRITING

KEEPING = ("edit", "system_change", "tail")
"""Rewrites that send the rest of the history again; one that is unrelated does where it is told to go on alike."""


def undoing(warehouse: Warehouse, question: Question, found: Misses, kinds: tuple[str, ...]) -> Undone:
    """How to undo every change of these transitions.

    Let q be the session's previous request with prompt m, L what both share, and x (in this prompt), y (in q's) the
    places behind the first change from where both go on alike: known where the table of divergences tells that they do
    for more than 64 tokens, else x = y = L. A compaction is undone by q's whole prompt and what this one has behind x.
    A rewritten history by q's prompt up to y + min(n − x, m − y), and what this one has behind x + min(n − x, m − y):
    q's text stands where other text stood, and the rest follows. A compaction behind whose first change most goes on
    alike is a rewritten history, and so is a fork or rewind that is a divergence (`analysis.why.divergences.parted`): a
    change that is taken back. Rewrites that lose nothing stay. Where compactions are undone, a rewrite sends what they
    brought back again with the rest of the history.

    Args:
        warehouse, question: the dataset, and the arrivals that are asked for; its window and filters do not matter.
        found: its misses, for the tokens that rewrites lose.
        kinds: `COMPACTION` or `REWRITTEN`.
    """
    loaded, told = warehouse.loaded(), warehouse.kinds()
    count = len(loaded.leaf)
    transition = told["transition"]
    previous = told["previous_row"].to_numpy().astype(np.int64)
    shared = told["shared_previous_tokens"].to_numpy().astype(np.int64)
    known = loaded.leaf >= 0
    n = np.where(known, loaded.tree.end[np.maximum(loaded.leaf, 0)], 0)
    at = np.maximum(previous, 0)
    m = np.where(previous >= 0, n[at], 0)
    x, y, edited = _resumed(warehouse, shared, previous, n, m)
    shortened = transition.is_in(list(COMPACTION)).fill_null(False).to_numpy()
    rewritten = transition.is_in(list(REWRITING)).fill_null(False).to_numpy() | (shortened & edited)
    taken_back = parted(warehouse, question._replace(window="all", where=())).filter(
        pl.col("transition").is_in(list(BRANCHING)), pl.col("resumed_tokens") > CHANCE_TOKENS
    )
    rewritten[taken_back["row"].to_numpy()] = True
    if kinds == COMPACTION:
        mine = shortened & ~edited & (previous >= 0) & known
        upto, behind = m, x
    else:
        mine = rewritten & (found.rows["lost_tokens"].to_numpy() > 0) & (previous >= 0) & known
        step = np.minimum(n - x, m - y)
        upto, behind = y + step, x + step
    again = np.full(count, -1, np.int64)
    if kinds == COMPACTION:
        goes_on = transition.is_in(list(KEEPING)).fill_null(False).to_numpy() | (x > shared) | (y > shared)
        again = np.where(rewritten & goes_on & known, previous, -1)
    nothing = np.zeros(count, np.int64)
    return Undone(
        previous=np.where(mine, previous, -1),
        shared=np.where(mine, np.minimum(shared, x), nothing),
        own_place=np.where(mine, x, nothing),
        place=np.where(mine, np.minimum(y, upto), nothing),
        upto=np.where(mine, upto, nothing),
        behind=np.where(mine, behind, nothing),
        carried=again,
    )


def _resumed(
    warehouse: Warehouse, shared: Rows, previous: Rows, n: Rows, m: Rows
) -> tuple[Rows, Rows, NDArray[np.bool_]]:
    """x, y (int64[r], `shared` where not told) and whether a shortened prompt mostly goes on alike (bool[r])."""
    rows = pl.DataFrame({"request_id": warehouse.loaded().requests["request_id"], "row": np.arange(len(n))})
    table = (
        warehouse.dataset.read("divergences")
        .join(rows, on="request_id", how="inner", maintain_order="left")
        .join(
            rows.rename({"request_id": "previous_request_id", "row": "previous_row"}),
            on="previous_request_id", how="inner", maintain_order="left",
        )
        .drop_nulls(["line_token", "line_tokens", "previous_line_tokens", "resumed_tokens"])
    )  # fmt: skip
    row = table["row"].to_numpy()
    line, own, theirs, resumed = (
        table[name].to_numpy().astype(np.int64)
        for name in ("line_token", "line_tokens", "previous_line_tokens", "resumed_tokens")
    )
    fits = (table["previous_row"].to_numpy() == previous[row]) & (resumed > CHANCE_TOKENS)
    # a dataset from elsewhere may tell lengths that its prompts do not have
    for value in (line, own, theirs, resumed):
        fits &= (value >= 0) & (value < 1 << 60)
    fits &= (line + own + resumed <= n[row]) & (line + theirs + resumed <= m[row]) & (line <= shared[row])
    x, y, edited = shared.copy(), shared.copy(), np.zeros(len(n), np.bool_)
    at = row[fits]
    x[at], y[at] = (line + own)[fits], (line + theirs)[fits]
    edited[at] = (theirs < 2 * own + CHANCE_TOKENS)[fits]
    return x, y, edited
