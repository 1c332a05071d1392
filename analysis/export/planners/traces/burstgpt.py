"""BurstGPT CSV: seconds, model, request and response tokens; with session ids and elapsed time as in newer files."""

from __future__ import annotations

import codecs
import csv
from pathlib import Path

from analysis.export.planners import Written
from analysis.export.planners.output import new_file
from analysis.export.selection import Outgoing

_COLUMNS = (
    "Timestamp", "Session ID", "Elapsed time", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type",
)  # fmt: skip


def write(out: Outgoing, path: Path) -> Written:
    """Write one request a row, in arrival order; requests without a time or an output are left out."""
    count = left = 0
    with new_file(path) as file:
        rows = csv.writer(codecs.getwriter("utf-8")(file))
        rows.writerow(_COLUMNS)
        for row in out.rows():
            if row.arrival_s is None or row.output is None:
                left += 1
                continue
            log = "API log" if row.session is None else "Conversation log"
            session = "" if row.session is None else row.session
            lasted = "" if row.duration_s is None else row.duration_s
            model = row.model or "unknown"
            total = row.tokens + row.output
            rows.writerow((f"{row.arrival_s:.6f}", session, lasted, model, row.tokens, row.output, total, log))
            count += 1
    notes = ["prompts share nothing in this format: every replay is cold"]
    if left:
        notes.append(f"{left:,} requests have no known time or output and are left out")
    return Written(
        count, notes,
        [
            f"aiperf profile --custom-dataset-type burst_gpt_trace --input-file {path} --fixed-schedule --url URL "
            "--model MODEL --endpoint-type chat",
            f"vllm bench serve --dataset-name burstgpt --dataset-path {path} --model MODEL",
        ],
    )  # fmt: skip
