"""The inputs of an ingest, one after the other: compared with the known ones, opened, and read into the builder."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from posixpath import dirname
from typing import NamedTuple

from traces.dataset.building.builder import Builder
from traces.dataset.building.request_rows import Counts
from traces.intake import registry as readers
from traces.intake.known_files import Beginning, Known, KnownFiles
from traces.intake.offers import Offer, counted, offered
from traces.intake.progress import Reporter
from traces.intake.reading import LazyTokenizer, Options, ReadAhead, context_of, guarded, readings, started
from traces.intake.receipt import Tally
from traces.records import Record, Reject
from traces.source.sources import Source

READ_AHEAD_FILES = 32
OPEN_BESIDE, OPEN_BESIDE_BYTES = 64, 16 << 20
"""Most files, and most bytes together, that are held open while their texts are being counted."""
NO_REQUEST = "an input held no request"
CONTINUED = "an input begins with all of an earlier one: the requests that both hold are counted once"


class _Opened(NamedTuple):
    """A source whose format is known, and the labels of the inputs that it continues.

    `beside`: its texts are being counted, and others may be opened meanwhile. `siblings`: it may claim other files.
    """

    source: Source
    format: str
    sure: float
    size: int
    records: Iterable[Record]
    beside: bool
    siblings: bool
    beginning: Beginning
    continues: tuple[str, ...]


class _Outcome(NamedTuple):
    """What became of a file of this run, so that it can be taken back if another file's reader claims it."""

    label: str | None  # None: it was refused
    counts: Counts
    format: str = ""
    notes: Counter[str] | None = None


