"""Offers an input to one format after the other until one finds a request in it; checks records on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from traces.intake import registry as readers
from traces.intake.progress import give_back
from traces.records import Note, Record, Reject, Request
from traces.source.limits import MOST_TOKENS
from traces.source.sources import Source

_counts_of = attrgetter(
    *("input_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("output_tokens", "output_tokens_estimate", "reasoning_tokens"),
)
MOST_HELD = 100_000
"""Records before the first request that are held; an input with more of them is taken as it comes."""


class Offer(NamedTuple):
    """The format that an input was read as, how sure its reader is, and whether the user named it."""

    format: str
    sure: float
    named: bool


def offered(
    source: Source, records: Iterable[Record], offer: Offer, read: Callable[[str], Iterator[Record]]
) -> tuple[str, Iterable[Record] | None, list[str]]:
    """(format, records, formats tried) of the first format that finds a request; else of the surest one.

    An input with evidence of its own format is offered to no other. Without records the input holds nothing that any of
    the formats knows: one generic record that cannot be used is no evidence of a format.

    Args:
        source: the input.
        records: what the surest format's reader yields.
        offer: that format.
        read: the records of the input by another format.
    """
    first, found = _up_to_request(iter(records))
    tried = [offer.format]
    if found or offer.named or offer.sure >= readers.RECOGNISED:
        return offer.format, first, tried
    for name, _ in readers.candidates(source.head()):
        if name not in tried:
            tried.append(name)
            others, found = _up_to_request(read(name))
            if found:
                return name, others, tried
    held = list(first)
    of_content = [record for record in held if type(record) is not Note]
    rejected = next((record.reason for record in held if isinstance(record, Reject)), "")
    if rejected and len(of_content) > 1:
        return offer.format, held, tried
    return offer.format, None, [f"{tried[0]} ({rejected})" if rejected else tried[0], *tried[1:]]


def _up_to_request(records: Iterator[Record]) -> tuple[Iterator[Record], bool]:
    """The same records, and whether a request is among them. Those before the first request are held meanwhile."""
    held: list[Record] = []
    for record in records:
        held.append(record)
        if type(record) is Request or len(held) == MOST_HELD:
            return chain(held, records), True
    return iter(held), False


def counted(records: Iterable[Record], source: Source) -> Iterator[Record]:
    """Pass records on and report progress now and then; a request with a count that no model has is a reject."""
    for seen, record in enumerate(records):
        if not seen & 0x3FF and source.heard is not None:
            source.heard()
        if seen and not seen & 0xFFFF:
            give_back()
        if type(record) is Request:
            a, b, c, d, e, f = _counts_of(record)
            # the bits of all counts together: below the limit, so is every count; negative, if any of them is
            if not 0 <= (a or 0) | (b or 0) | (c or 0) | (d or 0) | (e or 0) | (f or 0) < MOST_TOKENS:
                counts = [count for count in (a, b, c, d, e, f) if count is not None]
                if max(counts) > MOST_TOKENS:
                    record = Reject(record.ordinal, f"more than {MOST_TOKENS:,} tokens, which no model takes")
                elif min(counts) < 0:
                    record = Reject(record.ordinal, "a negative number of tokens")
        yield record
