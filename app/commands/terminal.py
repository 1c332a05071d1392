"""Tables and progress for people at a terminal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import polars as pl

    from traces.intake.ingest import Progress


def emit_json(value: Any) -> None:
    """One JSON object on stdout; unknown is null, and no NaN ever."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and value != value:
        return None
    if hasattr(value, "item"):
        return _plain(value.item())
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value


def figure(name: str, value: Any) -> str:
    """A figure as people read it; an en dash where it is unknown."""
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    if isinstance(value, bool | str):
        return str(value)
    if _is_rate(name):
        return f"{100 * value:.2f} %"
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 10 else f"{value:.4g}"


def _is_rate(name: str) -> bool:
    return name.endswith(("_rate", "_coverage")) or name in (
        "ceiling", "ceiling_low", "ceiling_high", "ceiling_mean_per_request", "ceiling_block_weighted",
        "ceiling_with_output", "reported", "gap", "what_if_removed", "what_if_constant", "what_if_moved_to_end",
    )  # fmt: skip


def emit_rows(rows: list[dict[str, Any]], leave_out: tuple[str, ...] = ()) -> None:
    """A table of rows on stdout, columns without any value left out."""
    if not rows:
        click.echo("(nothing)")
        return
    names = [n for n in rows[0] if n not in leave_out and any(r.get(n) is not None for r in rows)]
    cells = [[figure(n, r.get(n)) for n in names] for r in rows]
    widths = [max(len(n), *(len(c[i]) for c in cells)) for i, n in enumerate(names)]
    text = [isinstance(rows[0].get(n), str) for n in names]
    line = "  ".join(n.ljust(w) if t else n.rjust(w) for n, w, t in zip(names, widths, text, strict=True))
    click.echo(line.rstrip())
    click.echo("  ".join("─" * w for w in widths))
    for row in cells:
        line = "  ".join(c.ljust(w) if t else c.rjust(w) for c, w, t in zip(row, widths, text, strict=True))
        click.echo(line.rstrip())


def emit_frame(frame: pl.DataFrame) -> None:
    """A frame as a table on stdout."""
    emit_rows(frame.to_dicts())


def emit_figures(title: str, figures: dict[str, Any]) -> None:
    """Named figures, one a line."""
    click.echo(title)
    width = max((len(n) for n in figures), default=0)
    for name, value in figures.items():
        click.echo(f"  {name.ljust(width)}  {figure(name, value)}")


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
