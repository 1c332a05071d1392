"""Where consecutive prompts of a chain diverge, what that loses, and the hit rate without the changing lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.kernel.reuse import reuse
from analysis.kernel.transitions import TEXT_TOLERANCE_TOKENS
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.consecutive import CHANCE_TOKENS, REPLACED, consecutive
from analysis.why.edited.marks import Change
from analysis.why.edited.tree import changed_tree
from analysis.why.matches import lost_history, matches

BRANCHING = ("first", "fork", "rewind")
"""Transitions that continue another prompt than the session's last one. They lose nothing by differing from the last
one, unless they share most with it and continue like it after the change, or unless the kind of change is known."""

_PLAIN = {"append": "tail", "retry": "tail", "fork": "edit", "rewind": "edit"}

LEAST_RECOMPUTED = 12
"""The number of kinds, those that lose most first, whose what-ifs are always recomputed."""

RECOMPUTED_REQUESTS = 1_000_000
"""Further kinds are recomputed up to this number of requests; the what-ifs of all others are null."""


def parted(warehouse: Warehouse, question: Question) -> pl.DataFrame:
    """Every divergence of the selected requests that loses tokens.

    Returns:
        Columns of the table `divergences`, with an unknown kind replaced by the transition; and row, previous_row,
        session (codes), lost_tokens (`analysis.why.matches.lost_history`).
    """
    prepared = warehouse.prepare(question)
    loaded, kinds = warehouse.loaded(), warehouse.kinds()
    match = matches(warehouse, prepared)
    chosen = warehouse.grouped(question, "all").select("row")
    table = consecutive(warehouse).join(chosen, on="row", how="semi", maintain_order="left")
    row, previous = table["row"].to_numpy(), table["previous_row"].to_numpy()
    alike = np.maximum(match.tokens[row], table["start_token"].to_numpy())
    lost = lost_history(table["own_tokens"].to_numpy(), table["previous_tokens"].to_numpy(), alike, loaded.native[row])
    transition = kinds["transition"].gather(row)
    return (
        table.with_columns(
            session=pl.Series(loaded.session[row]),
            lost_tokens=pl.Series(lost),
            transition=transition,
            follows=pl.Series(kinds["previous_row"].to_numpy()[row] == previous),
            edited=(pl.col("resumed_tokens") > CHANCE_TOKENS) & REPLACED,
            in_place=_in_place(pl.Series(match.tokens[row])),
        )
        .filter("follows", pl.col("lost_tokens") > 0, ~pl.col("transition").is_in(list(BRANCHING)) | pl.col("in_place"))
        .with_columns(
            kind=pl.when(pl.col("kind").is_null() & (pl.col("transition") == "compaction") & pl.col("edited"))
            .then(pl.lit("edit"))
            .otherwise(pl.coalesce("kind", pl.col("transition").replace(_PLAIN)))
        )
        .drop("follows", "in_place", "edited")
    )


def _in_place(match_tokens: pl.Series) -> pl.Expr:
    """Whether a prompt is its session's last prompt with a change, because no other prompt is as similar to it."""
    alike = pl.col("line_token") + pl.col("line_tokens") + pl.col("resumed_tokens")
    changed = (pl.col("resumed_tokens") > 0) | pl.col("kind").is_not_null()
    further = (pl.col("resumed_tokens") > 0) & (alike > match_tokens + CHANCE_TOKENS)
    # another prompt may share the changed line, or a part of it, by chance
    line_end = pl.col("line_token") + pl.col("line_tokens") + TEXT_TOLERANCE_TOKENS
    same_line = (line_end > match_tokens) & pl.col("kind").is_not_null()
    return ((pl.col("start_token") >= match_tokens) & changed) | same_line | further | pl.col("keeps_end")


def divergences(warehouse: Warehouse, question: Question) -> list[dict[str, Any]]:
    """Divergences by kind and role, those that lose most first, with the keys of the command line.

    `same_place_requests`: how many of them begin at the most common place. The three what-ifs are the ceiling of the
    selected requests if the changing lines were removed, equal in all prompts of a session, or at the end.

    Raises:
        BadQuestion: a block size, arrival model or window that does not fit the dataset.
    """
    found = parted(warehouse, question)
    rows = []
    for (kind, role), group in found.group_by("kind", "role", maintain_order=True):
        place = group["start_token"].value_counts(sort=True)
        rows.append(
            {
                "kind": kind,
                "role": role,
                "requests": group.height,
                "sessions": group["session"].n_unique(),
                "lost_tokens": int(group["lost_tokens"].sum()),
                "start_token_p50": _median(group["start_token"]),
                "message_p50": _median(group["message"]),
                "same_place_requests": int(place["count"][0]),
            }
        )
    rows.sort(key=lambda row: (-row["lost_tokens"], row["kind"], row["role"]))
    most = max(LEAST_RECOMPUTED, RECOMPUTED_REQUESTS // max(1, len(warehouse.loaded().leaf)))
    for place_in_list, row in enumerate(rows):
        group = found.filter(pl.col("kind") == row["kind"], pl.col("role") == row["role"])
        effects = what_ifs(warehouse, question, group) if place_in_list < most else None
        names = ("what_if_removed", "what_if_constant", "what_if_moved_to_end")
        row |= dict(zip(names, effects or (None, None, None), strict=True))
    return rows


def what_ifs(warehouse: Warehouse, question: Question, changes: pl.DataFrame) -> tuple[float | None, ...]:
    """Ceilings of the selected requests with the changing lines removed, constant, moved to the end of the prompt."""
    prepared = warehouse.prepare(question)
    loaded, arrived = warehouse.loaded(), warehouse.arrived(question.arrivals)
    selected = np.zeros(len(loaded.leaf), np.bool_)
    selected[warehouse.grouped(question, "all")["row"].to_numpy()] = True
    found = matches(warehouse, prepared)
    change = Change(*(changes[name].to_numpy().astype(np.int64) for name in Change._fields))
    tree = loaded.tree
    given = (
        tree.parent, tree.start, tree.end, loaded.leaf, arrived.order, loaded.session, found.row, found.tokens, change,
    )  # fmt: skip
    removed, constant = changed_tree(*given, False), changed_tree(*given, True)
    rates = []
    for made, leaf in ((removed, removed.leaf), (constant, constant.leaf), (removed, removed.moved)):
        runs = reuse(
            made.parent, made.start, made.end, leaf, arrived.order, arrived.arrival_s, prepared.block_size
        )  # fmt: skip
        prefix = np.where(leaf >= 0, made.end[np.maximum(leaf, 0)], 0)[selected].sum()
        hit = int(runs.hit_blocks[selected].sum()) * prepared.block_size
        rates.append(hit / int(prefix) if prefix else None)
    return tuple(rates)


def _median(values: pl.Series) -> int | None:
    """The lower median, so that it is a place that occurs."""
    known = values.drop_nulls().sort()
    return int(known[(len(known) - 1) // 2]) if len(known) else None
