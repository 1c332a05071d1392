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
    taken: list[tuple[str, str, list[tuple[int, int | None, int, Request]]]], origins: dict[str, int]
) -> pl.DataFrame:
    """The requests of some inputs as columns: (label of the input, name of its clock, its rows) each.

    A row is (row, session, source, request). `origins` keeps where a clock starts, for times whose zero is unknown.

    Raises:
        OverflowError, TypeError, ValueError, polars.exceptions.PolarsError: for a value that no column holds.
    """
    pending = [row for _, _, rows in taken for row in rows]
    requests = [row[3] for row in pending]
    fields = dict(zip(Request._fields, zip(*requests, strict=True), strict=True))
    basis = fields["time_basis"]
    arrival: list[int | None] = [None if a is None else round(a * 1e6) for a in fields["arrival_s"]]
    if any(a is not None and not FIRST_US < a < FARTHEST_US for a in arrival):
        raise OverflowError("a time that no calendar has")
    if "trace" in basis:
        arrival = _from_origins(arrival, basis, [clock for _, clock, rows in taken for _ in rows], origins)
    rows, sessions, sources, _ = zip(*pending, strict=True)
    data: dict[str, Any] = {
        "request_id": rows,
        "session_id": sessions,
        "source_id": sources,
        "input_label": tuple([label for label, _, rows in taken for _ in rows]),
        "arrival_us": arrival,
        "wall": tuple(b == "wall" for b in basis),
        "prompt_completeness": tuple(map(_completeness, requests)),
        "record_ordinal": fields["ordinal"],
    }
    for name in FROM_REQUEST:
        data[name] = fields[name]
    return pl.DataFrame([_series(name, values) for name, values in data.items()])


def _from_origins(
    arrival: list[int | None], basis: tuple[str, ...], clocks: list[str], origins: dict[str, int]
) -> list[int | None]:
    """Times of a trace's own clock, counted from the first one that was seen of the clock."""
    return [
        a - origins.setdefault(clock, a) if a is not None and b == "trace" else a
        for a, b, clock in zip(arrival, basis, clocks, strict=True)
    ]


_EXTRA = {"arrival_us": pl.Int64, "wall": pl.Boolean}


def _series(name: str, values: Any) -> pl.Series:
    """A column; one value throughout is the common case and costs nothing."""
    dtype = _EXTRA.get(name, TYPES.get(name))
    if name == "tool_classes":  # a list a row is slow, and few lists differ
        places: dict[tuple[str, ...], int] = {}
        codes = [places.setdefault(value, len(places)) for value in values]
        return pl.Series(name, [list(value) for value in places], dtype=dtype).gather(codes)
    if isinstance(values, tuple) and values.count(values[0]) == len(values):
        return pl.Series(name, [values[0]], dtype=dtype).new_from_index(0, len(values))
    return pl.Series(name, values, dtype=dtype)


def _completeness(request: Request) -> str:
    prompt = request.prompt
    if prompt is None or (isinstance(prompt, Blocks) and request.input_tokens is None):
        return "lengths"
    return "hashes" if isinstance(prompt, Blocks) else prompt.completeness
