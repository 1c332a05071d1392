"""Bailian (Qwen) JSONL: whole prompts, seconds, conversations by parent links (-1 the root)."""

from __future__ import annotations

from pathlib import Path

from analysis.export.planners import Written
from analysis.export.planners.output import write_lines
from analysis.export.rows import ExportSelection

NATIVE_BLOCK_TOKENS = 16


def write(out: ExportSelection, path: Path) -> Written:
    """Write one row per request, in arrival order; a partial last block has an id."""
    count = write_lines(
        path,
        (
            {
                "chat_id": row.number,
                "parent_chat_id": -1 if row.previous is None else row.previous,
                "timestamp": row.arrival_s,
                "input_length": row.tokens,
                "output_length": row.output,
                "type": "text",
                "turn": row.turn + 1,
                "hash_ids": out.block_ids(row),
            }
            for row in out.rows()
        ),
    )
    notes = ["models, durations and sub-agents' parents have no place in this format"]
    block = "" if out.block == NATIVE_BLOCK_TOKENS else f" --isl-block-size {out.block}"
    if block:
        notes.append(f"the format's own block is {NATIVE_BLOCK_TOKENS} tokens, these ids stand for {out.block}: say so")
    return Written(
        count, notes,
        [
            f"aiperf profile --custom-dataset-type bailian_trace --input-file {path}{block} --fixed-schedule --url URL "
            "--model MODEL --endpoint-type chat",
            f"tracetower ingest {path} --block-size {out.block} -o DATASET",
        ],
    )  # fmt: skip
