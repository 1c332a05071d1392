"""What was planted, what the diagnosis says of it, and how often it is right."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from analysis.why.divergences import parted
from analysis.why.misses import misses
from traces.intake.ingest import Options, ingest

KINDS = (
    "clock", "nonce", "working_directory", "tool_schema", "stripped_reasoning", "reminder", "image", "whitespace",
    "summary", "edit", "compaction", "fork",
)  # fmt: skip
"""What can be planted."""

EDITS = ("edit", "system_change", "tail", "unrelated")
"""What a rewritten history is called where no kind is known."""


class Planted(NamedTuple):
    """Calls with whole prompts, and what was planted in them.

    Attributes:
        rows: of the format `table`, one per call.
        truth: per row the kind that was planted first in the prompt; None: the prompt only grew.
        dropped: per row whether it is not scored, since what is true of it is open to argument.
        lost: per row the tokens of the session's previous prompt that no earlier prompt shares with it.
        notes: per row what was done.
    """

    rows: list[dict[str, Any]]
    truth: list[str | None]
    dropped: list[bool]
    lost: list[int]
    notes: list[str]

    def scored(self, labels: list[str | None]) -> tuple[list[str | None], list[str | None]]:
        """(truth, labels) of the rows that are scored."""
        kept = [i for i, aside in enumerate(self.dropped) if not aside]
        return [self.truth[i] for i in kept], [labels[i] for i in kept]


class Score(NamedTuple):
    """Of one kind: how often it was planted, the share of its labels that are right, and the share that was found."""

    planted: int
    precision: float
    recall: float


def found_labels(
    rows: Sequence[dict[str, Any]], folder: Path, tokenizer: str, by_transition: bool = False
) -> tuple[list[str | None], list[int]]:
    """Per row: the kind that the dataset's diagnosis gives it (None: it only grew), and the tokens it lost.

    `by_transition`: of block ids, where nothing else is known; a prompt unrelated to all before it had a nonce.
    """
    source = folder / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(source)], folder / "ds", Options(tokenizer=tokenizer))
    warehouse = open_dataset(folder / "ds")
    question = Question()
    named = dict(parted(warehouse, question).select("row", "kind").rows())
    labels: list[str | None] = []
    for row, transition in enumerate(warehouse.kinds()["transition"].to_list()):
        kind = named.get(row)
        if kind is None and transition in ("fork", "rewind"):
            kind = "fork"
        if by_transition and kind == "unrelated":
            kind = "nonce"
        labels.append("edit" if kind in EDITS else kind)
    return labels, misses(warehouse, question).rows["lost_tokens"].to_list()


def score(truth: Sequence[str | None], labels: Sequence[str | None]) -> dict[str, Score]:
    """Precision and recall by kind."""
    scores = {}
    for kind in sorted({k for k in (*truth, *labels) if k is not None}):
        planted = sum(t == kind for t in truth)
        labelled = sum(label == kind for label in labels)
        right = sum(t == label == kind for t, label in zip(truth, labels, strict=True))
        scores[kind] = Score(planted, right / labelled if labelled else 1.0, right / planted if planted else 1.0)
    return scores
