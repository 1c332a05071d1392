"""SGLang's bench_serving: agentic-trace conversations and mooncake rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.export.planners import Written
from analysis.export.planners.conversations.chains import Chains
from analysis.export.planners.conversations.conversations import conversations, words
from analysis.export.planners.conversations.vllm import PLACEHOLDER
from analysis.export.planners.output import milliseconds, new_file, write_lines
from analysis.export.planners.profiles.figures import Profile, concurrency, need, rate, whole, write_text
from analysis.export.rows import ExportSelection


def write_agentic(out: ExportSelection, path: Path) -> Written:
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


def write_mooncake(out: ExportSelection, path: Path) -> Written:
    """Write times, block ids and output lengths in arrival order. Requests that lack one of them are left out."""
    needed = ("arrival_s", "output", "prompt")
    count = write_lines(
        path,
        (
            {
                "timestamp": milliseconds(row.arrival_s),
                "input_length": row.tokens,
                "output_length": row.output,
                "hash_ids": out.block_ids(row),
            }
            for row in out.rows(*needed)
        ),
    )
    notes = [
        "SGLang makes 128 words of every id, whatever the block size: sharing is kept, lengths are not",
        *out.left_out(*needed),
    ]
    return Written(
        count, notes,
        [
            f"python -m sglang.bench_serving --backend sglang --dataset-name mooncake --dataset-path {path} "
            "--mooncake-workload mooncake --use-trace-timestamps"
        ],
    )  # fmt: skip


def write_gsp(profile: Profile, path: Path) -> Written:
    """Write the flags of the generated-shared-prefix dataset as a shell script."""
    turns, output, first = need(profile, "turns"), need(profile, "output_tokens"), need(profile, "first_input_tokens")
    added = profile["overall"]["added_tokens_per_turn"] or first
    layers = profile["prefix_layers"]
    shared = layers["global_tokens"] if layers else 0
    group = whole(layers["group_tokens"]["p50"]) if layers and layers["groups"] else 0
    groups = max(1, layers["groups"]) if layers else 1
    sessions = max(1, profile["coverage"]["main_sessions"])
    flags = [
        f"--gsp-num-groups {groups}",
        f"--gsp-prompts-per-group {max(1, round(sessions / groups))}",
        f"--gsp-system-prompt-len {max(1, shared + group)}",
        f"--gsp-question-len {whole(added['mean'], 1)}",
        f"--gsp-output-len {whole(output['mean'], 1)}",
        f"--gsp-num-turns {whole(turns['mean'], 1)}",
    ]
    alpha = layers["zipf_alpha"] if layers else None
    if alpha:
        flags.append(f"--gsp-group-distribution zipf --gsp-zipf-alpha {alpha:.4g}")
    per_second, running = rate(profile), concurrency(profile)
    if per_second is not None:
        flags.append(f"--request-rate {per_second:.6g}")
    elif running is not None:
        flags.append(f"--max-concurrency {running}")
    lines = [
        "#!/bin/sh",
        "python -m sglang.bench_serving --backend sglang-oai-chat --dataset-name generated-shared-prefix \\",
    ]
    lines += [f"  {flag} \\" for flag in flags] + ['  "$@"']
    notes = ["every question has the mean length: the dataset has no distribution of its own, no times, no compactions"]
    return write_text(path, "\n".join(lines) + "\n", notes, [f"sh {path} --model MODEL"])
