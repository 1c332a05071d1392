"""95 % intervals of the rates on page Why, all by `analysis.headline.bootstrap`."""

from __future__ import annotations

import numpy as np
import polars as pl

from analysis.headline.bootstrap import Interval, rates_by_group, ratio_intervals, sampling_units
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.detailed_axis import groups
from analysis.why.misses import Misses
from analysis.why.provider.gap import provider_losses

MOST_GROUPS = 100
"""The number of groups of the provider's losses that get intervals, those with most requests first."""

PROVIDER_RATES = ("achievable", "reported", "gap")


def group_rates(
    warehouse: Warehouse, question: Question, found: Misses, axis: str = "all", only: tuple[str, ...] | None = None
) -> pl.DataFrame:
    """The hit rate of each group of an axis (or of those named in `only`) with its interval and under other weights, by
    group: `analysis.headline.bootstrap.rates_by_group`."""
    rows = found.rows.join(groups(warehouse, question, axis), on="row", how="inner", maintain_order="left")
    if only is not None:
        rows = rows.filter(pl.col("group").is_in(only))
    unit = sampling_units(warehouse.loaded())[rows["row"].to_numpy()]
    return rates_by_group(rows.with_columns(unit=pl.Series(unit))).sort("group")


def provider_intervals(warehouse: Warehouse, question: Question, found: Misses, axis: str = "all") -> pl.DataFrame:
    """Intervals of the rates of `analysis.why.provider.gap.provider_gap`, for the `MOST_GROUPS` largest groups.

    Returns:
        group, sessions (top-level), and low and high of achievable, reported and gap (null where there are too few
        sessions).
    """
    losses = provider_losses(warehouse, question, found).join(
        groups(warehouse, question, axis), on="row", how="inner", maintain_order="left"
    )
    units = sampling_units(warehouse.loaded())
    largest = losses["group"].value_counts(sort=True)["group"].head(MOST_GROUPS).to_list()
    rows = []
    for group in largest:
        own = losses.filter(pl.col("group") == group)
        part = own.select("achievable", "read", "gap").to_numpy()
        whole = np.repeat(own["prefix_tokens"].to_numpy()[:, None], len(PROVIDER_RATES), axis=1)
        unit = units[own["row"].to_numpy()]
        row: dict[str, object] = {"group": group, "sessions": len(np.unique(unit))}
        for name, interval in zip(PROVIDER_RATES, ratio_intervals(part, whole, unit), strict=True):
            row |= _ends(interval, f"{name}_")
        rows.append(row)
    ends = [f"{name}_{end}" for name in PROVIDER_RATES for end in ("low", "high")]
    return pl.DataFrame(rows, schema={"group": pl.String, "sessions": pl.Int64} | dict.fromkeys(ends, pl.Float64))


def what_if_intervals(warehouse: Warehouse, question: Question, found: Misses, table: pl.DataFrame) -> pl.DataFrame:
    """`table` (`analysis.why.edited.what_ifs.what_if_table`) with low and high of each hit rate.

    Null if a row's hits are not known per request: changed workloads and cached replies.
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
                runs = prepared.read_runs(columns=["request", "blocks", "gap_s"])
            within = runs.filter(pl.col("gap_s") <= value).group_by(row=pl.col("request").cast(pl.Int64))
            frame = frame.join(
                within.agg((pl.col("blocks").sum() * block).cast(pl.Int64).alias(f"ttl{at}")),
                on="row", how="left", maintain_order="left",
            )  # fmt: skip
            hit = pl.col(f"ttl{at}").fill_null(0)
        else:
            continue
        parts |= {f"hit{at}": hit, f"whole{at}": prefix}
    places = [int(name[3:]) for name in parts if name.startswith("hit")]
    values = frame.select(**parts).to_numpy()
    unit = sampling_units(warehouse.loaded())[frame["row"].to_numpy()]
    intervals = dict(zip(places, ratio_intervals(values[:, 0::2], values[:, 1::2], unit), strict=True))
    ends = [_ends(intervals.get(at)) for at in range(table.height)]
    return table.hstack(pl.DataFrame(ends, schema={"low": pl.Float64, "high": pl.Float64}))


def _ends(interval: Interval | None, prefix: str = "") -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}