class InputReader:
    """Reads sources into a builder. A file that another one's reader reads beside it is no input of its own."""

    def __init__(
        self,
        builder: Builder,
        options: Options,
        tokenizer: LazyTokenizer,
        tally: Tally,
        reporter: Reporter,
        executor: Executor | None,
        resumed: bool,
    ) -> None:
        self.builder = builder
        self.options = options
        self.tokenizer = tokenizer
        self.tally = tally
        self.reporter = reporter
        self.ahead = ReadAhead(executor, options, builder.digest.key)
        self.known = KnownFiles(builder.digest, builder.inputs, builder.passed_over)
        self.counted = {i.digest for i in builder.inputs} if resumed else set()  # the resumed receipt has these
        self.claimed: set[int] = set()
        self.claim_folders: set[str] = set()
        self.outcomes: dict[int, _Outcome] = {}
        self.opened_count = len(builder.inputs)

    def read(self, sources: list[Source]) -> Iterator[int]:
        """Read all; yield the place of each source once it is read or waits for its texts to be counted."""
        self.single = len(sources) == 1
        waiting: deque[_Opened] = deque()
        for place, source in enumerate(sources):
            if place % READ_AHEAD_FILES == 0:
                self.ahead.start(sources[place : place + 2 * READ_AHEAD_FILES])
            self.reporter.report("reading", place, self.builder.rows)
            source.heard = partial(self._report, place, source)
            if id(source) in self.claimed:
                self.tally.files["read"] += 1
                continue
            opened = self._open(source)
            if opened is not None:
                waiting.append(opened)
            while waiting and not _may_wait(waiting):
                self._close(waiting.popleft())
            yield place
        for opened in waiting:
            self._close(opened)
        for source in sources:
            outcome = self.outcomes.get(id(source))
            if outcome is not None and outcome.label is None and dirname(source.name) in self.claim_folders:
                self.known.pass_over(source)

    def _report(self, place: int, source: Source) -> None:
        self.reporter.report("reading", place, self.builder.rows, source.bytes_read)

    # before a file is read -------------------------------------------------------------------------------------

    def _open(self, source: Source) -> _Opened | None:
        """Detect the format of a source and start to read it; None for one that is not to be read."""
        try:
            beginning = self.known.beginning(source)
            overlap = self.known.overlap(source, beginning)
            if overlap.part or (overlap.same is not None and not self._again(source, overlap.same)):
                if overlap.same is None or overlap.same.digest not in self.counted:
                    self.tally.repeated()
                source.close()
                return None
            name, sure = self.options.format or "", 1.0
            if not name:
                name, sure = readers.detect(source, self.options.mapping)
        except readers.UnknownFormat as error:
            self._refuse(source, str(error), skipped=not self.single, unrecognised=True)
            return None
        except (OSError, ValueError) as error:
            self._refuse(source, f"cannot be read: {type(error).__name__}")
            return None
        continues = [known.label for known in overlap.continues if not known.claimed]
        if overlap.same is not None:
            continues.append(overlap.same.label)
        self.opened_count += 1
        self.known.opened(source, beginning, f"input-{self.opened_count:06d}")
        source.bytes_read = 0  # what was read to detect the format does not count
        reader = readers.reader(name)
        records: Iterable[Record] | None = self.ahead.take(source, name, self.builder.texts)
        size = source.size
        beside = getattr(reader, "COUNTS_BESIDE", False) and size <= OPEN_BESIDE_BYTES
        if records is None:
            records = self._records(source, name)
            if beside:
                records = started(records)
        siblings = getattr(reader, "SIBLINGS", False)
        return _Opened(source, name, sure, size, records, beside, siblings, beginning, tuple(continues))

    def _records(self, source: Source, name: str) -> Iterator[Record]:
        """The records of a source as those of the format `name`."""
        context = context_of(self.options, self.tokenizer, self.builder.digest, self.builder.texts)
        return guarded(source, partial(readings, readers.reader(name), source, context))

    def _again(self, source: Source, same: Known) -> bool:
        """Whether a file that is known has to be read again for the sake of the files beside it."""
        return not same.claimed and self.known.siblings_changed(source, same)

    def _refuse(self, source: Source, reason: str, skipped: bool = False, unrecognised: bool = False) -> None:
        if source.damage is not None:
            reason = f"{source.damage.reason} after {source.damage.after}; what came before: {reason}"
        self.tally.refused(source.name, reason, skipped, unrecognised)
        self.outcomes[id(source)] = _Outcome(None, Counts({"skipped" if skipped else "failed": 1}))
        source.close()

    # reading ---------------------------------------------------------------------------------------------------

    def _close(self, opened: _Opened) -> None:
        """Take the records of a source to the end."""
        source = opened.source
        try:
            self._take(opened)
        finally:
            source.close()
            source.heard = None
            self.reporter.bytes += source.bytes_read

    def _take(self, opened: _Opened) -> None:
        source, builder = opened.source, self.builder
        offer = Offer(opened.format, opened.sure, self.options.format is not None)
        name, records, tried = offered(source, opened.records, offer, partial(self._records, source))
        if records is None:
            formats = ", nor as ".join(tried)
            why = (
                f"not recognised as any format: no request in it as {formats}; name its format with --format, or its "
                "columns with --map"
            )
            self._refuse(source, why, skipped=not self.single, unrecognised=True)
            return
        reader = readers.reader(name)
        scope = getattr(reader, "SESSION_SCOPE", "input")
        unit = self.options.time_unit or getattr(reader, "TIME_UNIT", None)
        builder.begin(source.name, name, scope, self.options.one_trace, self.options.tokenizer, unit)
        label = builder.input.label
        rejected, rows = len(builder.requests.rejects), builder.rows
        builder.take(counted(records, source))
        if source.damage is not None:
            reason = f"{source.damage.reason} after {source.damage.after}; every record before was read"
            builder.take([Reject(source.in_hand, reason)])
        builder.notes.update(source.remarks)
        try:
            digest = self.known.digest_of(source)
        except OSError as error:
            builder.take([Reject(0, f"the file went away while it was read ({type(error).__name__})")])
            digest = builder.digest.hex(source.name.encode())
        claims = self.known.claims(source, label)
        counts = builder.end(
            digest=digest,
            size=source.content_bytes,
            start=opened.beginning.start,
            claims=claims,
            alone=opened.siblings and len(source.siblings) < 2,
        )
        for earlier in opened.continues:
            builder.succeed(earlier, label)
            builder.notes[CONTINUED] += 1
        if builder.rows == rows and len(builder.requests.rejects) == rejected:
            most = builder.skipped.most_common(1)
            why = (most[0][0] or "other records") if most else "it is empty"
            builder.notes[f"{NO_REQUEST}: {why}"] += 1
            self.tally.without_request(source.name, f"{NO_REQUEST} (read as {', then as '.join(tried)}): {why}")
        self.tally.read(source.name, name, counts, builder.requests.rejects[rejected:], builder.notes)
        self.outcomes[id(source)] = _Outcome(label, counts, name, builder.notes)
        builder.notes = Counter()
        for sibling in (source.siblings[path] for path in source.claims):
            self._claim(sibling, label)

    def _claim(self, sibling: Source, owner: str) -> None:
        """Make `sibling` part of the input `owner`: withdraw what this run read, replace what an earlier one read."""
        self.claimed.add(id(sibling))
        self.claim_folders.add(dirname(sibling.name))
        outcome = self.outcomes.pop(id(sibling), None)
        if outcome is None:
            earlier = self.known.input_of(sibling)
            if earlier is not None and earlier != owner:
                self.builder.succeed(earlier, owner)
        elif outcome.label is None:
            self.tally.take_back_refusal(sibling.name, outcome.counts)
        else:
            self.builder.succeed(outcome.label, owner, withdraw=True)
            self.tally.take_back(sibling.name, outcome.format, outcome.counts, outcome.notes or Counter())


def _may_wait(opened: deque[_Opened]) -> bool:
    """Whether the oldest still has something to wait for, and the newest may be opened before it is closed."""
    if not opened[0].beside or opened[-1].siblings or len(opened) > OPEN_BESIDE:
        return False
    return sum(one.size for one in opened) <= OPEN_BESIDE_BYTES
