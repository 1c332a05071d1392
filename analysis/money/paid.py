"""Every request with the rates of its model and day: what it paid, and what it would have paid with more hits."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from analysis.money.prices import PER_TOKENS, Price, Prices, Rates
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.divergences import parted
from analysis.why.misses import misses
from analysis.why.provider.gap import provider_losses

WRITES = {"5m": "write", "1h": "write_1h"}
"""How long the provider keeps what is written to its cache, and the rate of writing it then."""


class Paid(NamedTuple):
    """The selected requests that have a price.

    Attributes:
        rows: one row per request whose model has a price and whose input and output are counted: `row`, its tokens and
            rates (US dollars per token, those of its length), and what it costs (…_usd; null unknown).
        used: the models and their prices; a model has several if its price changed meanwhile.
        unpriced: selected requests by the model that has no price, the most first.
        uncounted: selected requests with a price, but without a count of input or output.
        span_s: time from the first to the last of the selected arrivals; None where times are not known.
        notes: what the figures assume or leave out.
    """

    rows: pl.DataFrame
    used: tuple[tuple[str, Price], ...]
    unpriced: dict[str, int]
    uncounted: int
    span_s: float | None
    notes: tuple[str, ...]


def paid(warehouse: Warehouse, question: Question, prices: Prices, writes: str, as_model: str | None) -> Paid:
    """Price the selected requests; the arguments are those of `analysis.money.cost.cost`."""
    prepared = warehouse.prepare(question)
    selected = _selected(warehouse, question, as_model)
    rates, used, unpriced = _rates(selected, prices)
    priced = selected.join(rates, on=["model", "day"], how="inner", nulls_equal=True, maintain_order="left")
    rows = _costs(priced, WRITES[writes])
    notes = [f"{model}: {price.note}" for model, price in used if price.note]
    timed = prepared.timed and not prepared.unanchored
    unknown = pl.lit(None, pl.Float64)
    if prepared.order_known:
        rows = _compared(warehouse, question, rows, WRITES[writes])
    else:
        notes.append("what could be read depends on when sessions start, which this dataset does not say")
        rows = rows.with_columns(
            ceiling_usd=unknown, gap=unknown, lost_usd=unknown, rewritten=unknown, rewritten_usd=unknown,
            cause=pl.lit(None, pl.String), what=pl.lit(None, pl.String),
        )  # fmt: skip
    rows = _within(warehouse, question, rows) if timed else rows.with_columns(ttl_5m_usd=unknown, ttl_1h_usd=unknown)
    times = selected["arrival_s"].to_numpy()
    span = float(times.max() - times.min()) if timed and times.size else None
    shown = tuple(sorted(used, key=lambda use: (use[0], str(use[1].since or ""))))
    return Paid(rows, shown, unpriced, priced.height - rows.height, span, tuple(notes))


_SELECTED = """
SELECT row, model, started_at::DATE AS day, arrival_s, hit_tokens,
  input_tokens, cache_read_tokens, cache_write_tokens, output_tokens
FROM selected ORDER BY row"""

_WITHIN = """
SELECT request AS row, sum(blocks) FILTER (gap_s <= 300)::BIGINT AS hits_5m,
  sum(blocks) FILTER (gap_s <= 3600)::BIGINT AS hits_1h
