"""How often planted causes are found again on seeds of one's own: precision and recall by kind, lost tokens. By hand.

    python -m tests.benchmarks.planted FIRST_SEED [ROUNDS] [--logged] [--hard]

Each round plants into generated sessions of every form of prompt, every third round into public conversations too, and
every tenth into sessions of block ids. Rates and mixes of kinds vary from round to round. Rows whose truth is open to
argument are not scored.
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

from tests.planted.hashes import plant_hashes, real_lengths
from tests.planted.planter import plant
from tests.planted.prompts import WRITTEN
from tests.planted.score import KINDS, Planted, found_labels, score
from tests.planted.sessions import STYLES, public
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
        return dict.fromkeys(KINDS, rate)
    if how < 0.7:
        often = rng.sample(KINDS, 3)
        return {kind: rate * 4 if kind in often else rate / 4 for kind in KINDS}
    return {kind: rate * rng.uniform(0, 2) for kind in KINDS}


def rounds(first: int, count: int, hard: bool) -> Iterator[tuple[str, Planted, str]]:
    """(set, what was planted, tokenizer) of every dataset; tokenizer "" where prompts are block ids."""
    conversations, lengths = public(), real_lengths(60)
    for seed in range(first, first + count):
        rng = random.Random(seed)
        tokenizer = rng.choice(("bytes", "o200k_base", "o200k_base"))
        for written in WRITTEN:
            style = rng.choice(STYLES if written == "messages" else ("openai", "text"))
            made = plant(seed, tokenizer, drawn_rates(rng), hard=hard, style=style, written=written)
            yield f"{style} as {written}", made, tokenizer
        if conversations and seed % 3 == 0:
            yield "public", plant(seed, tokenizer, drawn_rates(rng), hard=hard, into=conversations), tokenizer
        if lengths and seed % 10 == 0:
            yield "block ids", plant_hashes(seed, rng.sample(lengths, 20), drawn_rates(rng)), ""


def logged(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prompts as calls that a gateway logged, with the provider's count of each (by o200k_base, 4 a message)."""
    count = load_tokenizer().count
    calls = []
    for at, row in enumerate(rows):
        body = {key: row[key] for key in ("messages", "tools", "system", "prompt") if row.get(key)}
        texts = [json.dumps(tool) for tool in body.get("tools", [])]
        for said in (body.get("system"), body.get("prompt"), *(m.get("content") for m in body.get("messages", []))):
            texts.append(said if isinstance(said, str) else json.dumps(said) if said else "")
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


def measured(first: int, count: int, as_logged: bool = False, hard: bool = False) -> dict[str, Set]:
    """Plant, ingest and diagnose; as calls with a provider's counts there are no lost tokens to compare."""
    sets: dict[str, Set] = defaultdict(lambda: Set([], [], []))
    for name, made, tokenizer in rounds(first, count, hard):
        if as_logged and not tokenizer:
            continue
        rows = logged(made.rows) if as_logged else made.rows
        with tempfile.TemporaryDirectory() as folder:
            labels, lost = found_labels(
                rows, Path(folder), "o200k_base" if as_logged else tokenizer or "bytes", by_transition=not tokenizer
            )
        truth, labels = made.scored(labels)
        sets[name].truth.extend(truth)
        sets[name].labels.extend(labels)
        if not as_logged:
            sets[name].lost_wrong.append(lost != made.lost)
    return sets


def main() -> None:
    """Print a table by kind, and what was taken for what."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first_seed", type=int)
    parser.add_argument("rounds", type=int, nargs="?", default=10)
    parser.add_argument("--logged", action="store_true", help="as logged calls whose lengths are a provider's counts")
    parser.add_argument("--hard", action="store_true", help="harnesses change anything anywhere")
    asked = parser.parse_args()
    sets = measured(asked.first_seed, asked.rounds, asked.logged, asked.hard)
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
