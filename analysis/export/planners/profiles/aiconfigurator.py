"""aiconfigurator: command lines per ISL/OSL/prefix bucket. `--prefix` counts cached tokens of the ISL, no ratio."""

from __future__ import annotations

from pathlib import Path

from analysis.export.planners import Written
from analysis.export.planners.profiles.figures import Profile, concurrency, need, rate, whole, write_text


def write(profile: Profile, path: Path) -> Written:
    """Write a shell script: `default` and `recommend` for each bucket, with the bucket's share of the rate."""
    need(profile, "output_tokens")
    per_second, running = rate(profile), concurrency(profile)
    lines = ["#!/bin/sh", "# MODEL, SYSTEM and GPUS are yours to set; each bucket has its share of the requests.",
             'MODEL="${MODEL:?}" SYSTEM="${SYSTEM:-h200_sxm}" GPUS="${GPUS:-8}"']  # fmt: skip
    notes = []
    where = '--model-path "$MODEL" --system "$SYSTEM"'
    for number, bucket in enumerate(profile["overall"]["buckets"], 1):
        isl, osl = whole(bucket["isl"], 1), whole(bucket["osl"], 1)
        prefix = min(whole(bucket["prefix"]), isl - 1)
        lengths = f"--isl {isl} --osl {osl} --prefix {prefix}"
        lines.append(
            f"# bucket {number}: {100 * bucket['weight']:.1f} % of requests, {bucket['from']}-{bucket['to']} tokens"
        )
        lines.append(f'aiconfigurator cli default {where} --total-gpus "$GPUS" {lengths}')
        if per_second is not None:
            share = per_second * bucket["weight"]
            lines.append(f"aiconfigurator cli recommend {where} {lengths} --target-request-rate {share:.6g}")
        elif running is not None:
            lines.append(
                f"aiconfigurator cli recommend {where} {lengths} "
                f"--target-concurrency {max(1, round(running * bucket['weight']))}"
            )
    if per_second is None:
        notes.append("the rate is unknown (name an arrival model), so there is no recommend line with a target rate")
    notes.append("prefix is what an unbounded cache would hold: a finite one holds less (tracetower curve)")
    return write_text(path, "\n".join(lines) + "\n", notes, [f"MODEL=Qwen/Qwen3-32B sh {path}"])._replace(
        records=len(profile["overall"]["buckets"])
    )
