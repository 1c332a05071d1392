"""genai-bench: a closed-loop benchmark with one input and output length at a time; one scenario per bucket."""

from __future__ import annotations

from pathlib import Path

from analysis.export.planners import Written
from analysis.export.planners.profiles.figures import Profile, concurrency, deviation, need, whole, write_text


def write(profile: Profile, path: Path) -> Written:
    """Write a shell script: all requests as one normal scenario, then a deterministic one for each bucket."""
    isl, osl = need(profile, "input_tokens"), need(profile, "output_tokens")
    running = concurrency(profile) or 1
    base = f'genai-bench benchmark --task text-to-text --num-concurrency {running} "$@"'
    spread = (
        f"N({whole(isl['mean'], 1)},{whole(deviation(isl), 1)})/({whole(osl['mean'], 1)},{whole(deviation(osl), 1)})"
    )
    lines = ["#!/bin/sh", "# Arguments are passed on: --api-backend, --api-base, --api-model-name, …",
             f'{base} --traffic-scenario "{spread}"']  # fmt: skip
    for bucket in profile["overall"]["buckets"]:
        long, out = whole(bucket["isl"], 1), whole(bucket["osl"], 1)
        prefix = min(whole(bucket["prefix"]), long - 1)
        lines.append(f"# {100 * bucket['weight']:.1f} % of requests")
        lines.append(f'{base} --traffic-scenario "D({long},{out})" --prefix-len {prefix}')
    notes = ["genai-bench has no sessions and no times: its requests run as fast as their answers come"]
    return write_text(path, "\n".join(lines) + "\n", notes, [f"sh {path} --api-base URL --api-model-name MODEL"])
