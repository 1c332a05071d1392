"""Requests as columns of the dataset, a batch at a time."""

from __future__ import annotations

from typing import Any

import polars as pl

from traces.records import Blocks, Request
from traces.schema import REQUESTS, polars_schema

FIRST_US, FARTHEST_US = -62_000_000_000_000_000, 250_000_000_000_000_000  # µs since 1970: the years 5 to 9892
FROM_REQUEST = [
    "ttft_s",
    "duration_s",
    "model",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "output_complete",
    "output_tokens_estimate",
    "reasoning_tokens",
    "trigger",
    "work",
    "tool_classes",
    "stop_reason",
    "status",
    "compaction",
]
TYPES = polars_schema(REQUESTS)


def columns(
    pending: list[tuple[int, int | None, int, Request]], label: str, clock: str, origins: dict[str, int]
) -> pl.DataFrame:
    """(row, session, source, request) of one input as columns.

    `origins` keeps where the clock called `clock` starts, for times whose zero is unknown.

    Raises:
        OverflowError, TypeError, ValueError, polars.exceptions.PolarsError: for a value that no column holds.
    """
    requests = [p[3] for p in pending]
    fields = dict(zip(Request._fields, zip(*requests, strict=True), strict=True))
    arrival: list[Any] = [None if a is None else round(a * 1e6) for a in fields["arrival_s"]]
    if any(a is not None and not FIRST_US < a < FARTHEST_US for a in arrival):
        raise OverflowError("a time that no calendar has")
    basis = fields["time_basis"]
    if "trace" in basis:
        known = next((a for a, b in zip(arrival, basis, strict=True) if b == "trace" and a is not None), None)
        if known is not None:
            zero = origins.setdefault(clock, known)
            arrival = [a - zero if b == "trace" and a is not None else a for a, b in zip(arrival, basis, strict=True)]
    rows, sessions, sources, _ = zip(*pending, strict=True)
    data: dict[str, Any] = {
        "request_id": rows,
        "session_id": sessions,
        "source_id": sources,
        "input_label": (label,) * len(pending),
        "arrival_us": arrival,
        "wall": tuple(b == "wall" for b in basis),
        "prompt_completeness": tuple(map(_completeness, requests)),
        "record_ordinal": fields["ordinal"],
    }
    for name in FROM_REQUEST:
        data[name] = fields[name]
    if any(data["tool_classes"]):
        data["tool_classes"] = [list(t) for t in data["tool_classes"]]
    else:
        data["tool_classes"] = ([],) * len(pending)
    return pl.DataFrame([_series(name, values) for name, values in data.items()])


_EXTRA = {"arrival_us": pl.Int64, "wall": pl.Boolean}


def _series(name: str, values: Any) -> pl.Series:
    """A column; one value throughout is the common case and costs nothing."""
    dtype = _EXTRA.get(name, TYPES.get(name))
    if isinstance(values, tuple) and values.count(values[0]) == len(values):
        return pl.Series(name, [values[0]], dtype=dtype).new_from_index(0, len(values))
    return pl.Series(name, values, dtype=dtype)


def _completeness(request: Request) -> str:
    prompt = request.prompt
    if prompt is None or (isinstance(prompt, Blocks) and request.input_tokens is None):
        return "lengths"
    return "hashes" if isinstance(prompt, Blocks) else prompt.completeness
