"""Mooncake JSONL in its two readings: whole prompts, and what each turn adds.

The two look alike. Dynamo, AISimulate (`mooncake`) and kvcache-simulator take a row for the whole prompt; AIPerf and
AISimulate (`mooncake-delta`) take a session's later rows for what a turn adds behind the previous prompt and answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson

from analysis.export.planners import Written
from analysis.export.planners.conversations.chains import Chains
from analysis.export.planners.output import milliseconds, new_file
from analysis.export.selection import Outgoing

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


def write(out: Outgoing, path: Path) -> Written:
    """Write one whole prompt a row, in arrival order; a partial last block has an id (⌈input/B⌉ ids)."""
    count = 0
    with new_file(path) as file:
        for row in out.rows():
            record: dict[str, Any] = {
                "timestamp": milliseconds(row.arrival_s),
                "input_length": row.tokens,
                "output_length": row.output,
                "hash_ids": out.ids.of(row.leaf) if row.leaf >= 0 else None,
                "session_id": None if row.session is None else f"s{row.session}",
                "block_size": out.block,
                "model": row.model,
            }
            file.write(orjson.dumps({k: v for k, v in record.items() if v is not None}, option=_JSON))
            count += 1
    notes = ["durations, sub-agents' parents and stop reasons have no place in this format"]
    if out.frame["session"].null_count() < count:
        notes.append("AIPerf reads the rows of a session as deltas: give it weka or mooncake-delta instead")
    return Written(
        count, notes,
        [
            f"kvcache-simulator run --trace {path} --model llama-3.1-8b --block-size {out.block}",
            f"aiperf analyze-trace {path} --block-size {out.block}",
            f"tracetower ingest {path} -o DATASET",
        ],
    )  # fmt: skip


def write_delta(out: Outgoing, path: Path) -> Written:
    """Write what each turn adds behind the previous prompt and its answer.

    A prompt that does not extend the previous one and its answer starts a new session with all of it, so that the
    replayed totals match to the token. Ids of first rows are those of whole prompts; what a later turn adds is shared
    with nobody (the answers in front of it are generated anew), so its ids are met once.
    """
    chains = Chains(out.block)
    count = 0
    fresh = out.ids.whole + out.tree.parent.size  # above every id of the tree
    with new_file(path) as file:
        for row in out.rows():
            link = chains.add(row)
            record: dict[str, Any] = {"session_id": link.name, "input_length": link.added, "output_length": row.output}
            if link.first:
                record["timestamp"] = milliseconds(row.arrival_s)
            if link.first and row.leaf >= 0:
                record["hash_ids"] = out.ids.of(row.leaf)
            else:
                blocks = -(-link.added // out.block)
                record["hash_ids"] = np.arange(fresh, fresh + blocks)
                fresh += blocks
            if not link.first:
                record["delay"] = milliseconds(link.delay_s)
            file.write(orjson.dumps({k: v for k, v in record.items() if v is not None}, option=_JSON))
            count += 1
    return Written(
        count,
        [
            *chains.notes(),
            "prefixes are shared inside a session, and across sessions up to the first answer",
            "replays send the first turn at its time and each later one its delay after the answer before it",
        ],
        [
            f"aiperf profile --custom-dataset-type mooncake_trace --input-file {path} --isl-block-size {out.block} "
            "--fixed-schedule --url URL --model MODEL --endpoint-type chat",
            f"tracetower ingest {path} --format mooncake-delta --block-size {out.block} -o DATASET",
        ],
    )  # fmt: skip
