"""What a workload costs at list prices: as sent, without a cache, with the hits a cache could give, and by cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from analysis.money.paid import WRITES, paid, rates_at, with_hits
from analysis.money.prices import Price, Prices
from analysis.store.axes import check_axis
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse
from analysis.why.provider.gap import CAUSES

DAY_S, WEEK_S = 86_400.0, 604_800.0
CAPS = (32_000, 64_000, 128_000, 256_000, 512_000)

MEANINGS = {
    "priced_requests": "requests whose model has a price and whose input and output are counted; all other figures are "
    "over these, or over fewer of them where the figure says so",
    "no_cache_usd": "every prompt token at the price of input, and the output",
    "as_sent_usd": "as the provider counted: cache reads, cache writes, the rest of the input, and the output, over "
    "`as_sent_requests`, whose reads are known. Unknown writes count as input",
    "ceiling_usd": "with the ceiling's hits read from a cache and every other prompt token written to it, over "
    "`ceiling_requests`, whose prompt is known",
    "ttl_5m_usd": "as ceiling_usd, but a prefix can be read for 5 minutes after its last use only; writes at the "
    "5-minute price",
    "ttl_1h_usd": "as ttl_5m_usd with an hour, and writes at the 1-hour price",
    "achievable_usd": "compared_usd if every token that an earlier prompt shares had been read; over "
    "`compared_requests`, whose reads and prompt are known. What was read beyond that (a head in no file) stays read",
    "lost": "compared minus achievable by cause, as `misses --show reported` names them: each token at what the "
    "request paid on average for a token that was not read, less the price of a read",
    "rewritten": "tokens sent again because the history before them was rewritten, by what changed, at the same "
    "difference where reads are known, else at that of a write and a read. With an unbounded cache",
    "context_caps": "ceiling_usd if every prompt were cut off after so many tokens: what compaction sooner saves at "
    "most (its own request, and what is asked again after it, are not counted)",
}
"""What each figure of `cost` means."""


def cost(
    warehouse: Warehouse,
    question: Question,
    prices: Prices,
    axes: Sequence[str] = ("all",),
    writes: str = "5m",
    as_model: str | None = None,
) -> dict[str, Any]:
    """What the selected requests cost, by the groups of each axis, with the keys of the command line.

    Args:
        prices: the table of prices.
        writes: "5m" or "1h": how long what is written to the cache is kept; records do not say it.
        as_model: price every request as this model, whatever answered it.

    Returns:
        rows (`MEANINGS` says what each figure is), prices (those that were used, with source and date), unpriced
        (requests by the model that has no price), uncounted_requests, notes.

    Raises:
        BadQuestion: a block size, arrival model, axis or window that does not fit the dataset; an unknown `as_model`.
    """
    if as_model is not None and prices.of(as_model) is None:
        raise BadQuestion(f"no price is known for the model {as_model!r}", "as_model")
    found = paid(warehouse, question, prices, writes, as_model)
    weeks = found.span_s / WEEK_S if found.span_s is not None and found.span_s >= DAY_S else None
    out: list[dict[str, Any]] = []
    for axis in axes:
        name = axis if axis == "all" else check_axis(axis)
        groups = warehouse.select(question, 'SELECT row, "group", group_order FROM grouped($axis)', {"axis": name})
        joined = found.rows.join(groups, on="row", how="inner", maintain_order="left")
        order = joined.group_by("group").agg(pl.col("group_order").min()).sort("group_order", "group", nulls_last=True)
        parts = joined.partition_by("group", as_dict=True, maintain_order=True)
        out += [
            {"axis": axis, "group": name, **_figures(parts[name,], WRITES[writes], weeks)} for name in order["group"]
        ]
    return {
        "rows": out,
        "prices": [{"model": model, **_stated(price)} for model, price in found.used],
        "unpriced": found.unpriced,
        "uncounted_requests": found.uncounted,
        "notes": list(found.notes),
    }


def _stated(price: Price) -> dict[str, Any]:
    """A price as it is shown: its rates, since when, and who says so."""
    given = {"since": price.since and price.since.isoformat(), "source": price.source, "checked": price.checked}
    return {**price.rates._asdict(), "above_tokens": price.above_tokens, **given}


def _figures(rows: pl.DataFrame, write: str, weeks: float | None) -> dict[str, Any]:
    """The figures of one group; null where nothing in it has them."""
    sent = rows.filter(pl.col("as_sent_usd").is_not_null())
    figures: dict[str, Any] = {
        "priced_requests": rows.height,
        "no_cache_usd": _sum(rows, "no_cache_usd"),
        "as_sent_requests": sent.height,
        "as_sent_usd": _sum(sent, "as_sent_usd"),
        "input_usd": _sum(sent, pl.col("fresh_tokens") * pl.col("input")),
        "cache_write_usd": _sum(sent, pl.col("unread_usd") - pl.col("fresh_tokens") * pl.col("input")),
        "cache_read_usd": _sum(sent, pl.col("cache_read_tokens") * pl.col("read")),
        "output_usd": _sum(sent, "output_usd"),
    }
    figures["as_sent_usd_per_week"] = _per(figures["as_sent_usd"], weeks)
    figures |= _could(rows, write)
    return figures | _lost(rows, weeks)


def _could(rows: pl.DataFrame, write: str) -> dict[str, Any]:
    """What it could have cost, and what the requests with such a figure cost without a cache."""
    names = ("ceiling_usd", "ttl_5m_usd", "ttl_1h_usd")
    known = rows.filter(pl.col("ceiling_usd").is_not_null())
    caps = [
        {"context_cap_tokens": cap, "usd": _sum(known, _capped(cap, write))}
        for cap in CAPS
        if known.height and cap < int(known["input_tokens"].max())  # type: ignore[arg-type]
    ]
    return {
        "ceiling_requests": known.height,
        "ceiling_no_cache_usd": _sum(known, "no_cache_usd"),
        **{name: _sum(known, name) for name in names},
        "context_caps": caps,
    }


def _capped(cap: int, write: str) -> pl.Expr:
    """Cost with the ceiling's hits if every prompt were cut off after `cap` tokens."""
    asked = pl.min_horizontal("input_tokens", pl.lit(cap))
    return with_hits(asked, pl.min_horizontal("hit_tokens", pl.lit(cap)), rates_at(asked), write)


