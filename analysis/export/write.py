"""Writes a dataset, or its profile, for a planner or load generator."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from analysis.export.planners import Written, target, writer
from analysis.export.selection import Scaling, export_selection
from analysis.store.question import BadQuestion
from analysis.store.warehouse import Warehouse


def export(
    warehouse: Warehouse, to: str, path: Path, block_size: int | None = None, scaling: Scaling | None = None
) -> Written:
    """Write the target `to` at `path`, completely or not at all.

    Args:
        warehouse: of the dataset.
        to: a name of `analysis.export.planners.TARGETS`.
        path: a file, or for weka a folder.
        block_size: tokens per block; None: the target's own, else the dataset's largest native block.
        scaling: how the exported trace differs from the dataset.

    Raises:
        BadQuestion: the target cannot express the dataset, or the scaling is invalid.
    """
    found = target(to)
    scaling = scaling or Scaling()
    if found.block is not None and block_size not in (None, found.block):
        raise BadQuestion(f"{to} has blocks of {found.block} tokens, not {block_size}")
    if found.takes == "profile":
        return _of_profile(warehouse, to, path, block_size, scaling)
    out = export_selection(warehouse, found.block or block_size, scaling)
    written = writer(to)(out, path)
    return written._replace(notes=[*out.notes, *written.notes])


def _of_profile(warehouse: Warehouse, to: str, path: Path, block_size: int | None, scaling: Scaling) -> Written:
    """Write a profile target: of the dataset, or of the requests that remain after scaling."""
    from analysis.profile.profile import profile

    if not scaling.chooses():
        return writer(to)(profile(warehouse, block_size, scaling.arrivals), path)
    from analysis.export.subset import subset

    out = export_selection(warehouse, block_size, scaling)
    with TemporaryDirectory() as scratch:
        chosen = subset(warehouse, out, Path(scratch) / "subset")
        try:
            made = profile(chosen, block_size)
        finally:
            chosen.close()
    made["definition"]["arrivals"] = scaling.arrivals
    written = writer(to)(made, path)
    return written._replace(notes=[*out.notes, *written.notes])
