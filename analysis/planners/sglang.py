"""SGLang's bench_serving: agentic-trace conversations and mooncake rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.outgoing import Outgoing
from analysis.planners import Written
from analysis.planners.chains import Chains
from analysis.planners.conversations import conversations, words
from analysis.planners.output import milliseconds, new_file
from analysis.planners.vllm import PLACEHOLDER

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


def write_agentic(out: Outgoing, path: Path) -> Written:
    """Write {"metadata", "conversations"}: per turn the new messages and the length of the whole prompt."""
    chains = Chains(out.block)
    count = tokens = answers = 0
    with new_file(path) as file:
        file.write(b'{"metadata":{"source":"tracetower"},"conversations":[')
        for family in conversations(out, chains):
            for conversation in family:
                turns: list[dict[str, Any]] = []
                for place, turn in enumerate(conversation.turns):
                    new = [{"role": "user", "content": words(out, turn, place == 0)}]
                    turns.append({"messages": new, "prompt_tokens": turn.row.tokens})
                    answers += turn.row.output is not None
                    tokens += turn.row.output or 0
                file.write(b",\n" if count else b"\n")
                file.write(orjson.dumps(turns))
                count += 1
        file.write(b"\n]}\n")
    mean = max(1, round(tokens / answers)) if answers else 220
    return Written(
        count,
        [*chains.notes(), PLACEHOLDER, f"one output length for all turns: the mean, {mean:,} tokens"],
        [
            "python -m sglang.bench_serving --backend sglang-oai-chat --dataset-name agentic-trace "
            f"--dataset-path {path} --sharegpt-output-len {mean}"
        ],
    )


def write_mooncake(out: Outgoing, path: Path) -> Written:
    """Write times, block ids and output lengths in arrival order; requests that lack one are left out."""
    count = left = 0
    with new_file(path) as file:
        for row in out.rows():
            if row.arrival_s is None or row.output is None or row.leaf < 0:
                left += 1
                continue
            record = {
                "timestamp": milliseconds(row.arrival_s),
                "input_length": row.tokens,
                "output_length": row.output,
                "hash_ids": out.ids.of(row.leaf),
            }
            file.write(orjson.dumps(record, option=_JSON))
            count += 1
    notes = ["SGLang makes 128 words of every id, whatever the block size: sharing is kept, lengths are not"]
    if left:
        notes.append(f"{left:,} requests have no known time, output or prompt and are left out")
    return Written(
        count, notes,
        [
            f"python -m sglang.bench_serving --backend sglang --dataset-name mooncake --dataset-path {path} "
            "--mooncake-workload mooncake --use-trace-timestamps"
        ],
    )  # fmt: skip
