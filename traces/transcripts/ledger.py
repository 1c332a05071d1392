"""What became of each record of a transcript, so that used + rejected + duplicate + ignored is what was read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Record, Reject, Skipped
from traces.source.sources import HEAD_BYTES, TooLarge, parse_json
from traces.transcripts.parts import as_dict
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
        self.rejects.append(Reject(ordinal, reason))

    def usage(
        self, ordinal: int, logged: object, provider: str | None = None, disjoint: bool | None = None
    ) -> Usage | None:
        """The counts of a usage object (arguments as in `normalise`); None where it has none, or only zeros.

        Agents log zeros for a call that ended before its counts arrived. A count that is no number is a reject.
        """
        try:
            usage = normalise(as_dict(logged), provider, disjoint, self.meanings)
        except ValueError as error:
            self.reject(ordinal, str(error))
            return None
        return usage if any(usage[:5]) else None

    def finish(self, requests: int) -> Iterator[Record]:
        """Yield what became of the records other than the `requests` that were yielded."""
        yield from self.rejects
        for (kind, reason), count in self.skipped.items():
            if count:
                yield Skipped(kind, count, reason)
        if self.used > requests:
            yield Skipped("used", self.used - requests, "part of a conversation")


def objects(source: Source, ledger: Ledger) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON Lines source; other lines are rejected, blank ones passed over."""
    for ordinal, line in source.lines():
        if line is None:
            ledger.reject(ordinal, "line is too long")
        elif line.strip():
            try:
                value = parse_json(line)
            except ValueError as error:
                ledger.reject(ordinal, str(error))
                continue
            if isinstance(value, dict):
                yield ordinal, value
            else:
                ledger.reject(ordinal, "not a JSON object")


def opening(head: Any) -> Any:
    """The value by which a JSON input's format is recognised: its first line where that is a value, else the whole."""
    try:
        return parse_json(head.first_line) if head.first_line[:1] in (b"{", b"[") else None
    except ValueError:
        if len(head.data) >= HEAD_BYTES and b"\n" not in head.data:
            return head.record  # one long line
        return head.document


def document(source: Source, ledger: Ledger) -> Any:
    """The source as one JSON value; None, and a reject, where it is none."""
    try:
        return parse_json(source.document())
    except (ValueError, TooLarge) as error:
        ledger.reject(1, str(error))
        return None
