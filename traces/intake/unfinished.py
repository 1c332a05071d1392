"""The state that a killed ingest leaves beside its dataset; the next ingest of the same inputs and options continues
it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from traces.dataset.building.appending import restore
from traces.dataset.building.builder import Builder
from traces.dataset.building.tables import Finished
from traces.dataset.layout import Dataset
from traces.dataset.writing import partial_of, write_generation
from traces.intake.receipt import Tally

SAVE_EVERY_S = 60.0
"""A long ingest keeps what it has read this often, between inputs."""


def save(
    path: Path,
    finished: Finished,
    manifest: dict[str, Any],
    base: str | None,
    plan: str,
    builder: Builder,
    tally: Tally,
) -> None:
    """Keep an unfinished ingest into `path`, which started from the dataset whose key is `base`."""
    resume = {"base": base, "plan": plan, "first_new_row": builder.first_new_row, "tally": tally.state()}
    write_generation(partial_of(path), finished.tables, manifest | {"resume": resume}, finished.private)


def resumed(path: Path, base: str | None, plan: str) -> tuple[Builder, Tally] | None:
    """The builder and the tally of an unfinished ingest into `path`, if it started from `base` with the same `plan`."""
    if not partial_of(path).is_dir():
        return None
    try:
        dataset = Dataset(partial_of(path))
        state = dataset.manifest["resume"]
        if state["base"] != base or state["plan"] != plan:
            return None
        builder = restore(dataset)
    except (ValueError, TypeError, KeyError, OSError):
        return None
    builder.first_new_row = state["first_new_row"]
    return builder, Tally.restored(state["tally"])
