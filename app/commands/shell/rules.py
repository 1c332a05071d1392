"""Rules between a command's options, so that none is dropped without a word.

A rule looks at what was written on the command line, never at defaults. A broken rule ends the command with exit 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import click
from click.core import ParameterSource

from app.widgets.flags import flag_of


class Rule(NamedTuple):
    """Whether it is broken by (names of the parameters that were given, their values), and what is said then."""

    broken: Callable[[set[str], dict[str, object]], bool]
    says: str


def needs(option: str, *others: str, says: str = "") -> Rule:
    """`option` means nothing unless one of `others` is given."""
    text = says or f"{flag_of(option)} means nothing without {' or '.join(map(flag_of, others))}"
    return Rule(lambda given, _: option in given and not given & set(others), text)


def excludes(option: str, *others: str, says: str = "") -> Rule:
    """`option` cannot be combined with any of `others`."""
    text = says or f"{flag_of(option)} cannot be combined with {' or '.join(map(flag_of, others))}"
    return Rule(lambda given, _: option in given and bool(given & set(others)), text)


def alone(option: str, *but: str) -> Rule:
    """`option` answers by itself: nothing beside it but `but` (and DATASET) has a meaning."""
    free = {option, "as_json", "dataset", *but}
    return Rule(lambda given, _: option in given and bool(given - free), f"{flag_of(option)} takes no other options")


def only_if(options: tuple[str, ...], holds: Callable[[dict[str, object]], bool], says: str) -> Rule:
    """`options` mean nothing unless `holds` for the command's values."""
    return Rule(lambda given, values: bool(given & set(options)) and not holds(values), says)


def check(rules: tuple[Rule, ...], ctx: click.Context) -> None:
    """Refuse what breaks a rule.

    Raises:
        click.UsageError: with the rule's text.
    """
    given = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    given = {name for name in given if ctx.params[name] not in (None, (), "")}
    for rule in rules:
        if rule.broken(given, ctx.params):
            raise click.UsageError(rule.says, ctx)
