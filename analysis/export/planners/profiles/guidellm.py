"""GuideLLM scenario YAML: synthetic multi-turn text with shared prefixes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.export.planners import Written
from analysis.export.planners.profiles.figures import (
    Profile,
    concurrency,
    deviation,
    need,
    session_rate,
    whole,
    write_yaml,
)


def write(profile: Profile, path: Path) -> Written:
    """Write data and profile of a GuideLLM run; the backend's target is a placeholder."""
    first, output, turns = need(profile, "first_input_tokens"), need(profile, "output_tokens"), need(profile, "turns")
    added = profile["overall"]["added_tokens_per_turn"] or profile["overall"]["input_tokens"]
    layers = profile["prefix_layers"]
    notes = []
    data: dict[str, Any] = {"kind": "synthetic_text", "turns": whole(turns["mean"], 1)}
    data |= _distribution("prompt_tokens", added) | _distribution("output_tokens", output)
    shared = layers["global_tokens"] if layers else 0
    rest = {**first, "mean": max(1.0, first["mean"] - shared), "p50": max(1.0, first["p50"] - shared),
            "max": max(1.0, first["max"] - shared)}  # fmt: skip
    data |= _distribution("first_prompt_tokens", rest)
    if shared:
        data |= {"prefix_count": 1, "prefix_tokens": shared}
    gap = profile["overall"]["gap_s"]["all"]
    if gap is not None and gap["mean"] > 0:
        data["delay"] = round(gap["mean"], 3)
    notes.append(
        f"every conversation has {data['turns']:,} turns, the mean (the sample's p90 is {turns['p90']:,.0f}): GuideLLM "
        "has one number; compactions and edits have no place in it"
    )
    starts = session_rate(profile)
    running = concurrency(profile)
    load: dict[str, Any] = {"kind": "concurrent", "streams": [running or 8]}
    if starts is not None and gap is not None and running is None:
        load = {"kind": "poisson", "rate": [round(starts * turns["mean"], 6)]}
    document = {
        "backend": {"kind": "openai_http", "target": "http://localhost:8000"},
        "profile": load,
        "data": [data],
    }
    return write_yaml(path, document, notes, [f"guidellm run {path} --backend kind=openai_http,target=URL"])


def _distribution(name: str, figures: dict[str, Any]) -> dict[str, int]:
    found = {name: whole(figures["mean"], 1)}
    spread = whole(deviation(figures))
    if spread:
        found |= {f"{name}_stdev": spread, f"{name}_min": 1, f"{name}_max": whole(figures["max"], 1)}
    return found
