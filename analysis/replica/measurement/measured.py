"""What a run measured, in one form whatever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Band = tuple[float, float]


class Replica(NamedTuple):
    """What one engine counted: prompt tokens that it looked up, those that its cache had, and requests."""

    name: str
    queried_tokens: float | None
    hit_tokens: float | None
    requests: float | None


class Measured(NamedTuple):
    """What a run measured; None where the file does not say it.

    Attributes:
        written_by: the program that wrote the file.
        requests, input_tokens, output_tokens: counts of the run.
        hit_rate: tokens found in the cache / tokens looked up, as the program defines both.
        ttft_s: "mean", "p50", … -> seconds, from the least to the most (a histogram only knows a range).
        replicas: what each engine counted.
        notes: what a reader must know to compare.
    """

    written_by: str
    requests: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    hit_rate: float | None = None
    ttft_s: Mapping[str, Band] = {}
    replicas: tuple[Replica, ...] = ()
    notes: tuple[str, ...] = ()


class NotMeasured(ValueError):
    """A file holds no measurement that is known. The message says what would be."""
