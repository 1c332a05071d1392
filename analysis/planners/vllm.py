"""vLLM's benchmarks: conversations for the multi-turn benchmark and prompts for `bench serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.outgoing import Outgoing
from analysis.planners import Written, filler
from analysis.planners.chains import Chains
from analysis.planners.conversations import answer, conversations, words
from analysis.planners.output import new_file

PLACEHOLDER = "text is made of common words, about a token each: lengths are close, not exact, in your tokenizer"


def write_conversations(out: Outgoing, path: Path) -> Written:
    """Write a JSON list of {"id", "messages"}: user and assistant in turn."""
    chains = Chains(out.block)
    count = 0
    with new_file(path) as file:
        file.write(b"[")
        for family in conversations(out, chains):
            for conversation in family:
                messages: list[dict[str, str]] = []
                for place, turn in enumerate(conversation.turns):
                    messages.append({"role": "user", "content": words(out, turn, place == 0)})
                    messages.append({"role": "assistant", "content": answer(turn)})
                file.write(b",\n" if count else b"\n")
                file.write(orjson.dumps({"id": conversation.name, "messages": messages}))
                count += 1
        file.write(b"\n]\n")
    return Written(
        count,
        [*chains.notes(), PLACEHOLDER, "the benchmark keeps no times: conversations run as its clients are free"],
        [f"python benchmark_serving_multi_turn.py --model MODEL --input-file {path} --num-clients 8"],
    )


def write_custom(out: Outgoing, path: Path) -> Written:
    """Write one prompt a line, whole prompts in arrival order; prompts share text where they share blocks."""
    count = short = 0
    with new_file(path) as file:
        for row in out.rows():
            ids = out.ids.of(row.leaf) if row.leaf >= 0 else None
            prompt = (
                filler.text(-1 - row.number, row.tokens) if ids is None else filler.prompt(ids, out.block, row.tokens)
            )
            record: dict[str, Any] = {"prompt": prompt, "output_tokens": row.output}
            short += row.output is None
            file.write(
                orjson.dumps({k: v for k, v in record.items() if v is not None}, option=orjson.OPT_APPEND_NEWLINE)
            )
            count += 1
    notes = [PLACEHOLDER, "bench serve keeps no times and no sessions: give a rate with --request-rate"]
    if short:
        notes.append(f"{short:,} requests have no known output: --custom-output-len says how long theirs are")
    return Written(
        count, notes,
        [
            f"vllm bench serve --dataset-name custom --dataset-path {path} --custom-output-len -1 --skip-chat-template "
            "--disable-shuffle --no-oversample --model MODEL"
        ],
    )  # fmt: skip
