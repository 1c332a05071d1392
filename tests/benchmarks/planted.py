"""How often planted causes are found again on seeds of one's own: precision and recall by kind, lost tokens. By hand.

    python -m tests.benchmarks.planted FIRST_SEED [ROUNDS]

Each round plants into generated sessions with both planters, every third into real ones, every tenth into sessions of
block ids; rates and mixes of kinds vary from round to round.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import planted, planted_prompts
from tests.planted_mixes import mix
from tests.planted_score import found_labels, score
from tests.test_planted import SFT, real_lengths
from traces.tokens import load_tokenizer


class Set(NamedTuple):
    """What was planted in some datasets, what was found, and in how many of them lost tokens differ."""

    truth: list[str | None]
    labels: list[str | None]
    lost_wrong: list[bool]


def drawn_rates(rng: random.Random) -> dict[str, float]:
    """Rates by kind: all alike, three of them often, or each its own."""
    rate, how = rng.choice((0.02, 0.05, 0.1, 0.2)), rng.random()
    if how < 0.4:
        return dict.fromkeys(planted.KINDS, rate)
    if how < 0.7:
        often = rng.sample(planted.KINDS, 3)
        return {kind: rate * 4 if kind in often else rate / 4 for kind in planted.KINDS}
    return {kind: rate * rng.uniform(0, 2) for kind in planted.KINDS}


def rounds(first: int, count: int) -> Iterator[tuple[str, planted.Planted, str]]:
    """(set, what was planted, tokenizer) of every dataset."""
    real = [json.loads(line)["messages"] for line in SFT.read_text().splitlines()] if SFT.is_file() else []
    lengths = real_lengths(60)
    for seed in range(first, first + count):
        rng = random.Random(seed)
        tokenizer = rng.choice(("bytes", "o200k_base", "o200k_base"))
        towers = [planted.tower(rng, rng.randint(4, 40)) for _ in range(12)]
        yield "towers", planted.plant(seed, towers, drawn_rates(rng)), tokenizer
        yield "mixes", mix(seed, 10, drawn_rates(rng)), tokenizer
        if real and seed % 3 == 0:
            conversations = [planted.from_messages(messages) for messages in real]
            yield "real", planted.plant(seed, conversations, drawn_rates(rng)), "o200k_base"
            turns = [planted_prompts.turns_of(messages) for messages in real]
            yield "real mixes", mix(seed, 2, drawn_rates(rng), None, turns), "o200k_base"
        if lengths and seed % 10 == 0:
            yield "block ids", planted.plant_hashes(seed, rng.sample(lengths, 20), drawn_rates(rng)), ""


def measured(first: int, count: int) -> dict[str, Set]:
    """Plant, ingest and diagnose."""
    sets: dict[str, Set] = defaultdict(lambda: Set([], [], []))
    for name, made, tokenizer in rounds(first, count):
        with tempfile.TemporaryDirectory() as folder:
            labels, lost = found_labels(made.rows, Path(folder), tokenizer or "bytes", by_transition=not tokenizer)
        if not tokenizer:
            want = planted.lost_hash_tokens(made.rows)
        elif name in ("towers", "real"):
            want = planted.lost_tokens(made.rows, load_tokenizer(tokenizer).encode)
        else:
            want = planted_prompts.lost_tokens(made.rows, tokenizer)
        sets[name].truth.extend(made.truth)
        sets[name].labels.extend(labels)
        sets[name].lost_wrong.append(lost != want)
    return sets


def main() -> None:
    """Print a table by kind, and what was taken for what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first_seed", type=int)
    parser.add_argument("rounds", type=int, nargs="?", default=10)
    asked = parser.parse_args()
    sets = measured(asked.first_seed, asked.rounds)
    truth, labels = [t for s in sets.values() for t in s.truth], [x for s in sets.values() for x in s.labels]
    for name, one in sets.items():
        causes = sum(t is not None for t in one.truth)
        sizes = f"{len(one.lost_wrong)} datasets, {len(one.truth):,} prompts, {causes:,} causes"
        print(f"{name}: {sizes}, lost tokens wrong in {sum(one.lost_wrong)}")
    print("\n| kind | planted | precision | recall |\n|---|---:|---:|---:|")
    for kind, found in score(truth, labels).items():
        print(f"| {kind} | {found.planted:,} | {found.precision:.4f} | {found.recall:.4f} |")
    taken = Counter((t, x) for t, x in zip(truth, labels, strict=True) if t != x)
    print("\n" + ", ".join(f"{t} for {x}: {count}" for (t, x), count in taken.most_common()))


if __name__ == "__main__":
    main()
