"""Speculative decoding: the speed-up from an accept length, including the cost of drafting and verification.

Leviathan et al. (arXiv 2211.17192): tokens per verification tau = (1 - a^(g+1)) / (1 - a), speed-up = tau / (g c +
1). In a mixture of experts a verified batch touches more experts than a plain step (Cascade, arXiv 2506.20675), so
the 1 becomes t_verify / t_step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_VERIFY_TOKENS = 8
"""Seven drafted tokens and the one that the target adds."""

RATIO_NOTE = (
    "at equal step time the gain of a better drafter is the ratio of accept lengths: 5.00 -> 5.84 is 1.168x; a "
    "reported 1.20x needs a step 2.7 % cheaper or is rounded up"
)


@dataclass(frozen=True)
class Speculation:
    """A drafter on one kind of content.

    Attributes:
        accept_length: tokens gained per verification step, the target's own token included (at least 1).
        draft_cost: time of all draft passes of a step, in plain decode steps (block drafters: one pass).
        verify_tokens: tokens the target verifies per sequence and step; None assumes 8, or enough for the accept
        length.
    """

    accept_length: float
    draft_cost: float = 0.0
    verify_tokens: int | None = None

    def __post_init__(self) -> None:
        if not self.accept_length >= 1:
            raise ValueError(
                f"accept length {self.accept_length} must be at least 1: the target always adds a token of its own"
            )
        if self.draft_cost < 0:
            raise ValueError(f"draft cost {self.draft_cost} must not be negative")
        if self.verify_tokens is not None and self.accept_length > self.verify_tokens:
            raise ValueError(
                f"accept length {self.accept_length} exceeds the {self.verify_tokens} tokens verified per step"
            )

    @property
    def verified(self) -> int:
        """Tokens verified per sequence and step."""
        if self.verify_tokens is not None:
            return self.verify_tokens
        return max(DEFAULT_VERIFY_TOKENS, math.ceil(self.accept_length))


def drafter_gain(before: float, after: float, step_ratio: float = 1.0) -> float:
    """Speed-up from one accept length to another; `step_ratio` is new step time / old step time. See RATIO_NOTE."""
    if before < 1 or after < 1 or step_ratio <= 0:
        raise ValueError("accept lengths must be at least 1 and the step ratio above 0")
    return after / before / step_ratio


def accept_length(acceptance: float, drafted: int) -> float:
    """Tokens per verification for an i.i.d. acceptance rate of each of `drafted` tokens."""
    if not 0 <= acceptance <= 1 or drafted < 0:
        raise ValueError("acceptance must be between 0 and 1, drafted at least 0")
    if acceptance == 1:
        return drafted + 1.0
    return (1 - acceptance ** (drafted + 1)) / (1 - acceptance)


def acceptance_rate(length: float, drafted: int) -> float:
    """The i.i.d. acceptance rate that gives an accept length: the inverse of `accept_length`, by bisection."""
    if not 1 <= length <= drafted + 1:
        raise ValueError(f"accept length {length} must be between 1 and drafted + 1 = {drafted + 1}")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if accept_length(middle, drafted) < length else (low, middle)
    return (low + high) / 2


def mixed_accept_length(shares: Mapping[str, tuple[float, float]]) -> float:
    """Accept length over kinds of content: kind -> (share of tokens, accept length).

    A harmonic mean, since the time per token is the sum of share / accept length; the arithmetic mean is too high.
    """
    total = sum(share for share, _ in shares.values())
    if total <= 0 or any(share < 0 or length < 1 for share, length in shares.values()):
        raise ValueError("shares must be positive in sum and accept lengths at least 1")
    return total / sum(share / length for share, length in shares.values())


def speculative_speedup(speculation: Speculation, step_s: float, verify_s: float) -> float:
    """Tokens a second with speculation over without: tau / (t_verify / t_step + draft cost)."""
    if step_s <= 0 or verify_s <= 0:
        raise ValueError("step times must be above 0")
    return speculation.accept_length / (verify_s / step_s + speculation.draft_cost)
