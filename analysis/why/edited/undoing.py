"""Which changes of history a what-if undoes, and how the prompt then continues the session's previous prompt."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.attribution import Rows
from analysis.why.causes import REWRITING
from analysis.why.consecutive import CHANCE_TOKENS, REPLACED, consecutive
from analysis.why.divergences import BRANCHING, parted
from analysis.why.edited.undone import Undone
from analysis.why.misses import Misses

COMPACTION = ("compaction",)
REWRITTEN = REWRITING

KEEPING = ("edit", "system_change", "tail")
"""Rewrites that send the rest of the history again. An unrelated prompt does so if text after the change is equal."""


def undoing(warehouse: Warehouse, question: Question, found: Misses, kinds: tuple[str, ...]) -> Undone:
    """How to undo every change of these transitions.

    Let q be the session's previous request, m the length of its prompt, and L the tokens that both share. x (in this
    prompt) and y (in q's) are the places after the first change from which both are equal. They are known if the table
    of divergences says that more than 64 tokens are equal there; otherwise x = y = L.

    To undo a compaction, the prompt becomes q's whole prompt followed by this prompt from x. To undo a rewritten
    history, it becomes q's prompt up to y + s with s = min(n − x, m − y), followed by this prompt from x + s: q's text
    replaces the changed text. If most text after the first change of a compaction is unchanged, it is a rewritten
    history. So is a fork or rewind that is a divergence (`analysis.why.divergences.parted`), because it reverts a
    change. Rewrites that lose nothing are not undone. If compactions are undone, a later rewrite sends the restored
    text again with the rest of the history.

    Args:
        warehouse, question: the dataset, and the arrival model; the question's window and filters do not matter.
        found: the dataset's misses, for the tokens that rewrites lose.
        kinds: `COMPACTION` or `REWRITTEN`.
    """
    loaded, transitions = warehouse.loaded(), warehouse.kinds()
    count = len(loaded.leaf)
    transition = transitions["transition"]
    previous = transitions["previous_row"].to_numpy().astype(np.int64)
    shared = transitions["shared_previous_tokens"].to_numpy().astype(np.int64)
    known = loaded.leaf >= 0
    n = np.where(known, loaded.tree.end[np.maximum(loaded.leaf, 0)], 0)
    at = np.maximum(previous, 0)
    m = np.where(previous >= 0, n[at], 0)
    x, y, edited = _resumed(warehouse, shared, previous)
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
        continues = transition.is_in(list(KEEPING)).fill_null(False).to_numpy() | (x > shared) | (y > shared)
        again = np.where(rewritten & continues & known, previous, -1)
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


def _resumed(warehouse: Warehouse, shared: Rows, previous: Rows) -> tuple[Rows, Rows, NDArray[np.bool_]]:
    """x, y (int64[r], `shared` where unknown) and whether a shortened prompt is mostly unchanged (bool[r])."""
    table = consecutive(warehouse).with_columns(replaced=REPLACED).filter(pl.col("resumed_tokens") > CHANCE_TOKENS)
    row = table["row"].to_numpy()
    line, own, theirs = (
        table[name].to_numpy().astype(np.int64) for name in ("line_token", "line_tokens", "previous_line_tokens")
    )
    fits = (table["previous_row"].to_numpy() == previous[row]) & (line <= shared[row])
    x, y, edited = shared.copy(), shared.copy(), np.zeros(len(shared), np.bool_)
    at = row[fits]
    x[at], y[at] = (line + own)[fits], (line + theirs)[fits]
    edited[at] = table["replaced"].to_numpy()[fits]
    return x, y, edited
