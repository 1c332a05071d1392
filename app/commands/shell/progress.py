"""Progress of an ingest on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traces.intake.ingest import Progress


class IngestProgress:
    """Shows an ingest on stderr: a line that is rewritten on a terminal, a line every few seconds elsewhere."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.last = 0.0
        self.shown = False

    def __call__(self, progress: Progress) -> None:
        """Show how far it is."""
        p = progress
        megabytes = p.bytes_read / 1e6
        text = f"{p.stage} {p.done}/{p.total} inputs, {p.requests:,} requests, {megabytes:,.0f} MB, {p.seconds:.1f} s"
        if self.terminal:
            share = p.done / p.total if p.total else 1.0
            bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
            end = "\n" if p.stage == "done" else ""
            sys.stderr.write(f"\r\x1b[K{bar} {text}{end}")
            sys.stderr.flush()
        elif p.seconds - self.last > 5 and p.stage != "done":
            self.last = p.seconds
            sys.stderr.write(text + "\n")
