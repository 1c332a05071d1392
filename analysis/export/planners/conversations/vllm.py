"""vLLM's benchmarks: conversations for the multi-turn benchmark and prompts for `bench serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.export.planners import Written
from analysis.export.planners.conversations import filler
from analysis.export.planners.conversations.chains import Chains
from analysis.export.planners.conversations.conversations import answer, conversations, words
from analysis.export.planners.output import new_file, write_lines
from analysis.export.planners.profiles.figures import Profile, need, whole, write_text
from analysis.export.rows import ExportSelection

PLACEHOLDER = "text is made of common words, about a token each: lengths are close, not exact, in your tokenizer"


def write_conversations(out: ExportSelection, path: Path) -> Written:
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
        [
            *chains.notes(),
            PLACEHOLDER,
            "the benchmark keeps no times: a conversation starts when one of its clients is free",
        ],
        [f"python benchmark_serving_multi_turn.py --model MODEL --input-file {path} --num-clients 8"],
    )


def write_custom(out: ExportSelection, path: Path) -> Written:
    """Write one whole prompt per line, in arrival order; prompts share text where they share blocks."""
    count = write_lines(
        path, ({"prompt": filler.prompt_of(out, row), "output_tokens": row.output} for row in out.rows())
    )
    short = out.frame["output"].null_count()
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


def write_generation(profile: Profile, path: Path) -> Written:
    """Write a generate_conversations configuration. TEXT.txt is a placeholder for the user's own text."""
    turns, output, first = need(profile, "turns"), need(profile, "output_tokens"), need(profile, "first_input_tokens")
    added = profile["overall"]["added_tokens_per_turn"] or first
    layers = profile["prefix_layers"]
    shared = layers["global_tokens"] if layers else 0
    own = {k: max(1.0, first[k] - shared) for k in ("mean", "p50", "max")}
    both = {"mean": 2 * turns["mean"], "p50": 2 * turns["p50"], "max": 2 * turns["max"]}
    prompt: dict[str, Any] = {
        "num_turns": _distribution(both, 2),
        "prefix_num_tokens": _distribution(own, 1),
        "num_tokens": _distribution(added, 1),
    }
    if shared:
        prompt["common_prefix_num_tokens"] = {"distribution": "constant", "value": shared}
    document = {
        "filetype": "generate_conversations",
        "num_conversations": max(1, profile["coverage"]["main_sessions"]),
        "text_files": ["TEXT.txt"],
        "print_stats": False,
        "prompt_input": prompt,
        "prompt_output": {"num_tokens": _distribution(output, 1)},
    }
    notes = [
        "num_turns counts user and assistant messages, so it is twice the turns",
        "name your own text in text_files; compactions, edits and times have no place in this format",
    ]
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    return write_text(
        path, text, notes, [f"python benchmark_serving_multi_turn.py --model MODEL --input-file {path} --num-clients 8"]
    )


def _distribution(figures: dict[str, Any], least: int) -> dict[str, Any]:
    """A lognormal by average and median ratio, or a constant where the mean is not above the median."""
    mean, median = max(figures["mean"], least), max(figures["p50"], least)
    if mean <= median:
        return {"distribution": "constant", "value": whole(mean, least)}
    ratio = min(0.999, max(0.001, median / mean))
    return {
        "distribution": "lognormal", "average": whole(mean, least), "median_ratio": round(ratio, 4),
        "max": whole(figures["max"], whole(mean, least)),
    }  # fmt: skip
