"""How often planted causes are found again on seeds of one's own: precision and recall by kind, lost tokens. By hand.

    python -m tests.benchmarks.planted FIRST_SEED [ROUNDS] [--logged] [--harness]

Each round plants into generated sessions with the first two planters, every third into real ones, every tenth into
sessions of block ids; or with the third one into generated sessions and public conversations, without the rows that it
sets aside as arguable (`--harness`). Rates and mixes of kinds vary from round to round.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.planted import planted, planted_prompts
from tests.planted.harness import planter as harness_planter
from tests.planted.harness.planter import Harnessed
from tests.planted.harness.sessions import real as public
from tests.planted.planted_mixes import mix
from tests.planted.planted_score import found_labels, score
from tests.traces.divergence.test_planted import SFT, real_lengths
from traces.text.tokens import load_tokenizer


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


def harness_rounds(first: int, count: int) -> Iterator[tuple[str, Harnessed, str]]:
    """(set, what the third planter planted, tokenizer) of every dataset."""
    for seed in range(first, first + count):
        tokenizer = ("bytes", "o200k_base")[seed % 2]
        yield "harness towers", harness_planter.plant(seed, "tower", tokenizer), tokenizer
        if public():
            yield "harness real", harness_planter.plant(seed, "real", tokenizer), tokenizer


def logged(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prompts as calls that a gateway logged, with the provider's count of each (by o200k_base, 4 a message)."""
    count = load_tokenizer().count
    calls = []
    for at, row in enumerate(rows):
        body = {key: row[key] for key in ("messages", "tools", "system", "prompt") if row.get(key)}
        texts = [json.dumps(tool) for tool in body.get("tools", [])]
        for told in (body.get("system"), body.get("prompt"), *(m.get("content") for m in body.get("messages", []))):
            texts.append(told if isinstance(told, str) else json.dumps(told) if told else "")
        tokens = sum(map(count, texts)) + 4 * len(body.get("messages", [])) + 3
        answer = {
            "id": f"call-{at}", "object": "chat.completion", "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ""}}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5},
        }  # fmt: skip
        headers, sent = {"x-session-id": str(row["session_id"])}, {**body, "model": "m"}
        # named, for the messages of another API alone would not tell whose call it is
        to = {"method": "POST", "uri": "https://api.openai.com/v1/chat/completions", "headers": headers}
        calls.append({**to, "request": sent, "timestamp": 1767225600 + at, "response": answer})
    return calls


def measured(first: int, count: int, as_logged: bool = False, harness: bool = False) -> dict[str, Set]:
    """Plant, ingest and diagnose; as calls with a provider's counts there are no lost tokens to compare."""
    sets: dict[str, Set] = defaultdict(lambda: Set([], [], []))
    for name, drawn, tokenizer in harness_rounds(first, count) if harness else rounds(first, count):
        made, harnessed = (drawn.made, drawn) if isinstance(drawn, Harnessed) else (drawn, None)
        if as_logged:
            if tokenizer:
                with tempfile.TemporaryDirectory() as folder:
                    labels, _ = found_labels(logged(made.rows), Path(folder), "o200k_base")
                truth, labels = harnessed.scored(labels) if harnessed else (made.truth, labels)
                sets[name].truth.extend(truth)
                sets[name].labels.extend(labels)
            continue
        with tempfile.TemporaryDirectory() as folder:
            labels, lost = found_labels(made.rows, Path(folder), tokenizer or "bytes", by_transition=not tokenizer)
        if not tokenizer:
            want = planted.lost_hash_tokens(made.rows)
        elif harnessed:
            want = harnessed.lost
        elif name in ("towers", "real"):
            want = planted.lost_tokens(made.rows, load_tokenizer(tokenizer).encode)
        else:
            want = planted_prompts.lost_tokens(made.rows, tokenizer)
        truth, labels = harnessed.scored(labels) if harnessed else (made.truth, labels)
        sets[name].truth.extend(truth)
        sets[name].labels.extend(labels)
        sets[name].lost_wrong.append(lost != want)
    return sets


def main() -> None:
    """Print a table by kind, and what was taken for what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first_seed", type=int)
    parser.add_argument("rounds", type=int, nargs="?", default=10)
    parser.add_argument("--logged", action="store_true", help="as logged calls whose lengths are a provider's counts")
    parser.add_argument("--harness", action="store_true", help="what the third planter plants")
    asked = parser.parse_args()
    sets = measured(asked.first_seed, asked.rounds, asked.logged, asked.harness)
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
