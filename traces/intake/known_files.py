"""What an ingest knows about files: contents in the dataset, beginnings of longer files, and files read with others.

A file is known by its content, unpacked: name, container and order do not matter. To see whether a file continues
another one, only files whose first bytes are the same are compared, by one pass over the longer file's beginning.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import xxhash

from traces.dataset.building.request_rows import Claim, Input
from traces.digests import KeyedDigest
from traces.source.limits import HEAD_BYTES
from traces.source.sources import Source

START_BYTES = (16, 64, 256, 1024, 4096, 16384, HEAD_BYTES)
"""Lengths at which beginnings are compared: of a file, the longest that it has."""


class Known(NamedTuple):
    """A file that was read: its input's label, or that of the input whose reader read it (`claimed`).

    `replaced`: a longer file holds all of it, so that one is what other files may continue.
    """

    digest: str
    size: int
    label: str
    claimed: bool = False
    replaced: bool = False


class Beginning(NamedTuple):
    """The keyed digests of a file's first bytes, by length."""

    digests: dict[int, str]

    @property
    def start(self) -> str:
        """The one at the longest length; empty for a file of a few bytes."""
        return self.digests[max(self.digests)] if self.digests else ""


class Overlap(NamedTuple):
    """How a file stands to those that were read: the same as one, a part of one, or a continuation of some."""

    same: Known | None = None
    part: bool = False
    continues: tuple[Known, ...] = ()


class KnownFiles:
    """The files of a dataset and of the ingest that is running."""

    def __init__(self, digest: KeyedDigest, inputs: list[Input], passed_over: set[str]) -> None:
        self._digest = digest
        self._passed_over = passed_over
        self._by_digest: dict[str, Known] = {}
        self._by_start: dict[tuple[int, str], list[Known]] = defaultdict(list)
        self._here: dict[tuple[int, str], list[tuple[Source, str | None]]] = defaultdict(list)
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self._folders: dict[int, dict[str, list[Source]]] = {}
        for one in inputs:
            for claim in one.claims:
                self._put(Known(claim.digest, claim.size, one.label, claimed=True), claim.start)
        self._labels = {one.digest: one.label for one in inputs}
        for one in inputs:
            self._put(Known(one.digest, one.size, one.label, replaced=one.successor is not None), one.start)
            self._claims[one.label] = one.claims
        self._alone = {one.label for one in inputs if one.alone}

    def _put(self, known: Known, start: str) -> None:
        self._by_digest[known.digest] = known
        lengths = [length for length in START_BYTES if length <= known.size]
        if lengths:
            self._by_start[lengths[-1], start].append(known)

    def opened(self, source: Source, beginning: Beginning, label: str | None) -> None:
        """Compare later files with this one, which is read as the input `label` (None: beside another input)."""
        for item in beginning.digests.items():
            self._here[item].append((source, label))

    def beginning(self, source: Source) -> Beginning:
        """The digests of the file's first bytes."""
        data = memoryview(source.start)
        return Beginning({n: self._digest.hex(xxhash.xxh3_128_digest(data[:n])) for n in START_BYTES if n <= len(data)})

    def digest_of(self, source: Source) -> str:
        """The keyed digest of a file's content."""
        return self._digest.hex(source.digest())

    def claims(self, source: Source, label: str) -> tuple[Claim, ...]:
        """The siblings that the reader of `source` has read; what else lies in their folders is passed over."""
        folder = posixpath.dirname(source.name) or "."
        claims = []
        for name in sorted(source.claims):
            sibling = source.siblings[name]
            beginning = self.beginning(sibling)
            sibling.let_go()
            path, digest = posixpath.relpath(name, folder), self.digest_of(sibling)
            claim = Claim(path, digest, sibling.content_bytes, beginning.start)
            self._put(Known(claim.digest, claim.size, label, claimed=True), claim.start)
            self.opened(sibling, beginning, None)
            claims.append(claim)
        return tuple(claims)

    def input_of(self, source: Source) -> str | None:
        """The label of an earlier ingest's input with the same content."""
        return self._labels.get(self.digest_of(source))

    def overlap(self, source: Source, beginning: Beginning) -> Overlap:
        """How the file stands to those that were read before it."""
        if not beginning.digests:
            return Overlap(same=self._by_digest.get(self.digest_of(source)))
        before = [known for item in beginning.digests.items() for known in self._by_start.get(item, ())]
        longest = max(beginning.digests)
        here = [item for item in self._here.get((longest, beginning.start), ()) if item[0] is not source]
        if not before and not here:
            return Overlap()
        own = self.digest_of(source)
        if own in self._by_digest:
            return Overlap(same=self._by_digest[own])
        if any(self._is_part(source, other) for other, _ in here):
            return Overlap(part=True)
        shorter = [*(known for known in before if not known.replaced), *self._shorter(source, beginning)]
        digests = source.digests_at(known.size for known in shorter if known.size < source.content_bytes)
        keyed = {size: self._digest.hex(digest) for size, digest in digests.items()}
        return Overlap(continues=tuple(known for known in shorter if keyed.get(known.size) == known.digest))

    def _is_part(self, source: Source, other: Source) -> bool:
        """Whether the content of `source` is the beginning of the other's, or all of it."""
        size = source.content_bytes
        if other.content_bytes == size:
            return other.digest() == source.digest()
        return other.content_bytes > size and other.digests_at([size]).get(size) == source.digest()

    def _shorter(self, source: Source, beginning: Beginning) -> Iterator[Known]:
        """Files of this run that are shorter and begin alike."""
        for length, start in beginning.digests.items():
            for other, label in self._here.get((length, start), ()):
                size = other.content_bytes
                if (
                    label is not None
                    and size < source.content_bytes
                    and length == max(n for n in START_BYTES if n <= size)
                ):
                    yield Known(self.digest_of(other), size, label)

    def pass_over(self, source: Source) -> None:
        """Remember a file that no reader takes, so that the readers of files beside it need not look again."""
        self._passed_over.add(self.digest_of(source))

    def siblings_changed(self, source: Source, known: Known) -> bool:
        """Whether files lie beside a known file that its reader did not see: new, changed, or it was read alone."""
        if known.label in self._alone and len(source.siblings) > 1:
            return True
        claims = {posixpath.normpath(posixpath.join(posixpath.dirname(source.name), claim.path)): claim.digest
                  for claim in self._claims.get(known.label, ())}  # fmt: skip
        changed = (source.siblings[name] for name in claims if name in source.siblings)
        if any(self.digest_of(sibling) not in claims.values() for sibling in changed):
            return True
        folders = self._by_folder(source)
        beside = (other for folder in {posixpath.dirname(name) for name in claims} for other in folders.get(folder, ()))
        seen = self._by_digest.keys() | self._passed_over
        return any(self.digest_of(other) not in seen for other in beside if other is not source)

    def _by_folder(self, source: Source) -> dict[str, list[Source]]:
        group = source.siblings
        if id(group) not in self._folders:
            folders = self._folders[id(group)] = defaultdict(list)
            for name, other in group.items():
                folders[posixpath.dirname(name)].append(other)
        return self._folders[id(group)]
