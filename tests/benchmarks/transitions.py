"""How well transitions are told from prefixes alone: precision and recall against the sources' own marks. Run by hand.

    python -m tests.benchmarks.transitions FOLDER...

FOLDER: Claude Code or pi sessions (traces/claude_code, traces/pi_session). The labels are what the files say: which
call continues which (parent links), where the history was compacted, which sessions are sub-agents. All of that is
hidden from the diagnosis: sub-agents are in the session that started them, no compaction flags, no head lengths, no
roles.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from analysis.chains import STEPS, chain_steps
from analysis.facts import Loaded
from analysis.families import family_codes
from analysis.question import Question
from analysis.transitions import KINDS, transitions
from analysis.warehouse import open_dataset
from traces.ingest import ingest

REWRITES = ("edit", "system_change", "unrelated", "tail", "compaction")


def hidden(loaded: Loaded, arrived: Any) -> tuple[list[str], list[str]]:
    """Transitions and chain steps with every mark hidden: families are one session."""
    family = family_codes(loaded)
    heads = np.full(int(family.max(initial=-1)) + 1, -1, np.int64)
    r = loaded.requests
    found = transitions(
        loaded.tree.parent, loaded.tree.start, loaded.tree.end, loaded.paths, loaded.leaf, arrived.order, family,
        np.ones(r.height, np.int64), arrived.arrival_s, r["duration_s"].fill_null(np.nan).to_numpy(),
        np.zeros(r.height, np.bool_), heads,
    )  # fmt: skip
    prefix = r["prefix_tokens"].fill_null(0).to_numpy()
    steps = chain_steps(
        prefix, family, arrived.order, found.previous_row, found.deepest_row, found.deepest_shared_tokens,
        np.full(r.height, 16),
    )  # fmt: skip
    names = [KINDS[code] if code >= 0 else "unknown" for code in found.code]
    return names, [STEPS[step] if step >= 0 else "unknown" for step in steps]


def marked(transition: str, subagent: bool) -> str:
    """The class that the files' own marks give."""
    if transition == "first":
        return "sub-agent start" if subagent else "session start"
    if transition in ("append", "retry"):
        return "append"
    return "branch" if transition in ("fork", "rewind") else "compaction or rewrite"


def told(transition: str, step: str) -> str:
    """The class that prefixes alone give."""
    if step == "start":
        return "session start"
    if step == "new_chain":
        return "sub-agent start"
    if step == "continue" or transition in ("append", "retry"):
        return "append"
    if step == "branch":
        return "branch"
    return "compaction or rewrite" if transition in REWRITES else "branch"


def main() -> None:
    """Print a table of precision and recall."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ingest(asked.folders, Path(scratch) / "ds")
        warehouse = open_dataset(Path(scratch) / "ds")
        loaded, arrived = warehouse.loaded(), warehouse.arrived(Question().arrivals)
        marks = warehouse.kinds()["transition"].to_list()
        sub = (loaded.requests["role"] == "subagent").to_list()
        truth, guess = [], []
        for mark, inside, found, step in zip(marks, sub, *hidden(loaded, arrived), strict=True):
            if mark is not None and found != "unknown":
                truth.append(marked(mark, inside))
                guess.append(told(found, step))
        print(f"{len(truth):,} requests; marks hidden")
        print(f"{'class':24}{'labelled':>10}{'precision':>11}{'recall':>9}")
        right = Counter(t for t, g in zip(truth, guess, strict=True) if t == g)
        for name in sorted(set(truth) | set(guess)):
            labelled, named = truth.count(name), guess.count(name)
            precision = right[name] / named if named else float("nan")
            recall = right[name] / labelled if labelled else float("nan")
            print(f"{name:24}{labelled:10,}{precision:11.3f}{recall:9.3f}")
        wrong = Counter((t, g) for t, g in zip(truth, guess, strict=True) if t != g)
        for (t, g), count in wrong.most_common(8):
            print(f"  {t} told as {g}: {count}")


if __name__ == "__main__":
    main()
