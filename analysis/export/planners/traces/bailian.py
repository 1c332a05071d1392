"""Bailian (Qwen) JSONL: whole prompts, seconds, conversations by parent links (-1 the root)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.export.planners import Written
from analysis.export.planners.output import new_file
from analysis.export.selection import Outgoing

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
NATIVE_BLOCK_TOKENS = 16


def write(out: Outgoing, path: Path) -> Written:
    """Write one request a row, in arrival order; a partial last block has an id."""
    count = 0
    with new_file(path) as file:
        for row in out.rows():
            record: dict[str, Any] = {
                "chat_id": row.number,
                "parent_chat_id": -1 if row.previous is None else row.previous,
                "timestamp": row.arrival_s,
                "input_length": row.tokens,
                "output_length": row.output,
                "type": "text",
                "turn": row.turn + 1,
                "hash_ids": out.ids.of(row.leaf) if row.leaf >= 0 else None,
            }
            file.write(orjson.dumps({k: v for k, v in record.items() if v is not None}, option=_JSON))
            count += 1
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
