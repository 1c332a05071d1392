"""Option types and the options that every question takes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from analysis.store.question import Question
    from analysis.store.warehouse import Warehouse

F = TypeVar("F", bound=Callable[..., Any])

UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
UNITS |= {f"{u}b": n for u, n in list(UNITS.items()) if u in ("k", "m", "g", "t")}
UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def parse_size(text: str) -> int:
    """A whole number, or one with a unit: 16k and 4M are decimal, 80GiB is binary.

    Raises:
        ValueError: for anything else.
    """
    found = re.fullmatch(r"\s*(-?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].lower() not in UNITS:
        raise ValueError(f"{text!r} is not a size: write 16384, 16k, 4M or 80GiB")
    return round(float(found[1].replace("_", "")) * UNITS[found[2].lower()])


class Size(click.ParamType[int]):
    """One size."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The size as a whole number."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Sizes(click.ParamType[list[int]]):
    """Sizes separated by commas."""

    name = "size,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The sizes as whole numbers."""
        if isinstance(value, list):
            return value
        try:
            return [parse_size(part) for part in str(value).split(",") if part.strip()]
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Seconds(click.ParamType[list[float]]):
    """Seconds separated by commas."""

    name = "seconds,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        """The times in seconds."""
        if isinstance(value, list):
            return value
        try:
            found = [float(part) for part in str(value).split(",") if part.strip()]
        except ValueError:
            self.fail(f"{value!r} is not a list of seconds: write 60,300,3600", param, ctx)
        if any(not 0 <= t < float("inf") for t in found):
            self.fail("a time must be at least 0 seconds", param, ctx)
        return found


def question_options(command: F) -> F:
    """Add the options that every question takes; read them back with `question_of`."""
    for option in reversed(
        (
            click.option("--block-size", type=Size(), help="Tokens a block holds [largest native block; 64 for text]."),
            click.option(
                "--arrivals",
                default="recorded",
                show_default=True,
                help="recorded | staggered:S | poisson:PER_HOUR[:SEED] | closed:N",
            ),
            click.option("--window", default="all", show_default=True, help="all | last:F | from:T,to:T (seconds)."),
            click.option(
                "--definition",
                default="tracetower",
                show_default=True,
                help="Whose hit rate: tracetower | kvcache-simulator | aiperf | vllm | vllm:0.20 | sglang.",
            ),
            click.option("--where", multiple=True, metavar="AXIS=VALUE", help="Only these requests (repeatable)."),
            click.option("--timezone", default="UTC", show_default=True, help="Zone that days are cut in."),
        )
    ):
        command = option(command)
    return command


def filters_of(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(axis, value) of each AXIS=VALUE.

    Raises:
        click.UsageError: for a text that is none, or an unknown axis.
    """
    from analysis.store.question import check_axis

    where = []
    for text in texts:
        axis, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"--where {text!r} is not AXIS=VALUE")
        try:
            where.append((check_axis(axis), value))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    return tuple(where)


def question_of(options: dict[str, Any]) -> Question:
    """Take the question's options out of a command's options.

    Raises:
        click.UsageError: for a filter that is not AXIS=VALUE, or an unknown definition or zone.
    """
    from zoneinfo import ZoneInfo

    from analysis.store.question import DEFINITIONS, Question

    where = filters_of(options.pop("where"))
    definition = options.pop("definition")
    if definition not in DEFINITIONS:
        raise click.UsageError(f"unknown definition {definition!r}. Known: {', '.join(DEFINITIONS)}")
    zone = options.pop("timezone")
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise click.UsageError(f"unknown time zone {zone!r}: write UTC, Europe/Berlin, …") from None
    return Question(options.pop("block_size"), options.pop("arrivals"), options.pop("window"), definition, where, zone)


def opened(path: str) -> Warehouse:
    """The warehouse of a dataset, or exit 1 with the reason."""
    from analysis.store.warehouse import open_dataset
    from traces.dataset.layout import NotADataset

    try:
        return open_dataset(path)
    except NotADataset as error:
        raise BadData(str(error)) from None


class BadData(click.ClickException):
    """Data that cannot be used: exit 1."""

    exit_code = 1
