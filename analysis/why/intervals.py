"""95 % intervals of many rates from the same draws of sessions."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.headline.bootstrap import DRAWS, rates_by_group
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.detailed_axis import groups
from analysis.why.misses import Misses
from analysis.why.provider.gap import provider_losses

MOST_GROUPS = 100
"""Groups of the provider's losses that get intervals, those of most requests first."""


def drawn_intervals(
    part: NDArray[np.float64], whole: NDArray[np.float64], seed: int = 0, draws: int = DRAWS
) -> NDArray[np.float64]:
    """Percentile intervals of Σ part / Σ whole of each column when whole sessions (rows) are drawn with replacement.

    Args:
        part, whole: float64[sessions, k].
        seed: of the draws, which all columns share.
        draws: how many resamples.

    Returns:
        float64[2, k], low and high; NaN where there are fewer than two sessions or nothing to divide by.
    """
    count, columns = part.shape
    if count < 2 or columns == 0:
        return np.full((2, columns), np.nan)
    rng = np.random.default_rng(seed)
    rates = np.full((draws, columns), np.nan)
    step = max(1, 2_000_000 // count)
    for first in range(0, draws, step):
        some = min(step, draws - first)
        drawn = rng.integers(0, count, (some, count)) + np.arange(some)[:, None] * count
        weight = np.bincount(drawn.ravel(), minlength=some * count).reshape(some, count).astype(np.float64)
        below = weight @ whole
        np.divide(weight @ part, below, out=rates[first : first + some], where=below > 0)
    told = (whole.sum(axis=0) > 0) & ~np.isnan(rates).all(axis=0)
    found = np.full((2, columns), np.nan)
    if told.any():
        found[:, told] = np.nanquantile(rates[:, told], [0.025, 0.975], axis=0)
    return found


def by_session(warehouse: Warehouse, frame: pl.DataFrame, columns: list[str]) -> NDArray[np.float64]:
    """Sums of columns by session, float64[sessions, columns]; a request without session is one of its own."""
    session = warehouse.loaded().session[frame["row"].to_numpy()]
    alone = pl.when(pl.col("session") < 0).then(-1 - pl.col("row")).otherwise("session")
    sums = frame.with_columns(session=pl.Series(session)).group_by(alone.alias("session"), maintain_order=True)
    return sums.agg(pl.col(columns).sum()).select(columns).to_numpy().astype(np.float64)


def group_rates(
    warehouse: Warehouse, question: Question, found: Misses, axis: str = "all", only: tuple[str, ...] | None = None
) -> pl.DataFrame:
    """The hit rate of each group of an axis (or of those named in `only`) with its interval and under other weights, by
    group: `analysis.headline.bootstrap.rates_by_group`."""
    rows = found.rows.join(groups(warehouse, question, axis), on="row", how="inner", maintain_order="left")
    if only is not None:
        rows = rows.filter(pl.col("group").is_in(only))
    session = warehouse.loaded().session[rows["row"].to_numpy()]
    alone = pl.when(pl.col("session") < 0).then(-1 - pl.col("row")).otherwise("session")
    return rates_by_group(rows.with_columns(session=pl.Series(session)).with_columns(session=alone)).sort("group")


def provider_intervals(warehouse: Warehouse, question: Question, found: Misses, axis: str = "all") -> pl.DataFrame:
    """Intervals of the rates of `analysis.why.provider.gap.provider_gap`, for the `MOST_GROUPS` largest groups.

    Returns:
        group, sessions, and low and high of achievable, reported and gap (null where there are too few sessions).
    """
    told = provider_losses(warehouse, question, found)
    losses = told.join(groups(warehouse, question, axis), on="row", how="inner", maintain_order="left")
    largest = losses["group"].value_counts(sort=True)["group"].head(MOST_GROUPS).to_list()
    rows = []
    for group in largest:
        sums = by_session(
            warehouse, losses.filter(pl.col("group") == group), ["prefix_tokens", "achievable", "read", "gap"]
        )
        whole = np.repeat(sums[:, :1], 3, axis=1)
        low, high = drawn_intervals(sums[:, 1:], whole)
        row: dict[str, object] = {"group": group, "sessions": len(sums)}
        for at, name in enumerate(("achievable", "reported", "gap")):
            row |= {f"{name}_low": _told(low[at]), f"{name}_high": _told(high[at])}
        rows.append(row)
    ends = [f"{name}_{end}" for name in ("achievable", "reported", "gap") for end in ("low", "high")]
    return pl.DataFrame(rows, schema={"group": pl.String, "sessions": pl.Int64} | dict.fromkeys(ends, pl.Float64))


def what_if_intervals(warehouse: Warehouse, question: Question, found: Misses, table: pl.DataFrame) -> pl.DataFrame:
    """`table` (`analysis.why.what_ifs.what_if_table`) with low and high of each hit rate.

    Null where a row's hits are not at hand by request: changed workloads and cached replies.
    """
    prepared = warehouse.prepare(question)
    block = prepared.block_size
    chosen = warehouse.grouped(question, "all").select("row")
    frame = found.rows.select("row", "prefix_tokens", "match_tokens").join(
        chosen, on="row", how="semi", maintain_order="left"
    )
    runs = None
    parts: dict[str, pl.Expr] = {}
    for at, (name, value) in enumerate(table.select("what_if", "value").rows()):
        match, prefix = pl.col("match_tokens"), pl.col("prefix_tokens")
        if name in ("as_is", "block_size"):
            hit = match // int(value) * int(value)
        elif name == "context_cap":
            hit, prefix = pl.min_horizontal(match, int(value)) // block * block, pl.min_horizontal(prefix, int(value))
        elif name == "ttl":
            if runs is None:
                runs = pl.read_parquet(prepared.runs, columns=["request", "blocks", "gap_s"])
            kept = runs.filter(pl.col("gap_s") <= value).group_by(row=pl.col("request").cast(pl.Int64))
            frame = frame.join(
                kept.agg((pl.col("blocks").sum() * block).cast(pl.Int64).alias(f"ttl{at}")),
                on="row", how="left", maintain_order="left",
            )  # fmt: skip
            hit = pl.col(f"ttl{at}").fill_null(0)
        else:
            continue
        parts |= {f"hit{at}": hit, f"whole{at}": prefix}
    places = [int(name[3:]) for name in parts if name.startswith("hit")]
    sums = by_session(warehouse, frame.select("row", **parts), list(parts))
    low, high = drawn_intervals(sums[:, 0::2], sums[:, 1::2])
    ends = {at: (_told(low[i]), _told(high[i])) for i, at in enumerate(places)}
    return table.with_columns(
        low=pl.Series([ends.get(at, (None, None))[0] for at in range(table.height)], dtype=pl.Float64),
        high=pl.Series([ends.get(at, (None, None))[1] for at in range(table.height)], dtype=pl.Float64),
    )


def _told(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)
