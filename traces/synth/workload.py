"""Seeded workloads: generates sessions like those that a profile describes, as a dataset.

Prompts grow turn by turn in the prefix tree. They are edited, compacted, rewound and branched as often as in the
profile, start with heads that earlier sessions have, and spawn sub-agents. Requests are written batch by batch; only
the tree (34 bytes per node) and one batch are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from polars.exceptions import PolarsError

from traces.dataset.layout import NotADataset
from traces.dataset.writing import spool_of, writer
from traces.synth.sessions import SessionMaker

BATCH_SESSIONS = 1024


def synthesize(
    profile: dict[str, Any], path: str | Path, sessions: int | None = None, seed: int = 0,
    watch: Callable[[int, int], None] | None = None,
) -> dict[str, int]:  # fmt: skip
    """Make a dataset at `path` of top-level sessions (with their sub-agents) like those of `profile`.

    Args:
        profile: a profile with its generator.
        path: the dataset's folder, which must not exist.
        sessions: number of top-level sessions; None: as many as the profile was made from.
        seed: equal seeds give equal datasets.
        watch: called with (top-level sessions made so far, all of them).

    Returns:
        requests, sessions and prefixes written.

    Raises:
        NotADataset: `path` exists.
        ValueError: the profile has no strata, or fewer than one session is requested.
    """
    target = Path(path)
    if target.exists():
        raise NotADataset(f"{target.name} exists: synth makes a new dataset, name another folder or remove it")
    generator = profile.get("generator")
    if not generator or not any(s["level"] == 0 for s in generator["strata"]):
        raise ValueError("the profile has no sessions to make others like (its generator is empty)")
    wanted = generator["main_sessions"] if sessions is None else sessions
    if wanted < 1:
        raise ValueError("at least one session has to be made")
    with writer(target) as target:
        if target.exists():
            raise NotADataset(f"{target.name} was made by another process meanwhile")
        try:
            return _made(generator, wanted, seed, target, watch)
        except (KeyError, TypeError, IndexError, ValueError, ArithmeticError, PolarsError) as error:
            raise ValueError(f"the profile's generator is damaged ({type(error).__name__}: {error})") from error


def _made(
    generator: dict[str, Any], wanted: int, seed: int, target: Path, watch: Callable[[int, int], None] | None
) -> dict[str, int]:
    scratch = spool_of(target)
    scratch.mkdir(mode=0o700)
    maker = SessionMaker(generator, wanted, seed, scratch)
    made = 0
    while made < wanted:
        count = min(BATCH_SESSIONS, wanted - made)
        maker.batch(count)
        made += count
        if watch is not None:
            watch(made, wanted)
    return maker.write(target)
