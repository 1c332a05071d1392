"""Dated list prices of models: which price a request paid, and where that price comes from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from analysis.store.question import BadQuestion

PER_TOKENS = 1_000_000
"""Prices are in US dollars for this many tokens."""


class Rates(NamedTuple):
    """US dollars per million tokens. `write` and `write_1h` are those of tokens written to the cache, kept for the
    provider's default time and for an hour; where nothing is charged for writing, they are `input`."""

    input: float
    read: float
    write: float
    write_1h: float
    output: float


class Price(NamedTuple):
    """What one model costs from a day on.

    Attributes:
        models: plain names (`plain_name`); `*` stands for anything.
        since: the first day (UTC); None: since the model's first day.
        rates: for prompts of at most `above_tokens` tokens, or for all if that is None.
        above_tokens: longer prompts pay `above` for all their tokens.
        above: the rates of longer prompts.
        source, checked: who states the price, and when that was read.
        note: what else matters; "" for nothing.
    """

    models: tuple[str, ...]
    since: date | None
    rates: Rates
    above_tokens: int | None
    above: Rates | None
    source: str
    checked: str
    note: str

    def names(self, name: str) -> bool:
        """Whether this is the price of the model with that plain name."""
        return any(fnmatchcase(name, pattern) for pattern in self.models)


_VENDOR = re.compile(r"^(?:(?:us|eu|apac|global)\.)?(?:anthropic|openai|google|moonshot|deepseek)\.|^.*/")
_OLD = re.compile(r"claude-(opus|sonnet|haiku)-(3(?:\.\d)?)$")
_CLAUDE = re.compile(r"(claude-(?:[a-z]+-)?\d{1,2})-(\d{1,2})(?=-|$)")
_DATED = re.compile(
    r"(?:[-@](?:20\d{6}|20\d\d-\d\d-\d\d)|\[1m\]|-v\d+(?::\d+)?|-latest|-(?:exp|preview)(?:-\d\d-\d\d(?:-20\d\d)?)?)+$"
)


def plain_name(model: str) -> str:
    """A model's name without its vendor, snapshot date and context suffix, with dots in its version.

    `us.anthropic.claude-opus-4-5-20251101-v1:0` -> `claude-opus-4.5`, `openai/gpt-5.2-2025-12-11` -> `gpt-5.2`.
    """
    name = _VENDOR.sub("", model.strip().lower())
    return _OLD.sub(r"claude-\2-\1", _CLAUDE.sub(r"\1.\2", _DATED.sub("", name)))


class Prices:
    """A table of prices: of the rows that name a model and hold on the day, the first counts, or the newest of those
    with the same `models`.
    """

    def __init__(self, rows: Iterable[Price]) -> None:
        self.rows = tuple(rows)

    def of(self, model: str | None, day: date | None = None) -> Price | None:
        """The price of a model on a day; the newest for None. None if no row names the model, or none is old enough."""
        name = plain_name(model or "")
        fitting = [
            row
            for row in self.rows
            if name and row.names(name) and (day is None or row.since is None or row.since <= day)
        ]
        same = [row for row in fitting if row.models == fitting[0].models]
        return max(same, key=lambda row: row.since or date.min, default=None)


@cache
def list_prices() -> tuple[Price, ...]:
    """The prices that come with this release (`prices.toml`)."""
    return _rows(tomllib.loads(Path(__file__).with_name("prices.toml").read_text("utf-8")), "prices.toml")


def named_models() -> list[str]:
    """The models that the list prices name, in the order of the table."""
    return list(dict.fromkeys(name for price in list_prices() for name in price.models))


def load_prices(path: str | Path | None = None) -> Prices:
    """The list prices, after those of the user's own TOML file of the same form (a row needs models, input, output).

    Raises:
        BadQuestion: the file cannot be read, or a row is not a price; the message names the row.
    """
    if path is None:
        return Prices(list_prices())
    try:
        given = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadQuestion(f"{path} is not a table of prices in TOML: {error}", "prices") from None
    return Prices((*_rows(given, Path(path).name), *list_prices()))


def _rows(table: dict[str, Any], name: str) -> tuple[Price, ...]:
    rows, sources = table.get("price"), table.get("source", [])
    if not isinstance(rows, list) or not rows or not isinstance(sources, list):
        raise BadQuestion(f"{name} holds no [[price]]", "prices")
    known = {source.get("name"): source for source in sources if isinstance(source, dict)}
    return tuple(_price(row, known, f"{name}, price {number}") for number, row in enumerate(rows, 1))


_TEXTS = {"models", "source", "checked", "note"}


def _price(row: Any, sources: dict[Any, dict[str, Any]], where: str) -> Price:
    if not isinstance(row, dict) or not row.keys() <= {*_TEXTS, *Rates._fields, "since", "above_tokens", "above"}:
        extra = sorted(row.keys() - {*_TEXTS, *Rates._fields, "since", "above_tokens", "above"})
        raise BadQuestion(f"{where}: unknown {', '.join(extra)}", "prices")
    source = sources.get(row.get("source"), {})
    texts = {"source": source.get("url") or row.get("source") or where.split(",")[0], "checked": source.get("checked")}
    texts |= {name: row[name] for name in ("checked", "note") if name in row}
    models, since, limit = row.get("models"), row.get("since"), row.get("above_tokens")
    if not isinstance(models, list) or not models or not all(isinstance(name, str) and name for name in models):
        raise BadQuestion(f"{where}: models is a list of names, not {models!r}", "prices")
    if (
        not isinstance(since, date | None)
        or not isinstance(limit, int | None)
        or ("above" in row) != (limit is not None)
    ):
        raise BadQuestion(f"{where}: since is a date; above_tokens (a number) and above stand together", "prices")
    above = None if limit is None else _rates(row["above"], f"{where}, above")
    rates = _rates({name: row[name] for name in Rates._fields if name in row}, where)
    checked = str(texts["checked"] or "date not given")
    return Price(tuple(models), since, rates, limit, above, str(texts["source"]), checked, str(texts.get("note", "")))


def _rates(given: Any, where: str) -> Rates:
    numbers = isinstance(given, dict) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < PER_TOKENS
        for value in given.values()
    )
    if not numbers or "input" not in given or "output" not in given:
        raise BadQuestion(f"{where}: input and output are needed, in US dollars per million tokens", "prices")
    full = {"read": given["input"], "write": given["input"], **given}
    return Rates(**{"write_1h": full["write"], **full})
