"""The receipt: the result of every file and record."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from traces.intake.reading import Options
from traces.usage.findings import Findings

LISTED_REJECTS = 100
LISTED_WARNINGS = 50


class Tally:
    """Counts while inputs are read."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter(read=0, skipped=0, failed=0)
        self.formats: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self.rejects: list[dict[str, Any]] = []
        self.warnings: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.reasons_of: dict[str, Counter[str]] = {}  # by file, for files that are taken back
        self.unrecognised = 0
        self.unrecognised_files: set[str] = set()
        self.repeats = 0

    def state(self) -> dict[str, Any]:
        """Everything as JSON values, without names of files."""
        nameless = [{**r, "file": "(read before the ingest was resumed)"} for r in self.rejects]
        counts = {k: dict(getattr(self, k)) for k in ("files", "formats", "records", "warnings", "reasons")}
        return {**counts, "rejects": nameless, "unrecognised": self.unrecognised}

    @classmethod
    def restored(cls, state: dict[str, Any]) -> Tally:
        """The tally that `state` was taken of."""
        tally = cls()
        for name in ("files", "formats", "records", "warnings", "reasons"):
            getattr(tally, name).update(state[name])
        tally.rejects, tally.unrecognised = state["rejects"], state["unrecognised"]
        return tally

    def refused(self, name: str, reason: str, skipped: bool = False, unrecognised: bool = False) -> None:
        """A file that was not read: passed over (`skipped`) or failed. It is named with the reason."""
        self.files["skipped" if skipped else "failed"] += 1
        if unrecognised:
            self.unrecognised += 1
            self.unrecognised_files.add(name)
        self._list(name, 0, reason)

    def without_request(self, name: str, reason: str) -> None:
        """A file that was read and held no request. It is named with the reason."""
        self._list(name, 0, reason)

    def repeated(self) -> None:
        """An input whose content is in the dataset already."""
        self.files["skipped"] += 1
        self.repeats += 1
        self.warnings["an input was skipped: its content is already in the dataset"] += 1

    def read(
        self,
        name: str,
        format_name: str,
        counts: Counter[str],
        rejects: list[tuple[str, int, str]],
        notes: Counter[str],
    ) -> None:
        """An input that was read."""
        self.files["read"] += 1
        self.formats[format_name] += 1
        self.records.update(counts)
        self.warnings.update(notes)
        for _, ordinal, reason in rejects:
            self._list(name, ordinal, reason)

    def take_back(self, name: str, format_name: str, counts: Counter[str], notes: Counter[str]) -> None:
        """An input that was read, and whose records another input turned out to hold; the file stays a read one."""
        self.formats[format_name] -= 1
        self.records.subtract(counts)
        self.warnings.subtract(notes)
        self._forget(name)

    def take_back_refusal(self, name: str, files: Counter[str]) -> None:
        """A file that was refused, and that another input's reader has read."""
        self.files.subtract(files)
        self.files["read"] += 1
        self._forget(name)
        if name in self.unrecognised_files:
            self.unrecognised_files.discard(name)
            self.unrecognised -= 1

    def _forget(self, name: str) -> None:
        self.rejects = [reject for reject in self.rejects if reject["file"] != name]
        self.reasons.subtract(self.reasons_of.pop(name, Counter()))

    def late(self, rejects: list[tuple[str, int, str]]) -> None:
        """Requests (name of the input, ordinal, reason) that were counted as used and turned out to be unusable."""
        self.records["used"] -= len(rejects)
        self.records["rejected"] += len(rejects)
        for name, ordinal, reason in rejects:
            self._list(name, ordinal, reason)

    def copies(self, count: int, by_fingerprint: int = 0) -> None:
        """Requests that turned out to be copies of calls that are counted elsewhere, some by their fingerprint only."""
        moved = min(max(0, count), self.records["used"])  # an earlier state of a file may have held more requests
        if by_fingerprint > 0:
            self.warnings[
                f"{by_fingerprint:,} requests have the time, counts and text of a request in another file: they were "
                "taken for its copies, as forks and resumes make them, and are counted once"
            ] += 1
        self.records["duplicate"] += moved
        self.records["duplicate_copies"] += moved
        self.records["used"] -= moved

    def _list(self, name: str, ordinal: int, reason: str) -> None:
        kind = re.sub(r"\d[\d,.]*", "N", reason)
        self.reasons[kind] += 1
        self.reasons_of.setdefault(name, Counter())[kind] += 1
        reject = {"file": name, "line": ordinal, "reason": reason}
        if len(self.rejects) < LISTED_REJECTS:
            self.rejects.append(reject)
        elif self.reasons[kind] == 1:  # one noisy kind does not hide the others
            self.rejects[-min(len(self.reasons), LISTED_REJECTS)] = reject

    def receipt(
        self,
        tables: dict[str, pl.DataFrame],
        first_row: int,
        options: Options,
        path: Path | None,
        usage: Findings | None = None,
    ) -> dict[str, Any]:
        """The receipt that `tracetower ingest` prints, of the requests from row `first_row` on, read with `options`.

        `usage`: what the inputs that were read show of their usage figures.
        """
        usage = usage or Findings()
        sources = tables["sources"]
        new = tables["requests"]
        if first_row:
            new = new.filter(pl.col("request_id") >= first_row)
        counts = {k: self.records[k] for k in ("used", "rejected", "duplicate", "ignored")}
        used = sources.filter(pl.col("source_id").is_in(new["source_id"].unique().to_list()))
        blocks: Any = used["native_block_tokens"].max()
        basis = used["time_basis"].unique().to_list() or ["none"]
        units = used["time_unit"].drop_nulls().unique().to_list()
        tokenized = bool(used["tokenizer"].drop_nulls().len())
        warnings = usage.warnings()
        if options.block_tokens not in (None, *used["native_block_tokens"]):
            warnings.append("the given block size was not used: the inputs have no block ids, or name their block size")
        if options.mapping and not self.formats["table"]:
            warnings.append("the given columns were not used: no input was read as a table")
        if options.tokenizer != Options().tokenizer and not tokenized:
            warnings.append("the given tokenizer was not used: no text had to be counted")
        warnings += [text if n == 1 else f"{text} (× {n:,})" for text, n in self.warnings.items() if n > 0]
        if used.filter(pl.col("lengths") == "tokenizer").height:
            warnings.append(
                f"lengths counted with {options.tokenizer} are estimates where the model's own tokenizer differs"
            )
        return {
            "dataset": "" if path is None else str(path),
            "formats": {name: n for name, n in sorted(self.formats.items()) if n > 0},
            "files": dict(self.files),
            "records": {"read": sum(counts.values()), **counts},
            "requests": new.height,
            "sessions": new["session_id"].drop_nulls().n_unique(),
            "input_tokens": _known_sum(new["input_tokens"]),
            "output_tokens": _known_sum(new["output_tokens"]),
            "unknown_usage_requests": new["input_tokens"].null_count(),
            "incomplete_output_requests": int(new["output_complete"].eq(False).sum()),
            "failed_attempts": self.records["failed_attempt"],
            "block_size": blocks if blocks and blocks > 1 else None,
            "tokenizer": options.tokenizer if tokenized else None,
            "time_basis": basis[0] if len(basis) == 1 else "mixed",
            "time_unit": units[0] if len(units) == 1 else ("mixed" if units else None),
            "evidence": usage.sentences(),
            "rejects": self.rejects,
            "reject_reasons": {reason: count for reason, count in self.reasons.most_common() if count > 0},
            "unrecognised_files": self.unrecognised,
            "warnings": warnings[:LISTED_WARNINGS],
        }


def _known_sum(series: pl.Series) -> int | None:
    known = series.drop_nulls()
    return int(known.sum()) if known.len() else None