FROM runs GROUP BY request"""


def _selected(warehouse: Warehouse, question: Question, as_model: str | None) -> pl.DataFrame:
    rows = warehouse.select(question, _SELECTED).with_columns(pl.col("model").cast(pl.String))
    if as_model is None:
        return rows
    return rows.with_columns(model=pl.lit(as_model), day=pl.lit(None, pl.Date))  # today's price, not that of the day


def _rates(rows: pl.DataFrame, prices: Prices) -> tuple[pl.DataFrame, set[tuple[str, Price]], dict[str, int]]:
    """(the rates of each model and day that has a price, the prices used by model, requests of the other models)."""
    kinds = rows.group_by("model", "day").len()
    found = [(model, day, count, prices.of(model, day)) for model, day, count in kinds.rows()]
    unpriced: dict[str, int] = {}
    for model, _, count, price in found:
        if price is None:
            unpriced[model or "unknown"] = unpriced.get(model or "unknown", 0) + count
    table = [
        (model, day, price.above_tokens, *price.rates, *(price.above or price.rates))
        for model, day, _, price in found
        if price is not None
    ]
    schema: dict[str, Any] = {"model": pl.String, "day": pl.Date, "above_tokens": pl.Int64}
    schema |= {f"{part}_{name}": pl.Float64 for part in ("base", "above") for name in Rates._fields}
    used = {(model or "", price) for model, _, _, price in found if price is not None}
    most = dict(sorted(unpriced.items(), key=lambda item: (-item[1], item[0])))
    return pl.DataFrame(table, schema=schema, orient="row"), used, most


def rates_at(tokens: pl.Expr) -> dict[str, pl.Expr]:
    """The rates of a prompt of that many tokens, in US dollars per token."""
    long = (tokens > pl.col("above_tokens")).fill_null(value=False)
    return {name: pl.when(long).then(f"above_{name}").otherwise(f"base_{name}") / PER_TOKENS for name in Rates._fields}


def _costs(rows: pl.DataFrame, write: str) -> pl.DataFrame:
    """What each request that can be priced paid, in US dollars; its rates are those of its length, per token."""
    written = pl.col("cache_write_tokens").fill_null(0)
    fresh = pl.col("input_tokens") - pl.col("cache_read_tokens") - written
    unread = pl.col("input_tokens") - pl.col("cache_read_tokens")
    return (
        rows.filter(pl.col("input_tokens").is_not_null(), pl.col("output_tokens").is_not_null())
        .with_columns(**rates_at(pl.col("input_tokens")))
        .with_columns(
            output_usd=pl.col("output_tokens") * pl.col("output"),
            fresh_tokens=pl.when(fresh >= 0).then(fresh),  # more cached than sent contradicts itself: not priced
        )
        .with_columns(
            no_cache_usd=pl.col("input_tokens") * pl.col("input") + pl.col("output_usd"),
            unread_usd=pl.col("fresh_tokens") * pl.col("input") + written * pl.col(write),
        )
        .with_columns(
            as_sent_usd=pl.col("unread_usd") + pl.col("cache_read_tokens") * pl.col("read") + pl.col("output_usd"),
            # what the request paid on average for a token that was not read
            unread=pl.when(unread > 0).then(pl.col("unread_usd") / unread).otherwise(write),
        )
    )


def with_hits(asked: pl.Expr, hits: pl.Expr, rates: dict[str, pl.Expr], write: str) -> pl.Expr:
    """Cost of prompts of `asked` tokens, `hits` of them read, the rest written; null if more hit than asked."""
    usd = hits * rates["read"] + (asked - hits) * rates[write] + pl.col("output_tokens") * rates["output"]
    return pl.when(asked >= hits).then(usd)


def _hits_cost(hits: str, write: str) -> pl.Expr:
    asked = pl.col("input_tokens")
    return with_hits(asked, pl.col(hits), rates_at(asked), write)


def _within(warehouse: Warehouse, question: Question, rows: pl.DataFrame) -> pl.DataFrame:
    """Adds what a cache costs that forgets what was not used for 5 minutes, or for an hour."""
    block = warehouse.prepare(question).block_size
    joined = rows.join(warehouse.select(question, _WITHIN), on="row", how="left", maintain_order="left")
    known = pl.col("hit_tokens").is_not_null()
    joined = joined.with_columns(
        pl.when(known).then(pl.col(name).fill_null(0) * block).alias(name) for name in ("hits_5m", "hits_1h")
    )
    return joined.with_columns(
        _hits_cost(f"hits_{name}", write).alias(f"ttl_{name}_usd") for name, write in WRITES.items()
    )


def _compared(warehouse: Warehouse, question: Question, rows: pl.DataFrame, write: str) -> pl.DataFrame:
    """Adds the cost at the ceiling, and what each request lost: tokens that it could have read, and their price."""
    found = misses(warehouse, question)
    losses = provider_losses(warehouse, question, found).select("row", "gap", "cause")
    kinds = parted(warehouse, question).select("row", what="kind").unique("row", keep="first", maintain_order=True)
    joined = (
        rows.join(losses, on="row", how="left", maintain_order="left")
        .join(found.rows.select("row", "rewritten"), on="row", how="left", maintain_order="left")
        .join(kinds, on="row", how="left", maintain_order="left")
    )
    more = pl.coalesce("unread", write) - pl.col("read")  # what a token costs more for not being read
    return joined.with_columns(
        ceiling_usd=_hits_cost("hit_tokens", write),
        lost_usd=pl.when(pl.col("as_sent_usd").is_not_null()).then(pl.col("gap") * more),
        rewritten_usd=pl.col("rewritten") * more,
    )
