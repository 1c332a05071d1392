"""Reading one input, here or in another process."""

from __future__ import annotations

import functools
import os
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from traces.digests import KeyedDigest
from traces.intake import registry as readers
from traces.records import Blocks, Context, Reader, Record, Reject, Request
from traces.source.json_values import reason_of
from traces.source.limits import Limits
from traces.source.sources import Source
from traces.text.kept_texts import KeptTexts
from traces.text.text_counts import TextCounts
from traces.text.tokens import Tokenizer, load_tokenizer
from traces.usage.evidence import Meanings

DEBUG_VARIABLE = "TRACETOWER_DEBUG"
MOST_LEFT_OUT, READ_AGAIN_BYTES = 20, 1 << 30
"""Records of one input that are left out because a reader fails on them, and how large an input is read again."""
LARGEST_REMOTE_BYTES = 64 << 20
"""A larger file streams in this process: its records would not fit in memory all at once."""


HELD_BYTES = 32 << 20
"""What records may weigh that are held until the meaning of their usage is known: of an input with more of them the
usage is read ahead."""

MOST_COUNTS = 1 << 20
"""Counts that are kept from one file to the next."""


class Options(NamedTuple):
    """How inputs are read; the command line's flags of the same names."""

    format: str | None = None
    mapping: dict[str, str] | None = None
    block_tokens: int | None = None
    tokenizer: str = "o200k_base"
    time_unit: str | None = None
    one_trace: bool = False
    limits: Limits = Limits()
    keep_excerpts: bool = False


class LazyTokenizer:
    """Stands for a tokenizer until the first text is counted: hash traces never pay for its ranks."""

    def __init__(self, name: str) -> None:
        self._asked = name
        self._loaded: Tokenizer | None = None
        self._counts: TextCounts | None = None
        if name not in ("o200k_base", "cl100k_base", "bytes") and not Path(name).exists():
            load_tokenizer(name)  # raises, naming the known ones

    @property
    def used(self) -> bool:
        """Whether anything was counted with it."""
        return self._loaded is not None

    @property
    def counts(self) -> TextCounts:
        """Counts of texts that repeat, shared by the files that are read one after the other."""
        if self._counts is None or len(self._counts.tokens) > MOST_COUNTS:
            self._counts = TextCounts(self)
        return self._counts

    def __getattr__(self, attribute: str) -> Any:
        if self._loaded is None:
            self._loaded = load_tokenizer(self._asked)
        return getattr(self._loaded, attribute)


def context_of(options: Options, tokenizer: Any, digest: KeyedDigest, texts: KeptTexts | None = None) -> Context:
    """The context of a reader."""
    return Context(
        tokenizer=tokenizer,
        digest=digest,
        block_tokens=options.block_tokens,
        time_unit=options.time_unit,
        mapping=options.mapping,
        texts=texts,
    )


def guarded(source: Source, read: Callable[[], Iterator[Record]]) -> Iterator[Record]:
    """The records that `read` yields of `source`, whatever it raises.

    A reader that holds a whole file before it yields a request would lose all of it by one record that it cannot
    handle. So the record it was given last is rejected with the exception's type, and the source is read again without
    that record. What lies outside of any record ends the input with a reject. With `DEBUG_VARIABLE` set in the
    environment every traceback is printed.
    """
    passed = 0
    while True:
        source.in_hand = 0
        try:
            for record in islice(read(), passed, None):
                passed += 1
                yield record
            return
        except Exception as error:  # whatever other people's files hold, the user gets data
            if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
                traceback.print_exc()
            at, known = source.in_hand, source.left_out
            if not at or at in known or len(known) == MOST_LEFT_OUT or source.bytes_read > READ_AGAIN_BYTES:
                yield Reject(at, f"reading stopped here ({type(error).__name__}); what came before was used")
                return
            known.add(at)
            yield Reject(at, reason_of(error))
            source.bytes_read = 0


