"""What became of each record of a transcript, so that used + rejected + duplicate + ignored is what was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Record, Reject, Skipped
from traces.source import limits
from traces.source.json_values import memory_of
from traces.source.limits import MAX_JSON_MEMORY_BYTES
from traces.source.rows import json_row, json_rows
from traces.transcripts.parts import as_dict, tokens_of
from traces.usage.evidence import Meanings
from traces.usage.rules import Usage, normalise

if TYPE_CHECKING:
    from traces.source.sources import Source


class Ledger:
    """Counts records. `used` also counts those that become requests; `finish` subtracts these."""

    def __init__(self, meanings: Meanings | None = None) -> None:
        self.meanings = meanings  # of the usage figures of the source (Context)
        self.used = 0
        self.skipped: Counter[tuple[str, str]] = Counter()
        self.rejects: list[Reject] = []

    def ignore(self, reason: str, count: int = 1) -> None:
        """Records that are no part of any prompt or answer."""
        self.skipped["ignored", reason] += count

    def duplicate(self, reason: str, count: int = 1) -> None:
        """Records that repeat another record."""
        self.skipped["duplicate", reason] += count

    def failed(self, reason: str) -> None:
        """A call that got no answer."""
        self.skipped["failed_attempt", reason] += 1

    def reject(self, ordinal: int, reason: str) -> None:
        """A record that cannot be used."""
        if len(self.rejects) < limits.MOST_REJECTS:
            self.rejects.append(Reject(ordinal, reason))
        else:
            self.skipped["rejected", "more records that cannot be used"] += 1

    def usage(
        self,
        ordinal: int,
        logged: object,
        provider: str | None = None,
        disjoint: bool | None = None,
        model: str | None = None,
    ) -> Usage | None:
        """The counts of a usage object (arguments as in `normalise`); None where it has none, or only zeros.

        Agents log zeros for a call that ended before its counts arrived. A count that is no number is a reject.
        """
        try:
            usage = normalise(as_dict(logged), provider, disjoint, self.meanings, model)
        except ValueError as error:
            self.reject(ordinal, str(error))
            return None
        return usage if any(usage[:5]) else None

    def totals(self, logged: object, model: str | None = None) -> None:
        """Take a session's own totals: they show what the source's figures mean, though no call has any."""
        known = {name: tokens for name, value in as_dict(logged).items() if (tokens := tokens_of(value)) is not None}
        normalise(known, None, None, self.meanings, model)

    def finish(self, requests: int) -> Iterator[Record]:
        """Yield what became of the records other than the `requests` that were yielded."""
        yield from self.rejects
        for (kind, reason), count in self.skipped.items():
            if count:
                yield Skipped(kind, count, reason)
        if self.used > requests:
            yield Skipped("used", self.used - requests, "part of a conversation")


_RECORD_BYTES = 100
"""What a record takes beside its values."""


def objects(source: Source, ledger: Ledger) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, object) of each record of a JSON source, however arranged; other records are rejected."""
    for ordinal, value in json_rows(source):
        if isinstance(value, str):
            ledger.reject(ordinal, value)
        else:
            yield ordinal, value


def opening(head: Any) -> Any:
    """The first record, which shows the format of JSON."""
    return head.record


def document(source: Source, ledger: Ledger) -> Any:
    """The records as one value: the list of them, or the only record of a file that is no list; None without any."""
    values: list[Any] = []
    memory = 0
    for ordinal, line in source.lines():
        memory += _RECORD_BYTES + memory_of(line or b"")
        if memory > MAX_JSON_MEMORY_BYTES:
            gib = MAX_JSON_MEMORY_BYTES >> 30
            ledger.reject(ordinal, f"records that take more than {gib} GiB of memory together; those before were used")
            break
        value = json_row(line)
        if isinstance(value, str):
            ledger.reject(ordinal, value)
        elif value is not None:
            values.append(value)
    if len(values) > 1 or source.shape.kind in ("array", "page"):
        return values
    return values[0] if values else None
