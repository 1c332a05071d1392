"""BurstGPT CSV: seconds, model, request and response tokens; with session ids and elapsed time as in newer files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.export.planners import Written
from analysis.export.planners.output import write_csv
from analysis.export.rows import ExportSelection

_COLUMNS = (
    "Timestamp", "Session ID", "Elapsed time", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type",
)  # fmt: skip


def write(out: ExportSelection, path: Path) -> Written:
    """Write one row per request, in arrival order; requests without a time or an output are left out."""
    count = write_csv(path, _cells(out))
    notes = ["prompts share nothing in this format: every replay is cold", *out.left_out("arrival_s", "output")]
    return Written(
        count, notes,
        [
            f"aiperf profile --custom-dataset-type burst_gpt_trace --input-file {path} --fixed-schedule --url URL "
            "--model MODEL --endpoint-type chat",
            f"vllm bench serve --dataset-name burstgpt --dataset-path {path} --model MODEL",
        ],
    )  # fmt: skip


def _cells(out: ExportSelection) -> Iterator[tuple[Any, ...]]:
    yield _COLUMNS
    for row in out.rows("arrival_s", "output"):
        log = "API log" if row.session is None else "Conversation log"
        total = row.tokens + (row.output or 0)
        yield (
            f"{row.arrival_s:.6f}", row.session, row.duration_s, row.model or "unknown", row.tokens, row.output,
            total, log,
        )  # fmt: skip
