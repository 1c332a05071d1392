"""The tower of a session as rectangles: a stack per turn, from the start of its prompt up."""

from __future__ import annotations

import polars as pl

STACK = ("hit", "in_flight", "routing", "capacity", "ttl", "block_rounding", "rewritten", "first_seen")
"""The causes in the order in which their tokens lie in a prompt: what is held deepest in a cache comes first."""
LOST = ("in_flight", "routing", "capacity", "ttl", "rewritten")
"""Causes that a cache, a router or an unchanged history would avoid."""
MOST_TURNS = 900
COLUMNS = 400
MOST_RECTANGLES = 2000


def shown_turns(turns: pl.DataFrame, first: int | None = None, last: int | None = None) -> pl.DataFrame:
    """The turns of a window to draw, each with the turns `x0` to `x1` (not included) that it stands for, their longest
    pause `longest_gap_s` and the sub-agents `started` in them.

    Up to `MOST_TURNS` turns and `MOST_RECTANGLES` rectangles all are drawn. Above, the window is cut into at most
    `COLUMNS` columns of equally many turns, and each column shows its turn that lost most tokens (`LOST`), of equals
    the one with the longest prompt: no break of a session is hidden by its neighbours.

    Args:
        turns: `analysis.sessions.session_turns.session_turns`.
        first, last: turns of the window, both included; None: from the first, to the last.
    """
    inside = turns.filter(
        pl.col("turn") >= (-1 if first is None else first), pl.col("turn") <= (2**62 if last is None else last)
    )
    step = 1 if inside.height <= MOST_TURNS else -(-inside.height // COLUMNS)
    lost, place = pl.sum_horizontal(*LOST), pl.int_range(pl.len())
    while True:
        columns = (
            inside.with_columns(column=place // step, lost_here=lost)
            .with_columns(
                x0=pl.col("turn").min().over("column"),
                x1=pl.col("turn").max().over("column") + 1,
                longest_gap_s=pl.col("gap_s").max().over("column"),
                started=pl.col("sub_agents").sum().over("column"),
            )
            .sort("column", "lost_here", "prefix_tokens", "turn", descending=[False, True, True, False])
            .unique("column", keep="first", maintain_order=True)
            .drop("column", "lost_here")
        )
        parts = sum(int((columns[cause] > 0).sum()) for cause in STACK)
        if parts <= MOST_RECTANGLES or columns.height <= 1:
            return columns
        step *= 2


def tower(shown: pl.DataFrame) -> pl.DataFrame:
    """The rectangles of `shown_turns`: turn, x0, x1 (turns), y0, y1 (tokens of the prompt), cause.

    None is empty, and the heights of a turn sum to its prompt tokens.
    """
    above = pl.lit(0, pl.Int64)
    parts = []
    for cause in STACK:
        parts.append(shown.select("turn", "x0", "x1", y0=above, y1=above + pl.col(cause), cause=pl.lit(cause)))
        above = above + pl.col(cause)
    return pl.concat(parts).filter(pl.col("y1") > pl.col("y0")).sort("x0", "y0")
