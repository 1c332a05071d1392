"""What a usage rule is made of: the five counts, and careful look-ups of them in logged objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Usage(NamedTuple):
    """Tokens of one model call. None is unknown, never 0. `rule` names the `Rule` that was used.

    `input_tokens` counts all prompt tokens, those read from and written to a cache included; `output_tokens` includes
    `reasoning_tokens`. Nothing is clamped: a cache read above the input is the source's error and stays visible.
    """

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    rule: str = "none"


class Rule(NamedTuple):
    """How usage objects of one shape are read. `doc` is one line for people."""

    name: str
    doc: str
    fits: Callable[[Mapping[str, Any], str], bool]
    read: Callable[[Mapping[str, Any], str], Usage]


DISJOINT_PROVIDERS = ("anthropic", "claude", "bedrock", "disjoint")
"""Providers whose input figure leaves the cached tokens out; matched as parts of the name."""

MAX_TOKENS = 1 << 48
"""A larger count is no token count."""


def count(value: object, field: str) -> int | None:
    """`value` as a number of tokens: an int, a whole float, or digits in a string; None stays None.

    Raises:
        ValueError: Anything else.
    """
    if type(value) is int and 0 <= value < MAX_TOKENS:
        return value
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        raise ValueError(f"{field} is a truth value, not a number of tokens")
    if isinstance(value, str):
        digits = value.strip()
        if not (digits.isascii() and digits.removeprefix("-").isdigit()):
            raise ValueError(f"{field} is a text that is no whole number")
        value = int(digits) if len(digits) < 20 else MAX_TOKENS
    if isinstance(value, float):
        if not math.isfinite(value) or value != int(value):
            raise ValueError(f"{field} is not a whole number")
        value = int(value)
    if not isinstance(value, int):
        raise ValueError(f"{field} is not a number")
    if value < 0:
        raise ValueError(f"{field} is negative")
    if value >= MAX_TOKENS:
        raise ValueError(f"{field} is too large for a number of tokens")
    return value


def first(usage: Mapping[str, Any], *fields: str) -> int | None:
    """The first field that is known; a dot goes into a nested object (also where the dotted name itself is a key)."""
    for field in fields:
        value: Any = usage.get(field)
        if value is None:
            if "." not in field:
                continue
            value = usage
            for part in field.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
        known = count(value, field)
        if known is not None:
            return known
    return None


def add_known(*values: int | None) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def has(usage: Mapping[str, Any], *fields: str) -> bool:
    """Whether any of `fields` is a key, with a value or null."""
    return any(field in usage for field in fields)


def is_disjoint(provider: str) -> bool:
    """Whether `provider`'s input figure is known to leave cached tokens out."""
    return any(name in provider for name in DISJOINT_PROVIDERS)


def with_cache(fresh: int | None, read: int | None, written: int | None) -> int | None:
    """The whole prompt from its parts: unknown without the uncached part; an absent cache field adds nothing."""
    return None if fresh is None else fresh + (read or 0) + (written or 0)
