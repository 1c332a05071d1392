"""Distributes a prompt length that the provider counted over the messages of the prompt, so that lengths add up.

The provider counts a prompt as a whole; the transcript shows its messages. The tokenizer's counts serve as weights of
the messages, not as their lengths. The constants were fitted on ten public sessions with 956 requests (Claude Sonnet 4
and 4.5, Opus 4.1) against o200k_base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

PER_TOKEN = 1.11
"""Provider tokens per tokenizer token of text in a prompt."""

PER_TOOL_CALL = 80
"""Provider tokens that frame one tool call and its result."""

PER_OUTPUT_TOKEN = 1.15
"""Provider tokens per tokenizer token of text in an answer (a median of 0.93 of the true count, where it is known)."""

EXCESS_FACTOR, EXCESS_TOKENS = 2.0, 1000
"""If a prompt grew by more than factor * estimate + tokens, it contains something that is not in the transcript (an
attachment, for example). Nine of ten turns stay below 1.31 * estimate; known hidden content exceeds it by 14,000 tokens
or more."""


def prompt_estimate(counted: int, tool_calls: int = 0) -> float:
    """Provider tokens of a message with `counted` tokenizer tokens."""
    return PER_TOKEN * counted + PER_TOOL_CALL * tool_calls


def output_estimate(counted: int, tool_calls: int = 0) -> int | None:
    """Provider tokens of an answer with `counted` tokenizer tokens; None if no part of the answer is visible."""
    return round(PER_OUTPUT_TOKEN * counted + PER_TOOL_CALL * tool_calls) or None


class Shares(NamedTuple):
    """Tokens per message, and the remaining tokens that belong to no message."""

    tokens: list[int]
    unobserved: int


def split(total: int, weights: Sequence[float]) -> list[int]:
    """Splits `total` tokens into integer shares proportional to `weights` that add up to `total` exactly.

    Cumulative rounding: share i is the difference of two rounded running sums. So no share is off by more than one, and
    two weight lists with the same beginning and scale get the same shares there. If all weights are 0, the last share
    gets everything.
    """
    whole = sum(weights)
    if not weights:
        return []
    if whole <= 0:
        return [0] * (len(weights) - 1) + [total]
    shares, running, before = [], 0.0, 0
    for weight in weights:
        running += weight
        after = min(total, round(total * running / whole))
        shares.append(after - before)
        before = after
    shares[-1] += total - before
    return shares


def spread(growth: int, estimates: Sequence[float], elastic: Sequence[bool]) -> Shares:
    """Distributes the tokens by which a prompt grew over the messages added to it.

    Args:
        growth: Provider tokens of everything added; not negative.
        estimates: Estimated provider tokens of each addition.
        elastic: Whether the transcript does not show the size of an addition (images, documents). If there are such
            additions, they get the tokens that the others do not need.
    """
    expected = sum(estimates)
    if any(elastic) and growth > expected:
        firm = sum(estimate for estimate, stretches in zip(estimates, elastic, strict=True) if not stretches)
        rest = growth - firm
        stretch = expected - firm
        count = sum(elastic)
        weights = [
            (rest * estimate / stretch if stretch else rest / count) if stretches else estimate
            for estimate, stretches in zip(estimates, elastic, strict=True)
        ]
        return Shares(split(growth, weights), 0)
    if growth > EXCESS_FACTOR * expected + EXCESS_TOKENS or (growth and expected <= 0):
        seen = round(expected)
        return Shares(split(seen, estimates), growth - seen)
    return Shares(split(growth, estimates), 0)
