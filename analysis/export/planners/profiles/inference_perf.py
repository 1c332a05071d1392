"""inference-perf YAML (conversation_replay), also as a workload profile of llm-d-benchmark."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from analysis.export.planners import Written
from analysis.export.planners.profiles.figures import Profile, concurrency, deviation, need, whole, write_yaml

CONVERSATIONS = 200


def write(profile: Profile, path: Path) -> Written:
    """Write a configuration with conversation_replay data and a concurrent load."""
    document, notes = _document(profile)
    return write_yaml(path, document, notes, [f"inference-perf --config_file {path}"])


def write_llm_d(profile: Profile, path: Path) -> Written:
    """Write the same with llm-d-benchmark's placeholders for model, tokenizer and endpoint."""
    document, notes = _document(profile)
    document["server"] |= {
        "model_name": "REPLACE_ENV_LLMDBENCH_DEPLOY_CURRENT_MODEL",
        "base_url": "REPLACE_ENV_LLMDBENCH_HARNESS_STACK_ENDPOINT_URL",
    }
    document["tokenizer"] = {"pretrained_model_name_or_path": "REPLACE_ENV_LLMDBENCH_DEPLOY_CURRENT_TOKENIZER"}
    return write_yaml(
        path, document, notes, [f"cp {path} workload/profiles/inference-perf/tracetower.yaml.in   # in llm-d-benchmark"]
    )


def _document(profile: Profile) -> tuple[dict[str, Any], list[str]]:
    output, turns, first = need(profile, "output_tokens"), need(profile, "turns"), need(profile, "first_input_tokens")
    added = profile["overall"]["added_tokens_per_turn"] or profile["overall"]["input_tokens"]
    layers = profile["prefix_layers"]
    shared = layers["global_tokens"] if layers else 0
    own = {name: max(0.0, first[name] - shared) for name in ("mean", "p50", "min", "max")}
    longest = profile["overall"]["context_max_tokens"]
    replay: dict[str, Any] = {
        "seed": 42,
        "num_conversations": CONVERSATIONS,
        "shared_system_prompt_len": shared,
        "dynamic_system_prompt_len": _distribution(own),
        "turns_per_conversation": _distribution(turns),
        "input_tokens_per_turn": _distribution(added),
        "output_tokens_per_turn": _distribution(output),
        "max_model_len": longest + whole(output["max"], 1),
    }
    gap = profile["overall"]["gap_s"]["tool"] or profile["overall"]["gap_s"]["all"]
    if gap is not None and gap["mean"] > 0:
        replay["tool_call_latency_sec"] = _distribution({**gap, "min": max(0.0, gap["min"])})
    requests = max(CONVERSATIONS, round(CONVERSATIONS * turns["mean"]))
    document = {
        "api": {"type": "chat", "streaming": True},
        "data": {"type": "conversation_replay", "conversation_replay": replay},
        "load": {
            "type": "concurrent",
            "stages": [{"num_requests": requests, "concurrency_level": concurrency(profile) or 8}],
        },
        "server": {"type": "vllm", "model_name": "MODEL", "base_url": "http://localhost:8000"},
        "tokenizer": {"pretrained_model_name_or_path": "MODEL"},
    }
    notes = ["lengths are lognormal with the sample's mean and median; compactions and edits have no place in it"]
    return document, notes


def _distribution(figures: dict[str, Any]) -> dict[str, Any]:
    """A lognormal with the sample's mean and median inside its range; fixed where there is no spread."""
    spread = deviation(figures)
    mean = round(max(figures["mean"], 0.001), 3)
    if spread == 0:
        return {"type": "fixed", "mean": mean, "std_dev": 0, "min": 0, "max": math.ceil(figures["max"])}
    return {
        "type": "lognormal", "mean": mean, "std_dev": round(spread, 3), "min": math.floor(figures["min"]),
        "max": math.ceil(figures["max"]),
    }  # fmt: skip
