"""Replays of the page: each made once per dataset, question and cell, with a progress bar while they run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from app.views.fleet import choices

if TYPE_CHECKING:
    from analysis.fleet.routed_trace import Routed
    from analysis.fleet.routing import Cell
    from analysis.fleet.summary import Ran
    from app.visit.question import Asked


class Run(NamedTuple):
    """A finished grid: its cells, seeds last, and what each did."""

    settings: choices.Settings
    cells: list[Cell]
    ran: list[Ran]

    @property
    def rows(self) -> list[dict[str, object]]:
        """Figures by cell, with the requested seed."""
        return [{**ran.figures, "seed": cell.seed} for cell, ran in zip(self.cells, self.ran, strict=True)]


def routed_of(asked: Asked) -> Routed:
    """The trace as replicas are sent it.

    Raises:
        analysis.store.question.BadQuestion, analysis.store.question.NeedsArrivals: as
        `analysis.fleet.routed_trace.routed_trace`.
    """
    from analysis.fleet.routed_trace import routed_trace

    return asked.desk.answer(f"routed {asked.question!r}", lambda: routed_trace(asked.desk.warehouse, asked.question))


def run(asked: Asked, routed: Routed, settings: choices.Settings) -> Run:
    """Replay the requested cells whose figures are not known yet.

    Raises:
        ValueError: what the form's reading or the replay refuses.
    """
    from analysis.fleet.grid import alike
    from analysis.fleet.summary import run_cell

    cells = choices.cells(settings, routed)
    keys = [f"fleet {asked.question!r} {alike(cell)!r}" for cell in cells]
    missing = {key: alike(cell) for key, cell in zip(keys, cells, strict=True) if not asked.desk.answered(key)}
    if missing:
        bar = st.progress(0.0, "Replaying")
        # threads, for the kernel leaves Python's lock; a pool of processes would start this app's script in each
        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(missing))) as pool:
            tasks = {key: pool.submit(run_cell, routed.trace, cell) for key, cell in missing.items()}
            try:
                for k, (key, cell) in enumerate(missing.items()):
                    first = " · a machine's first replay also compiles: about half a minute, once" if k == 0 else ""
                    bar.progress(
                        k / len(missing), f"{cell.policy}, {cell.replicas} replicas ({k + 1} of {len(missing)}){first}"
                    )
                    asked.desk.answer(key, tasks[key].result)
            finally:
                for task in tasks.values():
                    task.cancel()
        bar.empty()
    ran = [
        asked.desk.answer(key, partial(run_cell, routed.trace, alike(cell)))
        for key, cell in zip(keys, cells, strict=True)
    ]
    return Run(settings, cells, ran)


def durations_known(asked: Asked) -> bool:
    """Whether any request's duration is recorded."""
    return asked.desk.answer(
        "durations known",
        lambda: asked.desk.warehouse.dataset.read("requests", ["duration_s"])["duration_s"].count() > 0,
    )