def _lost(rows: pl.DataFrame, weeks: float | None) -> dict[str, Any]:
    """What the provider's cache lost, by cause, and what rewritten histories cost, by what changed in them."""
    both = rows.filter(pl.col("lost_usd").is_not_null())
    by_cause = both.filter(pl.col("gap") > 0).group_by("cause").agg(pl.col("gap").sum(), pl.col("lost_usd").sum())
    causes = {cause: (tokens, usd) for cause, tokens, usd in by_cause.rows()}
    rewritten = (
        rows.filter(pl.col("rewritten") > 0)
        .group_by(kind=pl.col("what").fill_null("unknown"))
        .agg(
            pl.len().alias("requests"),
            pl.col("rewritten").sum().alias("tokens"),
            pl.col("rewritten_usd").sum().alias("usd"),
        )
        .sort("usd", "kind", descending=[True, False])
    )
    achievable = _sum(both, pl.col("as_sent_usd") - pl.col("lost_usd").clip(lower_bound=0))
    return {
        "compared_requests": both.height,
        "compared_usd": _sum(both, "as_sent_usd"),
        "achievable_usd": achievable,
        "lost": [
            {"cause": cause, "tokens": causes[cause][0], "usd": causes[cause][1],
             "usd_per_week": _per(causes[cause][1], weeks)}
            for cause in CAUSES if cause in causes
        ],
        "rewritten": [row | {"usd_per_week": _per(row["usd"], weeks)} for row in rewritten.to_dicts()],
    }  # fmt: skip


def _sum(rows: pl.DataFrame, what: str | pl.Expr) -> float | None:
    """The sum, or None if no row has the figure."""
    values = rows.select(pl.col(what) if isinstance(what, str) else what).to_series().drop_nulls()
    return float(values.sum()) if len(values) else None


def _per(usd: float | None, weeks: float | None) -> float | None:
    return None if usd is None or weeks is None else usd / weeks
