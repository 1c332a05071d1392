"""Vidur's trace CSV: arrived_at (s), num_prefill_tokens, num_decode_tokens. No sessions, no prefix caching."""

from __future__ import annotations

from pathlib import Path

from analysis.export.planners import Written
from analysis.export.planners.output import write_csv
from analysis.export.rows import ExportSelection


def write(out: ExportSelection, path: Path) -> Written:
    """Write one row per request, in arrival order; requests without a time or an output are left out."""
    rows = [(f"{row.arrival_s:.6f}", row.tokens, row.output or 0) for row in out.rows("arrival_s", "output")]
    count = write_csv(path, [("arrived_at", "num_prefill_tokens", "num_decode_tokens"), *rows])
    longest = max((prefill + decode for _, prefill, decode in rows), default=0)
    notes = [
        "every prefill token is computed: Vidur has no prefix cache",
        f"the longest request has {longest:,} tokens: Vidur cuts what is above max_tokens (4,096 by default)",
        *out.left_out("arrival_s", "output"),
    ]
    return Written(
        count, notes,
        [
            "python -m vidur.main --request_generator_config_type trace_replay "
            f"--trace_request_generator_config_trace_file {path} --trace_request_generator_config_max_tokens {longest}"
        ],
    )  # fmt: skip
