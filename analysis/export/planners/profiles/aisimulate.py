"""AISimulate YAML: synthetic sessions with shared prefixes under a load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.export.planners import Written
from analysis.export.planners.profiles.figures import Profile, concurrency, need, session_rate, whole, write_yaml


def write(profile: Profile, path: Path) -> Written:
    """Write traffic, engine and stop of a prediction; model and hardware are placeholders."""
    turns, output, first = need(profile, "turns"), need(profile, "output_tokens"), need(profile, "first_input_tokens")
    added = profile["overall"]["added_tokens_per_turn"] or profile["overall"]["input_tokens"]
    layers = profile["prefix_layers"]
    mean_turns = whole(turns["mean"], 1)
    gap = profile["overall"]["gap_s"]["all"]
    notes = []
    if mean_turns >= 2:
        shared = layers["global_tokens"] if layers else 0
        # one length for all turns, chosen so that the last prompt of a session has the sample's mean length
        per_turn = (first["mean"] + (mean_turns - 1) * added["mean"]) / mean_turns
        source: dict[str, Any] = {
            "type": "synthetic-session",
            "new_input_tokens_per_turn": whole(per_turn, 1),
            "output_tokens_per_turn": whole(output["mean"], 1),
            "session": {
                "turns": mean_turns,
                "shared_prefix_ratio": round(min(1.0, shared / per_turn), 4) if shared else 0.0,
                "prefix_groups": max(1, layers["groups"]) if layers else 1,
                "inter_turn_delay_ms": 0 if gap is None else whole(1000 * gap["mean"]),
            },
        }
        notes.append(
            "every session has the mean number of turns and every turn the mean growth; no compactions, no edits"
        )
    else:
        isl = profile["overall"]["input_tokens"]
        cached = profile["overall"]["cached"]["ceiling_tokens"]
        source = {
            "type": "synthetic",
            "input_tokens": whole(isl["mean"], 1),
            "output_tokens": whole(output["mean"], 1),
            "cached_prefix_tokens": min(whole(cached["mean"] if cached else 0), whole(isl["mean"], 1) - 1),
        }
    starts, running = session_rate(profile), concurrency(profile)
    sessions = max(10, min(200, profile["coverage"]["main_sessions"]))
    if starts is not None and mean_turns >= 2:
        load: dict[str, Any] = {"type": "poisson", "sessions_per_second": round(starts, 6)}
    elif profile["arrivals"] is not None and profile["arrivals"]["requests_per_s"] and mean_turns < 2:
        load = {"type": "poisson", "requests_per_second": round(profile["arrivals"]["requests_per_s"], 6)}
    else:
        load = {"type": "concurrency", "concurrency": running or 8}
        notes.append("the rate is unknown (name an arrival model), so the load is a concurrency")
    document = {
        "traffic": {
            "source": source,
            "load": load,
            "stop": {"sessions" if mean_turns >= 2 else "requests": sessions},
        },
        "engine": {"model": "Qwen/Qwen3-32B", "hardware": "h200_sxm", "backend": "vllm", "mode": "aggregated",
                   "workers": {"aggregated": {"parallelism": {"replicas": 1, "tensor": 8}}}},
    }  # fmt: skip
    longest = profile["overall"]["context_max_tokens"]
    notes.append(
        f"model and hardware are placeholders; the longest prompt has {longest:,} tokens, the model must hold that"
    )
    return write_yaml(path, document, notes, [f"aisimulate predict -c {path} --stack dynamo"])
