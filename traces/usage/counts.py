"""The five counts of a model call, and what counts as a number of tokens."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from traces.source.limits import MOST_TOKENS


class Usage(NamedTuple):
    """Tokens of one model call. None is unknown, never 0.

    `input_tokens` counts all prompt tokens, those read from and written to a cache included; `output_tokens` includes
    `reasoning_tokens`. Nothing is clamped: a cache read above the input is the source's error and stays visible.
    """

    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


MAX_TOKENS = MOST_TOKENS + 1
"""A larger count is no token count."""


_GROUPED = re.compile(r"\d{1,3}([,' \u00a0\u202f_]\d{3})+", re.ASCII)
"""Digits in groups of three: 12,495."""


def count(value: object, field: str) -> int | None:
    """`value` as a number of tokens: an int, a whole float, or digits in a string; None stays None.

    Raises:
        ValueError: Anything else.
    """
    if type(value) is int and 0 <= value < MAX_TOKENS:
        return value
    if value is None or value == "":
        return None
    if isinstance(value, str):
        digits = value.strip()
        if not digits.isdigit() and _GROUPED.fullmatch(digits):
            digits = re.sub(r"\D", "", digits)
        if not (digits.isascii() and digits.removeprefix("-").isdigit()):
            raise ValueError(f"{field} is a text that is no whole number")
        value = int(digits) if len(digits) < 20 else MAX_TOKENS
    elif isinstance(value, bool):
        raise ValueError(f"{field} is a truth value, not a number of tokens")
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


def add_known(*values: int | None) -> int | None:
    """The sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
