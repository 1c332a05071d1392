"""Transitions in detail, and the tokens that each loses."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from analysis.kernel.chains import STEPS, chain_steps
from analysis.kernel.transitions import TEXT_TOLERANCE_TOKENS
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.divergences import parted
from analysis.why.matches import matches
from analysis.why.misses import Misses

SIDE_INPUT_TOKENS = 4000
SIDE_OUTPUT_TOKENS = 64
"""A side request (a title, a topic check) has fewer input and output tokens than this, and nothing continues it."""

TAIL_SHARE = 0.02
"""A prompt that lost at most this share of the previous one has lost only its tail."""

DETAILS = (
    "warm_start",
    "cold_start",
    "subagent_start",
    "side_request",
    "model_switch",
    "parallel_chain",
)
"""The names that replace `first` and a change of model; the other transitions keep their names."""


def detailed(warehouse: Warehouse) -> pl.Series:
    """The transition of every request row in detail (null if it is unknown).

    - first becomes subagent_start if the session has a parent or belongs to a sub-agent, else warm_start if its first
      block was cached already, else cold_start
    - model_switch: another model than the session's previous request; models share no KV even for equal text
    - parallel_chain: a fork or rewind of a prompt that nothing had continued, so a second conversation of the same
      session continues
    - side_request: short input and output, and the only request of its session
    - a fork or rewind whose text or ids, after a change, continue like the session's last prompt is that prompt with a
      change, and named so: compaction if messages were dropped or summarised, tail if it lost at most 2 % or the
      tolerance, otherwise edit; system_change if the change is in the system prompt or the tools, by role
    """
    frame = warehouse.dataset.caches.frame("details", (), lambda: _detailed(warehouse).to_frame())
    return frame["transition"]


def _detailed(warehouse: Warehouse) -> pl.Series:
    loaded, kinds = warehouse.loaded(), warehouse.kinds()
    r = loaded.requests
    previous = kinds["previous_row"].to_numpy().astype(np.int64)
    model = r["model"]
    before = model.gather(np.maximum(previous, 0)).set(pl.Series(previous < 0), None)
    turns = np.bincount(loaded.session[loaded.session >= 0], minlength=max(1, loaded.sessions))
    alone = (loaded.session >= 0) & (turns[np.maximum(loaded.session, 0)] == 1)
    prefix = r["prefix_tokens"].fill_null(0).to_numpy()
    step = chain_steps(
        prefix, loaded.session, warehouse.arrived("recorded").order, previous, kinds["deepest_row"].to_numpy(),
        kinds["deepest_shared_tokens"].to_numpy(), np.where(loaded.native == 1, TEXT_TOLERANCE_TOKENS, loaded.native),
    )  # fmt: skip
    frame = r.select("parent_session_id", "role", "input_tokens", "output_tokens").with_columns(
        transition=kinds["transition"],
        switched=(model != before).fill_null(False),
        alone=pl.Series(alone),
        goes_on=pl.Series(step == STEPS.index("continue")),
        shared=pl.Series(_shared(warehouse)),
    )
    frame = frame.with_columns(in_place=pl.Series(_in_place(warehouse), dtype=pl.String))
    short = (pl.col("input_tokens") < SIDE_INPUT_TOKENS) & (pl.col("output_tokens") < SIDE_OUTPUT_TOKENS)
    first = pl.col("transition") == "first"
    return frame.select(
        pl.when(first & ((pl.col("role") == "side") | (short & pl.col("alone"))))
        .then(pl.lit("side_request"))
        .when(first & (pl.col("parent_session_id").is_not_null() | (pl.col("role") == "subagent")))
        .then(pl.lit("subagent_start"))
        .when(first & (pl.col("shared") > 0))
        .then(pl.lit("warm_start"))
        .when(first)
        .then(pl.lit("cold_start"))
        .when(pl.col("in_place").is_not_null() & ~pl.col("switched"))
        .then("in_place")
        .when(pl.col("transition").is_in(["fork", "rewind"]) & pl.col("goes_on"))
        .then(pl.lit("parallel_chain"))
        .when("switched")
        .then(pl.lit("model_switch"))
        .otherwise("transition")
        .alias("transition")
    )["transition"]


def _in_place(warehouse: Warehouse) -> list[str | None]:
    """The new name of each prompt that is its session's last one with a change, as its texts or ids show beyond its
    prefix; null for all others."""
    changes = ["fork", "rewind", "edit", "unrelated"]
    changed = parted(warehouse, Question()).filter(pl.col("transition").is_in(changes))
    small = pl.max_horizontal(pl.lit(TEXT_TOLERANCE_TOKENS), pl.col("previous_tokens") * TAIL_SHARE)
    named = changed.select(
        "row",
        name=pl.when(pl.col("kind").is_in(["compaction", "summary"]))
        .then(pl.lit("compaction"))
        .when(pl.col("role").is_in(["system", "tools"]))
        .then(pl.lit("system_change"))
        .when(~pl.col("transition").is_in(["fork", "rewind"]))
        .then("transition")
        .when(pl.col("lost_tokens") <= small)
        .then(pl.lit("tail"))
        .otherwise(pl.lit("edit")),
    )
    names: list[str | None] = [None] * len(warehouse.loaded().leaf)
    for row, name in named.iter_rows():
        names[row] = name
    return names


def _shared(warehouse: Warehouse) -> Any:
    """Full native blocks (16 tokens of text) shared with any earlier prompt, in recorded order."""
    loaded = warehouse.loaded()
    prepared = warehouse.prepare(Question())
    step = np.where(loaded.native == 1, 16, loaded.native)
    return matches(warehouse, prepared).tokens // step


def transition_losses(warehouse: Warehouse, question: Question, found: Misses) -> pl.DataFrame:
    """Figures by detailed transition, those that lost most first: requests, sessions, prefix tokens, hit tokens,
    lost_tokens (tokens of the previous prompt after the place where this one differs from all earlier ones; none for
    first requests), the requests that lost any, and parted_tokens: how many of the lost tokens are in the list of
    divergences. The rest belong to forks and rewinds, which continue an earlier prompt and change nothing."""
    loaded = warehouse.loaded()
    listed = parted(warehouse, question).select("row", parted_tokens="lost_tokens").unique("row", maintain_order=True)
    rows = (
        found.rows.with_columns(transition=detailed(warehouse), session=pl.Series(loaded.session))
        .join(listed, on="row", how="left", maintain_order="left")
        .with_columns(pl.col("parted_tokens").fill_null(0))
    )
    chosen = rows.join(warehouse.grouped(question, "all").select("row"), on="row", how="semi")
    return (
        chosen.group_by(pl.col("transition").fill_null("unknown"))
        .agg(
            pl.len().alias("requests"),
            pl.col("session").n_unique().alias("sessions"),
            pl.col("prefix_tokens", "hit", "lost_tokens").sum(),
            (pl.col("lost_tokens") > 0).sum().alias("losing_requests"),
            pl.col("parted_tokens").sum(),
        )
        .sort("lost_tokens", "requests", "transition", descending=[True, True, False])
    )
