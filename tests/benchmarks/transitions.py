"""How well transitions are told from prompts alone: precision and recall against labels. Run by hand.

    python -m tests.benchmarks.transitions TRACES

TRACES: the folder of sample traces. First table: what the real files mark themselves, read by
`tests.references.transition_labels` (nothing of the readers or the tree). Second: real conversations with planted
transitions.
Every mark is hidden from the diagnosis: sub-agents are in the session that started them, no compaction flags, no head
lengths, no roles. Intervals are Wilson's, of 95 %; calls of one session are not independent, so they are narrow.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.kernel.chains import STEPS, chain_steps
from analysis.kernel.families import family_codes
from analysis.kernel.transitions import KINDS, transitions
from analysis.store.facts import Loaded
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from analysis.why.transition_losses import detailed
from tests.planted.transition_plants import Planter, conversations
from tests.references.transition_labels import claude_code, codex_labels, pi, weka
from traces.intake.ingest import ingest

Pair = tuple[str, str]
"""A label and what was told."""


def hidden(loaded: Loaded, arrived: Any) -> tuple[list[str], list[str]]:
    """Transitions and chain steps with every mark hidden: families are one session."""
    family = family_codes(loaded)
    heads = np.full(int(family.max(initial=-1)) + 1, -1, np.int64)
    r = loaded.requests
    found = transitions(
        loaded.tree.parent, loaded.tree.start, loaded.tree.end, loaded.paths, loaded.leaf, arrived.order, family,
        loaded.native, arrived.arrival_s, r["duration_s"].fill_null(np.nan).to_numpy(),
        np.zeros(r.height, np.bool_), heads,
    )  # fmt: skip
    prefix = r["prefix_tokens"].fill_null(0).to_numpy()
    steps = chain_steps(
        prefix, family, arrived.order, found.previous_row, found.deepest_row, found.deepest_shared_tokens,
        np.where(loaded.native == 1, 16, loaded.native),
    )  # fmt: skip
    names = [KINDS[code] if code >= 0 else "unknown" for code in found.code]
    return names, [STEPS[step] if step >= 0 else "unknown" for step in steps]


def told(transition: str, step: str) -> str:
    """The class that prefixes alone give."""
    if step == "start":
        return "session start"
    if transition == "retry":
        return "retry"
    if step == "new_chain" and transition not in ("fork", "rewind"):
        return "sub-agent start"
    if step == "continue":
        return "append"
    return transition.replace("_", " ")


def merged(pairs: Iterable[Pair]) -> list[Pair]:
    """Forks and rewinds as one class, for labels that do not say when an answer ended."""
    one = {"fork": "fork or rewind", "rewind": "fork or rewind"}
    return [(label, one.get(guess, guess)) for label, guess in pairs]


def opened(path: Path, scratch: Path) -> Warehouse:
    """The file or folder, ingested into a new dataset."""
    dataset = scratch / f"{len(list(scratch.iterdir()))}"
    ingest([str(path)], dataset)
    return open_dataset(dataset)


def diagnosis(warehouse: Warehouse) -> list[str]:
    """What is told of each request row, marks hidden; "unknown" without a prompt."""
    found = hidden(warehouse.loaded(), warehouse.arrived(Question().arrivals))
    return ["unknown" if "unknown" in (kind, step) else told(kind, step) for kind, step in zip(*found, strict=True)]


def marked_pairs(path: Path, scratch: Path) -> list[Pair]:
    """(label, told) of the calls of one file that have both."""
    warehouse = opened(path, scratch)
    requests = warehouse.loaded().requests
    source = requests["source"][0] if requests.height else ""
    guesses = diagnosis(warehouse)
    records = requests["record_ordinal"].to_list()
    labels: list[str | None]
    if source == "weka":
        by_call: dict[tuple[Any, Any], list[str]] = {}
        for size, out, label in weka(path):
            by_call.setdefault((size, out), []).append(label)
        calls = zip(requests["input_tokens"].to_list(), requests["output_tokens"].to_list(), strict=True)
        named = [by_call.get(call, []) for call in calls]
        labels = [names[0] if len(set(names)) == 1 else None for names in named]
    else:
        if source == "codex":
            found = codex_labels(path, records)
        else:
            found = {"claude_code": claude_code, "pi": pi}[source](path)
        labels = [found.get(record) for record in records]
    return merged((label, guess) for label, guess in zip(labels, guesses, strict=True) if label and guess != "unknown")


def planted_pairs(
    paths: Sequence[Path], seed: int, sessions: int, scratch: Path, rate: float = 0.15
) -> tuple[list[Pair], list[Pair]]:
    """(label, told) of every call of sessions planted into the conversations of `paths`: from prefixes alone, and as
    the product tells it, which reads roles and texts too."""
    planter = Planter(conversations(list(paths)), seed)
    for number in range(sessions):
        planter.session(f"s{number}", rate)
    file = scratch / f"planted{seed}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row, _ in planter.rows), "utf-8")
    warehouse = opened(file, scratch)
    detail = detailed(warehouse).to_list()
    guesses = diagnosis(warehouse)
    found, read = [], []
    for record, fine, guess in zip(warehouse.loaded().requests["record_ordinal"], detail, guesses, strict=True):
        if fine in ("warm_start", "cold_start", "side_request", "model_switch"):
            guess = fine.replace("_", " ")
        label = planter.rows[record - 1][1]
        found.append((label, guess))
        fine = {"parallel_chain": "append"}.get(fine or "unknown", fine or "unknown")  # to the other conversation
        # a session of one source without a parent: only prefixes say that a chain is new
        read.append((label, guess if guess == "sub-agent start" else fine.replace("_", " ")))
    return found, read


def wilson(right: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927); 0 to 1 where there is nothing to share."""
    if not of:
        return 0.0, 1.0
    z = 1.959964
    share, spread = right / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / of + spread / of / 4) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def table(pairs: Sequence[Pair]) -> list[tuple[str, int, int, int]]:
    """(class, labelled, told, right) of every class that is labelled or told."""
    labelled, named = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    right = Counter(a for a, b in pairs if a == b)
    return [(name, labelled[name], named[name], right[name]) for name in sorted(set(labelled) | set(named))]


