"""ServeGen client files: rates and length histograms from which requests are drawn. They are no requests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from traces.records import Context, Record, Reject
from traces.source.sources import Head, Source

NAME = "servegen"
SUMMARY = {
    "carries": "no requests: rates and length histograms per client",
    "time": "none",
    "blocks": "none",
    "computes": "nothing: draw requests from it with ServeGen, write them as CSV or JSONL, and ingest that",
}
_TRACE = re.compile(
    rb"^\d+(\.\d+)?,[\d.eE+-]+,[\d.eE+-]+,(Weibull|Gamma|Pareto|Exponential)?,[\d.eE+-]+,[\d.eE+-]+\s*$"
)
_DATASET = re.compile(rb'^\{\s*"\d+"\s*:\s*\{\s*"(input_tokens|output_tokens|reason_ratio|image_tokens)"\s*:\s*"\{')


def sniff(head: Head, name: str) -> float:
    """Sure of lines of a rate and a distribution, and of histograms by window."""
    if _TRACE.match(head.first_line) and name.lower().endswith(".csv"):
        return 0.95
    return 0.95 if _DATASET.match(head.data[:4096].lstrip()) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Refuse, with the reason and the next step."""
    yield Reject(
        0,
        "a ServeGen generator (rates and length histograms of a client), not requests: draw requests from it with "
        "ServeGen, write them as CSV or JSONL, and ingest that",
    )
