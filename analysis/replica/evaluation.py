"""Evaluation scores before and after a change, entered by hand or imported from Inspect logs."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

MAX_HEADER_BYTES = 64 << 20


class Score(NamedTuple):
    """One metric of an evaluation run; `standard_error` is None where the log has none."""

    task: str
    model: str
    metric: str
    value: float
    standard_error: float | None
    samples: int | None


class Comparison(NamedTuple):
    """The same metric before and after a change."""

    before: Score
    after: Score

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after.value - self.before.value

    def sentence(self) -> str:
        """The text shown with the change: values, difference and, if known, its standard error."""
        b, a = self.before, self.after
        text = f"{b.task} {b.metric}: {b.value:.4g} → {a.value:.4g} ({self.difference:+.4g}"
        if a.standard_error is not None and b.standard_error is not None:
            text += f" ± {(a.standard_error**2 + b.standard_error**2) ** 0.5:.2g}"
        return text + ")"


def read_inspect_scores(path: Path) -> list[Score]:
    """The metrics of an Inspect log (.eval archive or .json), one Score per scorer and metric.

    Raises:
        ValueError: the file is no Inspect log, or the run has no results.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if archive.getinfo("header.json").file_size > MAX_HEADER_BYTES:
                    raise ValueError(f"{path.name}: its header.json is larger than {MAX_HEADER_BYTES:,} bytes")
                header = json.loads(archive.read("header.json"))
        else:
            header = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, KeyError, UnicodeDecodeError, json.JSONDecodeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path.name}: not an Inspect log with results: {error}") from error
    about = header.get("eval") if isinstance(header, dict) else None
    results = header.get("results") if isinstance(header, dict) else None
    if not isinstance(about, dict) or not isinstance(results, dict):
        raise ValueError(f"{path.name}: an Inspect log has `eval` and `results`; this run may not have finished")
    found = [
        _score(about, results, scorer, name, metric)
        for scorer in results.get("scores") or []
        for name, metric in (scorer.get("metrics") or {}).items()
        if name not in ("stderr", "std")
    ]
    if not found:
        raise ValueError(f"{path.name}: the run has no scores")
    return found


def _score(about: dict[str, Any], results: dict[str, Any], scorer: dict[str, Any], name: str, metric: Any) -> Score:
    metrics = scorer["metrics"]
    error = metrics.get("stderr")
    return Score(
        task=str(about.get("task", "")),
        model=str(about.get("model", "")),
        metric=f"{scorer.get('name', 'score')} {name}",
        value=float(metric["value"]),
        standard_error=float(error["value"]) if isinstance(error, dict) else None,
        samples=results.get("completed_samples"),
    )


def compare_scores(before: list[Score], after: list[Score]) -> list[Comparison]:
    """Pairs of the same task and metric.

    Raises:
        ValueError: the two runs have no task and metric in common.
    """
    later = {(s.task, s.metric): s for s in after}
    pairs = [Comparison(s, later[s.task, s.metric]) for s in before if (s.task, s.metric) in later]
    if not pairs:
        raise ValueError(
            "the two evaluations share no task and metric: "
            f"{sorted({(s.task, s.metric) for s in before})} and {sorted(later)}"
        )
    return pairs
