"""Vidur's trace CSV: arrived_at (s), num_prefill_tokens, num_decode_tokens. No sessions, no prefix caching."""

from __future__ import annotations

from pathlib import Path

from analysis.export.planners import Written
from analysis.export.planners.output import new_file
from analysis.export.selection import Outgoing


def write(out: Outgoing, path: Path) -> Written:
    """Write one request a row, in arrival order; requests without a time or an output are left out."""
    count = left = longest = 0
    with new_file(path) as file:
        file.write(b"arrived_at,num_prefill_tokens,num_decode_tokens\n")
        for row in out.rows():
            if row.arrival_s is None or row.output is None:
                left += 1
                continue
            file.write(f"{row.arrival_s:.6f},{row.tokens},{row.output}\n".encode())
            longest = max(longest, row.tokens + row.output)
            count += 1
    notes = [
        "every prefill token is computed: Vidur has no prefix cache",
        f"the longest request has {longest:,} tokens: Vidur cuts what is above max_tokens (4,096 unless told)",
    ]
    if left:
        notes.append(f"{left:,} requests have no known time or output and are left out")
    return Written(
        count, notes,
        [
            "python -m vidur.main --request_generator_config_type trace_replay "
            f"--trace_request_generator_config_trace_file {path} --trace_request_generator_config_max_tokens {longest}"
        ],
    )  # fmt: skip
