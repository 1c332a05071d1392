"""What the requests cost, on the page Why: dated list prices, what each loss costs, what other caches would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.why import reported as why_reported
from app.views.why.tables import answer
from app.visit.link import link
from app.visit.link.schema import AS_LOGGED
from app.widgets import figures, formats
from app.widgets.plain_text import markdown
from app.widgets.table import Column, table

if TYPE_CHECKING:
    from app.visit.question import Asked
    from app.widgets.figures import Source

KEPT = {"5m": "5 minutes", "1h": "1 hour"}
CASES = {
    "no_cache_usd": "Without a cache", "as_sent_usd": "As sent", "ttl_5m_usd": "Cache of 5 minutes",
    "ttl_1h_usd": "Cache of 1 hour", "ceiling_usd": "At the ceiling",
}  # fmt: skip
COUNTED = {"as_sent_usd": "as_sent_requests", "no_cache_usd": "priced_requests"}
"""Which count of requests stands behind a case; `ceiling_requests` behind the others."""


def costs(asked: Asked) -> None:
    """The cost of the selected requests, by case, by cause of loss, by model; the prices with their dates."""
    from analysis.money.cost import MEANINGS, cost
    from analysis.money.prices import load_prices

    kept, model = st.columns(2)
    writes = kept.selectbox(
        "What is written to the cache is kept", **link.at("cost-writes"), format_func=KEPT.__getitem__,
        help="Logs do not say how long the provider was asked to keep it; writing for an hour costs more.",
    )  # fmt: skip
    chosen = model.selectbox(
        "Priced as", **link.at("cost-as"),
        format_func=lambda name: "the model that answered" if name == AS_LOGGED else name,
    )  # fmt: skip
    as_model = None if chosen == AS_LOGGED else chosen
    found: dict[str, Any] = answer(
        asked, f"cost {writes} {as_model}",
        lambda: cost(asked.desk.warehouse, asked.question, load_prices(), ("all", "model"), writes, as_model),
    )  # fmt: skip
    flags = [*([] if writes == "5m" else ["--writes", writes]), *([] if as_model is None else ["--as-model", as_model])]
    for name, requests in found["unpriced"].items():
        st.caption(f"No price is known for {markdown(name)}: {formats.count(requests)} requests are in no figure.")
    if found["uncounted_requests"]:
        st.caption(
            f"{formats.count(found['uncounted_requests'])} requests have a price, but no count of input or output."
        )
    if not found["rows"]:
        st.info(
            "No request here has both a price and counts. Choose a model above to see what it would cost.",
            icon=":material/info:",
        )
        return
    whole, *groups = found["rows"]
    source = asked.source("", "cost", "--by", "model", *flags, means=" ".join(
        f"**{CASES[name]}**: {MEANINGS[name]}." for name in CASES
    ))  # fmt: skip
    _cases(whole, source)
    _losses(whole, source, MEANINGS)
    _models(groups, source)
    _prices(found, source)


def _cases(whole: dict[str, Any], source: Source) -> None:
    import polars as pl

    rows = [
        {"case": title, "usd": whole[name], "requests": whole[COUNTED.get(name, "ceiling_requests")]}
        for name, title in CASES.items()
        if whole[name] is not None
    ]
    columns = [
        Column("case", "Case"), Column("usd", "Cost", formats.usd), Column("requests", "Requests", formats.count)
    ]  # fmt: skip
    table(rows, columns, "Cost by case")
    week = whole["as_sent_usd_per_week"]
    st.caption(
        f"As sent is {formats.usd(week)} a week, over the time from the first to the last request."
        if week is not None
        else "No cost a week: the requests span less than a day, their times are not known, or their reads are not."
    )
    figures.downloads("cost", pl.DataFrame(rows), source)


def _losses(whole: dict[str, Any], source: Source, meanings: dict[str, str]) -> None:
    import polars as pl

    parts = (
        ("lost", "cause", "Lost in the provider's cache", "Cause", why_reported.named),
        ("rewritten", "kind", "History that was sent again because it was rewritten", "What changed", str),
    )
    for name, key, title, heading, named in parts:
        if not whole[name]:
            continue
        st.subheader(title, anchor=False)
        st.caption(
            f"{formats.usd(sum(row['usd'] for row in whole[name]))} altogether: each token at what its request paid on "
            "average for a token that was not read, less the price of a read."
        )
        rows = [{**row, "name": named(row[key]).replace("_", " ")} for row in whole[name]]
        table(
            rows,
            [Column("name", heading), Column("tokens", "Tokens", formats.tokens), Column("usd", "Cost", formats.usd),
             Column("usd_per_week", "A week", formats.usd)],
            title,
        )  # fmt: skip
        figures.downloads(f"cost-{name}", pl.DataFrame(whole[name]), source)
    if whole["context_caps"]:
        st.subheader("If every prompt were cut off", anchor=False)
        said = meanings["context_caps"].replace("ceiling_usd", "cost")
        st.caption(f"{said[0].upper()}{said[1:]}.")
        table(
            whole["context_caps"],
            [Column("context_cap_tokens", "After", formats.tokens), Column("usd", "Cost at the ceiling", formats.usd)],
            "Cost by context cap",
        )  # fmt: skip


def _models(groups: list[dict[str, Any]], source: Source) -> None:
    import polars as pl

    if len(groups) < 2:
        return
    st.subheader("By model", anchor=False)
    names = ("group", "priced_requests", *CASES)
    rows = [{name: row[name] for name in names} for row in groups]
    table(
        rows,
        [Column("group", "Model"), Column("priced_requests", "Requests", formats.count),
         *(Column(name, title, formats.usd) for name, title in CASES.items())],
        "Cost by model",
    )  # fmt: skip
    figures.downloads("cost-model", pl.DataFrame(rows), source)


def _prices(found: dict[str, Any], source: Source) -> None:
    import polars as pl

    st.subheader("Prices", anchor=False)
    st.caption("List prices in US dollars per million tokens, as the source stated them on the date beside it.")
    columns = [Column("model", "Model")]
    columns += [
        Column(name, title, formats.price)
        for name, title in (("input", "Input"), ("read", "Read"), ("write", "Write"), ("write_1h", "Write, 1 h"),
                            ("output", "Output"))
    ]  # fmt: skip
    columns += [
        Column("above_tokens", "More above", formats.tokens, "Longer prompts pay higher prices for all their tokens."),
        Column("since", "Since"), Column("checked", "Read on"), Column("source", "Source"),
    ]  # fmt: skip
    table(found["prices"], columns, "Prices")
    for note in found["notes"]:
        st.caption(markdown(note))
    figures.downloads("prices", pl.DataFrame(found["prices"]), source)
