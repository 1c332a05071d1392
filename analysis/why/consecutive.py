"""Pairs of consecutive prompts that diverge: the table `divergences`, joined to request rows and checked."""

from __future__ import annotations

import numpy as np
import polars as pl

from analysis.store.warehouse import Warehouse

CHANCE_TOKENS = 64
"""Two prompts that continue differently may still be equal for this many tokens by chance."""

REPLACED = pl.col("previous_line_tokens") < 2 * pl.col("line_tokens") + CHANCE_TOKENS
"""If the text there is about as long as before, the change dropped no messages."""


def consecutive(warehouse: Warehouse) -> pl.DataFrame:
    """The rows of `divergences` whose lengths fit their prompts. In a dataset from elsewhere they may not fit, and
    what-ifs walk the tree by these lengths.

    Returns:
        Columns of the table, row and previous_row (request rows), own_tokens and previous_tokens (their prompts).
    """
    loaded = warehouse.loaded()
    prefix = np.where(loaded.leaf >= 0, loaded.tree.end[np.maximum(loaded.leaf, 0)], 0)
    rows = pl.DataFrame(
        {"request_id": loaded.requests["request_id"], "row": np.arange(len(loaded.leaf)), "own_tokens": prefix}
    )
    before = rows.rename({"request_id": "previous_request_id", "row": "previous_row", "own_tokens": "previous_tokens"})
    table = (
        warehouse.dataset.read("divergences")
        .join(rows, on="request_id", how="inner", maintain_order="left")
        .join(before, on="previous_request_id", how="inner", maintain_order="left")
    )
    lengths = ("start_token", "line_token", "line_tokens", "previous_line_tokens", "resumed_tokens")
    reached = pl.col("line_token") + pl.col("resumed_tokens")
    return table.drop_nulls([*lengths, "keeps_end"]).filter(
        pl.min_horizontal(*lengths) >= 0,
        pl.col("start_token") <= pl.min_horizontal("own_tokens", "previous_tokens"),
        pl.max_horizontal(*lengths) < 1 << 60,
        reached + pl.col("line_tokens") <= pl.col("own_tokens"),
        reached + pl.col("previous_line_tokens") <= pl.col("previous_tokens"),
    )