def show(title: str, pairs: Sequence[Pair]) -> None:
    """Print a table of precision and recall, and what was told wrongly."""
    print(f"\n{title}: {len(pairs):,} calls\n\n| class | labelled | told | precision | recall |\n|---|---|---|---|---|")
    for name, labelled, named, right in table(pairs):
        cells = []
        for of in (named, labelled):
            low, high = wilson(right, of)
            cells.append(f"{right / of:.3f} ({low:.2f}-{high:.2f})" if of else "-")
        print(f"| {name} | {labelled:,} | {named:,} | {' | '.join(cells)} |")
    wrong = Counter((a, b) for a, b in pairs if a != b)
    for (label, guess), count in wrong.most_common(12):
        print(f"  {label} told as {guess}: {count}")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = {"Claude Code": "claude_code", "pi": "pi_session", "Codex": "codex", "Weka": "kv_cache_tester_100"}
        every: list[Pair] = []
        for title, folder in folders.items():
            pairs: list[Pair] = []
            for path in sorted((asked.traces / folder).rglob("*.json*")):
                try:
                    pairs += marked_pairs(path, Path(scratch))
                except (KeyError, ValueError) as reason:
                    print(f"left out {path.name}: {reason!r}")
            show(title, pairs)
            every += pairs
        show("All real files, their own marks", every)
        sources = [asked.traces / "openai_messages_sft" / "swesmith_ft_xml.head2.jsonl"]
        sources += sorted((asked.traces / "claude_code" / "sniffly").glob("[bd]*.jsonl"))
        planted: list[Pair] = []
        read: list[Pair] = []
        for seed in range(asked.seeds):
            blind, sharp = planted_pairs(sources, seed, 80, Path(scratch))
            planted += blind
            read += sharp
        show("Planted in real conversations, told from prefixes alone", planted)
        show("Planted in real conversations, roles and texts read", read)


if __name__ == "__main__":
    main()
