"""The options that every question takes, and the dataset that is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from app.commands.shell.terminal import note
from app.commands.shell.types import Size

if TYPE_CHECKING:
    from analysis.store.question import Question
    from analysis.store.warehouse import Warehouse

F = TypeVar("F", bound=Callable[..., Any])

dataset_argument = click.argument("dataset", type=click.Path())
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object.")
block_size_option = click.option(
    "--block-size", type=Size(), help="Tokens a block holds [largest native block; 64 for text]."
)
arrivals_option = click.option(
    "--arrivals", default="recorded", show_default=True,
    help="When sessions start: recorded | staggered:S | poisson:PER_HOUR[:SEED] | closed:N.",
)  # fmt: skip
window_option = click.option(
    "--window", default="all", show_default=True, help="Which requests count: all | last:F | from:T,to:T (seconds)."
)
where_option = click.option("--where", multiple=True, metavar="AXIS=VALUE", help="Only these requests (repeatable).")
definition_option = click.option(
    "--definition", default="tracetower", show_default=True,
    help="Whose hit rate: tracetower | kvcache-simulator | aiperf | vllm | vllm:0.20 | sglang.",
)  # fmt: skip
timezone_option = click.option("--timezone", default="UTC", show_default=True, help="Zone that days are cut in.")


def question_options(command: F) -> F:
    """Add the options that every question takes; read them back with `question_of`."""
    for option in (
        timezone_option, where_option, definition_option, window_option, arrivals_option, block_size_option
    ):  # fmt: skip
        command = option(command)
    return command


def filters_of(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(axis, value) of each AXIS=VALUE.

    Raises:
        click.UsageError: for a text that is none, or an unknown axis.
    """
    from analysis.store.axes import check_axis
    from analysis.store.question import BadQuestion

    where = []
    for text in texts:
        axis, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"--where {text!r} is not AXIS=VALUE")
        try:
            where.append((check_axis(axis), value))
        except BadQuestion as error:
            raise click.UsageError(f"--where {text!r}: {error}") from None
    return tuple(where)


def question_of(options: dict[str, Any], axes: tuple[str, ...] = ()) -> Question:
    """Take the question's options out of a command's options; `axes` are those that the command groups by.

    Raises:
        click.UsageError: for a filter that is not AXIS=VALUE, or an unknown definition or zone.
    """
    from zoneinfo import ZoneInfo

    from analysis.store.question import DEFINITIONS, Question

    where = filters_of(options.pop("where"))
    definition = options.pop("definition")
    if definition not in DEFINITIONS:
        raise click.UsageError(f"--definition: unknown definition {definition!r}. Known: {', '.join(DEFINITIONS)}")
    zone = options.pop("timezone")
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise click.UsageError(f"--timezone: unknown zone {zone!r}: write UTC, Europe/Berlin, …") from None
    if zone != "UTC" and "day" not in (*axes, *(axis for axis, _ in where)):
        note("note: --timezone changes nothing here: only days (--by day, --where day=DATE) depend on it")
    return Question(options.pop("block_size"), options.pop("arrivals"), options.pop("window"), definition, where, zone)


def opened(path: str) -> Warehouse:
    """The dataset at `path`, a folder or a bundle's zip, ready for questions; closed with the command.

    Raises:
        traces.dataset.layout.NotADataset: where there is none.
    """
    from analysis.store.warehouse import open_dataset

    warehouse = open_dataset(path)
    click.get_current_context().call_on_close(warehouse.close)
    return warehouse
