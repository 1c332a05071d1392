"""Mooncake JSONL in its two readings: whole prompts, and what each turn adds.

The two look alike. Dynamo, AISimulate (`mooncake`) and kvcache-simulator read each row as a whole prompt; AIPerf and
AISimulate (`mooncake-delta`) read a session's later rows as what a turn adds after the previous prompt and answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from analysis.export.planners import Written
from analysis.export.planners.conversations.chains import Chains
from analysis.export.planners.output import milliseconds, write_lines
from analysis.export.rows import ExportSelection


def write(out: ExportSelection, path: Path) -> Written:
    """Write one whole prompt per row, in arrival order; a partial last block has an id (⌈input/B⌉ ids)."""
    count = write_lines(
        path,
        (
            {
                "timestamp": milliseconds(row.arrival_s),
                "input_length": row.tokens,
                "output_length": row.output,
                "hash_ids": out.block_ids(row),
                "session_id": None if row.session is None else f"s{row.session}",
                "block_size": out.block,
                "model": row.model,
            }
            for row in out.rows()
        ),
    )
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


def write_delta(out: ExportSelection, path: Path) -> Written:
    """Write what each turn adds after the previous prompt and its answer.

    A prompt that does not extend the previous one and its answer starts a new session with all of its tokens, so the
    replayed totals match to the token. First rows have the ids of whole prompts. No other request shares what a later
    turn adds, because the answers before it are generated anew, so each of its ids occurs once.
    """
    chains = Chains(out.block)
    return Written(
        write_lines(path, _deltas(out, chains)),
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


def _deltas(out: ExportSelection, chains: Chains) -> Iterator[dict[str, Any]]:
    fresh = out.ids.whole + out.tree.parent.size  # larger than every id of the tree
    for row in out.rows():
        link = chains.add(row)
        ids = out.block_ids(row) if link.first else None
        if ids is None:
            ids = np.arange(fresh, fresh - (-link.added // out.block))
            fresh += len(ids)
        times = {"timestamp": milliseconds(row.arrival_s)} if link.first else {"delay": milliseconds(link.delay_s)}
        yield {
            "session_id": link.name, "input_length": link.added, "output_length": row.output, "hash_ids": ids, **times,
        }  # fmt: skip