def readings(reader: Reader, source: Source, context: Context) -> Iterator[Record]:
    """The records of `source`, its usage figures read with the meaning that all of them together show.

    Records pass on at once until a usage object comes whose meaning the rest of the input may change. From there on
    they are held, and at the end the input is read again where its meaning turned out to be another. Of an input with
    more than `HELD_BYTES` of such records the usage is read ahead instead (`_survey`).
    """
    meanings = Meanings()
    records = reader.read(source, context._replace(meanings=meanings))
    passed = 0
    held: list[Record] = []
    weight = 0
    for record in records:
        if not meanings.open:
            passed += 1
            yield record
            continue
        held.append(record)
        weight += _weight(record)
        if weight > HELD_BYTES:
            decided = _survey(reader, source, context)
            break
    else:
        decided = meanings
    if meanings.open:
        decisions = decided.decisions()
        if meanings.changed_by(decisions):
            meanings = Meanings(decisions)
            held = []
            records = islice(reader.read(source, context._replace(meanings=meanings)), passed, None)
        meanings.decide(decisions)
    yield from held
    held = []
    yield from records
    yield from meanings.evidence()


def _weight(record: Record) -> int:
    """About how many bytes of memory a record takes."""
    if not isinstance(record, Request):
        return 500
    prompt, size = record.prompt, 1500
    if isinstance(prompt, Blocks):
        return size + len(prompt.ids) * (1 if isinstance(prompt.ids, bytes) else 60)
    for pieces in (record.reply, prompt and prompt.pieces):
        size += sum(200 + (0 if piece.units is None else piece.units.nbytes) for piece in pieces or ())
    return size


def _survey(reader: Reader, source: Source, context: Context) -> Meanings:
    """What all usage objects of `source` show; its texts are not counted."""
    meanings = Meanings()
    before = source.bytes_read
    quick = context._replace(tokenizer=load_tokenizer("bytes"), texts=None, meanings=meanings)
    deque(reader.read(source, quick), maxlen=0)
    source.bytes_read = before
    return meanings


def started(records: Iterator[Record]) -> Iterator[Record]:
    """Read up to the first record now, and pass all on: by then a reader of transcripts has handed its texts over."""
    first = next(records, None)
    return iter(()) if first is None else chain((first,), records)


_shared = functools.lru_cache(LazyTokenizer)  # one a process, with the counts that files share


def read_whole(
    path: str, name: str, format_name: str, options: Options, key: bytes
) -> tuple[list[Record], Source, dict[int, str]]:
    """Read a file in a worker: (records, the source as it was left, texts by piece)."""
    source = Source(name, Path(path), limits=options.limits)
    texts = KeptTexts()
    try:
        context = context_of(options, _shared(options.tokenizer), KeyedDigest(key), texts)
        records = list(guarded(source, partial(readings, readers.reader(format_name), source, context)))
        return records, source, texts.all()
    finally:
        source.close()


class ReadAhead:
    """Has files read by an executor a few at a time, in order; without one, everything is read here."""

    def __init__(self, executor: Executor | None, options: Options, key: bytes) -> None:
        self._executor = executor
        self._options = options
        self._key = key
        self._futures: dict[int, tuple[str, Future[Any]]] = {}

    def start(self, sources: list[Source]) -> None:
        """Have these read, as far as they can be: plain files of formats that need no other file."""
        if self._executor is None:
            return
        for source in sources:
            path = source.plain_path
            if path is None or id(source) in self._futures or source.size > LARGEST_REMOTE_BYTES:
                continue
            try:
                name = self._options.format or readers.detect(source, self._options.mapping)[0]
            except (readers.UnknownFormat, OSError, ValueError):
                continue
            if getattr(readers.reader(name), "SIBLINGS", False):
                continue
            job = self._executor.submit(read_whole, str(path), source.name, name, self._options, self._key)
            self._futures[id(source)] = (name, job)

    def take(self, source: Source, format_name: str, texts: KeptTexts) -> list[Record] | None:
        """The records of a file that was read elsewhere, or None; its texts are added to `texts`."""
        found = self._futures.pop(id(source), None)
        if found is None or found[0] != format_name:
            return None
        records, other, more = found[1].result()
        texts.update(more)
        source.left_as(other)
        return records
