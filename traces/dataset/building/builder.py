"""A dataset while it is built: takes records and makes tables; holds the tree, columns and state for appending."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.building.block_fit import BlockFit
from traces.dataset.building.columns import FARTHEST_US
from traces.dataset.building.copies import Copies
from traces.dataset.building.request_rows import Counts, Input, RequestRows, Row, Taken
from traces.dataset.building.source_ids import SourceIds
from traces.digests import KeyedDigest
from traces.divergence.tables import Excerpts
from traces.records import Base, Blocks, Evidence, Note, Piece, Prompt, Record, Reject, Request, Session, Skipped
from traces.source import limits
from traces.text.kept_texts import KeptTexts
from traces.tree.batches import BlockRow, PieceRow, block_batch, piece_batch
from traces.tree.blocks import KnownTexts
from traces.tree.insertion import TOO_LONG, Content
from traces.tree.prefixes import PrefixTree
from traces.usage.findings import Findings

FLUSH_ROWS = 2048
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Builder:
    """Collects records of inputs, one input after the other."""

    def __init__(self, digest: KeyedDigest | None = None) -> None:
        self.digest = digest or KeyedDigest()
        self.tree = PrefixTree()
        self.texts = KeptTexts()
        self.named: pl.DataFrame | None = None  # kinds of divergences that an earlier ingest found
        self.keep_excerpts = False  # whether this run stores the changed lines of divergences in private/
        self.excerpts: Excerpts = {}
        self.leaf, self.full, self.reply = (np.full(0, -1, np.int64) for _ in range(3))
        self.content = Content.of(0)
        self.replaced = 0  # requests of earlier generations that were left out since their input has a successor
        self.passed_over: set[str] = set()  # keyed digests of files that no reader takes, beside files that one took
        self.withdrawn: set[str] = set()  # labels of inputs of this run that turned out to be part of another
        self.rows = 0
        self.first_new_row = 0
        self.requests = RequestRows()
        self.sessions: list[dict[str, Any]] = []
        self.session_ids: dict[int, int] = {}
        self.sources: list[tuple[Any, ...]] = []
        self.inputs: list[Input] = []
        self.spaces: dict[str, int] = {"dataset": 0}
        self.notes: Counter[str] = Counter()
        self._pending: list[Row] = []
        self._blocks: list[BlockRow] = []
        self._pieces: list[PieceRow] = []
        self.copies = Copies()
        self._named = array("q"), array("Q")  # rows, and the digests of their keys where other inputs may name them
        self._secret = self.digest("rows that match nothing")

    def begin(
        self,
        name: str,
        format_name: str,
        scope: str = "input",
        one_trace: bool = False,
        tokenizer: str = "",
        time_unit: str | None = None,
    ) -> None:
        """Start an input. scope: what session keys are unique in (traces.records.Reader)."""
        self.input = Input(f"input-{len(self.inputs) + 1:06d}", name, "", format_name)
        self.inputs.append(self.input)
        self.counts = Counts()
        self.evidence: list[Evidence] = []  # what this input showed of its usage figures
        self.skipped: Counter[str] = Counter()  # why records of this input are no requests
        self.tokenizer = tokenizer
        self._scope = "dataset" if scope == "dataset" or (one_trace and scope == "trace") else self.input.label
        self._space_name = "one-trace" if one_trace else self.input.label
        self._known = KnownTexts()
        self._rows: dict[str, int] = {}
        self._session_cache: dict[str, int] = {}
        self._last_usage: dict[int, tuple[int, int]] = {}
        self._space_of: dict[tuple[str, int], int] = {}
        self._spawned: list[tuple[dict[str, Any], str]] = []
        self._linked = False
        self._source_ids = SourceIds(self.sources, format_name, tokenizer, time_unit)
        self._fit = BlockFit()

    def take(self, records: Iterable[Record]) -> None:
        """Take the records of the current input."""
        for record in records:
            if type(record) is Request:
                self._request(record)
            elif type(record) is Session:
                self._session(record)
            elif type(record) is Reject:
                self.counts["rejected"] += 1
                if self.counts["rejected"] <= limits.MOST_REJECTS:
                    self.requests.rejects.append((self.input.label, record.ordinal, sys.intern(record.reason)))
            elif type(record) is Skipped:
                self.counts[record.kind] += record.count
                self.skipped[record.reason] += record.count
                if record.kind == "failed_attempt":
                    self.counts["ignored"] += record.count
            elif type(record) is Note:
                self.notes[record.text] += 1
            elif type(record) is Evidence:
                self.evidence.append(record)
            if self.requests.waiting + len(self._pending) >= FLUSH_ROWS:
                self.flush()

    def end(self, **identity: Any) -> Counts:
        """Finish the current input, with fields of `Input` that are known now; return what became of its records.

        Inputs of few requests wait for each other, since a batch costs about the same whatever it holds.
        """
        if self._blocks:
            self.flush()
        elif self._pending:
            self._hand_on(counted=True)
        if (more := self.counts["rejected"] - limits.MOST_REJECTS) > 0:
            self.notes[f"{more:,} more records of an input cannot be used: they are counted and not listed"] += 1
        self.input = self.inputs[-1] = self.input._replace(evidence=tuple(self.evidence), **identity)
        for session, key in self._spawned:
            if key in self._rows:
                session["spawn_row"] = self._rows[key]
        self._rows, self._session_cache = {}, {}
        if self._fit.misfits:
            self.notes[self._fit.note()] += 1
        return self.counts

    def succeed(self, label: str, by: str, withdraw: bool = False) -> None:
        """Let the input `by` stand for the input `label`, all of whose records it has.

        With `withdraw` the requests of `label` never were: it was read in this run before its owner claimed it.
        """
        at = next(at for at, one in enumerate(self.inputs) if one.label == label)
        self.inputs[at] = self.inputs[at]._replace(successor=by)
        if withdraw:
            self.withdrawn.add(label)

    def findings(self, first: int = 0) -> Findings:
        """What the inputs from the place `first` on show of their usage figures, those with a successor left out."""
        return Findings((i.format, one) for i in self.inputs[first:] if i.successor is None for one in i.evidence)

    def session_id(self, key: str, scope: str | None = None) -> int:
        """The id of the session `key` of the current input."""
        hashed = self.digest(f"{scope or self._scope}|{key}")
        found = self.session_ids.get(hashed)
        if found is None:
            found = len(self.sessions)
            self.session_ids[hashed] = found
            self.sessions.append({"key": hashed, "input_label": self.input.label, "own": self.digest(key)})
        return found

    def _session(self, session: Session) -> None:
        row = self.sessions[self.session_id(session.key)]
        for name in ("agent", "agent_version", "role", "started_at_us", "head_tokens"):
            value = getattr(session, name)
            if value is not None and not (isinstance(value, int) and abs(value) >= FARTHEST_US):
                row[name] = value
        for name in ("parent_key", "forked_from_key"):
            value = getattr(session, name)
            if value is not None:
                row[name] = self.digest(f"{self._scope}|{value}")
        self._linked = True
        if session.spawn_request_key is not None:
            self._spawned.append((row, session.spawn_request_key))
            row["spawn_key"] = self.digest(f"{self._scope}|{session.spawn_request_key}")
        row["session_source"] = "native" if session.native else "inferred"

    def _request(self, request: Request) -> None:
        row = self.rows
        self.rows += 1
        session = self._session_cache.get(request.session_key) if request.session_key is not None else None
        if session is None and request.session_key is not None:
            session = self._session_cache[request.session_key] = self.session_id(request.session_key)
        prompt = request.prompt
        if isinstance(prompt, Blocks):
            if self._pieces:
                self.flush()
            prompt = self._block_row(row, request, prompt, session)
        elif isinstance(prompt, Prompt):
            if self._blocks:
                self.flush()
            base = -1
            if prompt.base is not None:
                base = self._rows.get(prompt.base.request_key, -1)
            self._pieces.append(PieceRow(row, 0, prompt, base, request.reply or ()))
        elif session is not None and request.input_tokens is not None and request.prompt is None:
            if self._blocks:
                self.flush()
            self._pieces.append(self._usage_row(row, session, request.input_tokens))
        if self._linked or not isinstance(prompt, Blocks):
            self._rows[request.key] = row
        if self._scope == "dataset":
            self._named[0].append(row)
            self._named[1].append(self.digest(f"{self._scope}|{request.key}"))
        if request.dedupe_key is not None:
            self.copies.add(row, self.digest(request.dedupe_key), request.copy_rank)
        self._pending.append((row, session, self._source_ids.of(request), request))

    def _usage_row(self, row: int, session: int, tokens: int) -> PieceRow:
        """A prompt of which only the length is known: it shares min(previous, this) with its session's previous one."""
        before, length = self._last_usage.get(session, (-1, 0))
        self._last_usage[session] = (row, tokens)
        shared = min(length, tokens)
        new = Piece(self.digest(f"usage|{self._space_name}|{row}"), tokens - shared, "unknown")
        return PieceRow(row, 0, Prompt((new,), Base("", False, shared), "lengths"), before, ())

    def _block_row(self, row: int, request: Request, prompt: Blocks, session: int | None) -> Blocks | None:
        tokens = request.input_tokens
        if tokens is None or not 0 <= tokens <= limits.MOST_TOKENS:
            return None
        block = prompt.block_tokens
        space = self._space_of.get((prompt.namespace, block))
        if space is None:
            scope, _, part = prompt.namespace.partition("#")
            name = {"": self._space_name, "file": self.input.label + part}.get(scope, scope)
            space = self.spaces.setdefault(f"{name}|{block}", len(self.spaces))
            self._space_of[prompt.namespace, block] = space
        whole = tokens // block
        started = -(-tokens // block)
        added = self._known.add(space, session, prompt.ids, whole, started, row)
        if added.total > started:
            self._fit.add(tokens, added.total)
            return None
        self._blocks.append(BlockRow(row, tokens, block, space, added))
        return prompt

    def _hand_on(self, counted: bool) -> None:
        self.requests.add(Taken(self.input, self._space_name, self.counts, self._pending, counted))
        self._pending = []

    def flush(self) -> None:
        """Insert the prompts that wait and turn the waiting requests into columns."""
        if self._pending:
            self._hand_on(counted=False)
        if self.leaf.size < self.rows:
            size = max(self.rows, self.leaf.size * 2, 4096)
            for name in ("leaf", "full", "reply"):
                grown = np.full(size, -1, np.int64)
                grown[: getattr(self, name).size] = getattr(self, name)
                setattr(self, name, grown)
            self.content = self.content.grown(size)
        bad: dict[int, str] = {}
        if self._blocks:
            batch, fine = block_batch(self._blocks, self.digest, self._secret)
            if not fine.all():
                reason = "hash_ids are not whole numbers or strings"
                bad = {b.row: reason for b, ok in zip(self._blocks, fine, strict=True) if not ok}
                self._known.clear()
            self.tree.insert(batch, self.leaf, self.full, self.reply, self.content)
        if self._pieces:
            batch = piece_batch(self._pieces)
            self.tree.insert(batch, self.leaf, self.full, self.reply, self.content)
            reason = f"a prompt of more than {limits.MOST_TOKENS:,} tokens, which no model takes"
            bad |= dict.fromkeys(batch.row[self.full[batch.row] == TOO_LONG].tolist(), reason)
            for piece_row in self._pieces:
                if piece_row.prompt.content:
                    self.content.call[piece_row.row] = piece_row.prompt.content
        self.requests.flush(bad)
        self._blocks, self._pieces = [], []

    def named_rows(self, keys: set[int]) -> dict[int, int]:
        """The rows of requests by the digests of their keys, as far as `keys` asks for them."""
        rows, digests = self._named
        asked = np.isin(np.array(digests, np.uint64), np.fromiter(keys, np.uint64, len(keys)))
        return {digests[at]: rows[at] for at in np.flatnonzero(asked).tolist()}

    def all_rows(self) -> pl.DataFrame:
        """Every request taken so far, copies included, with its place in the tree."""
        self.flush()
        frame = self.requests.frame()
        rows = frame["request_id"].to_numpy()
        leaf = self.leaf[rows] if rows.size else np.zeros(0, np.int64)
        reply = self.reply[rows] if rows.size else np.zeros(0, np.int64)
        end = self.tree.columns()["end"]
        return frame.with_columns(
            prefix_id=_null_below(leaf, leaf),
            prefix_tokens=_null_below(leaf, end[np.maximum(leaf, 0)]),
            output_prefix_id=_null_below(reply, reply),
            content=pl.Series(self.content.call[rows] if rows.size else np.zeros(0, np.uint64)),
        ).with_columns(content=pl.when(pl.col("prompt_completeness") != "lengths").then("content").otherwise(0))


def _null_below(key: NDArray[np.int64], value: NDArray[np.int64]) -> pl.Series:
    series = pl.Series(value, dtype=pl.Int64)
    return series.set(pl.Series(key < 0), None)


def from_us(value: int | None) -> datetime | None:
    """µs since the epoch as a UTC time."""
    return None if value is None else EPOCH + timedelta(microseconds=value)
