"""The report as one page that needs nothing else: figures, tables, definitions."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.widgets.formats import WRITTEN, figure

if TYPE_CHECKING:
    from analysis.findings.finding import Finding

STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 18%, transparent); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .75rem; }
.card { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.card b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.card span { opacity: .75; font-size: .85rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; } dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { opacity: .75; } dd { margin: 0; }
"""

CARDS = (
    ("workload", "requests", "requests"),
    ("workload", "sessions", "sessions, sub-agents included"),
    ("workload", "input_tokens", "input tokens, cached included"),
    ("workload", "output_tokens", "output tokens"),
    ("workload", "input_output_ratio", "input : output"),
    ("hit_rate", "ceiling", "achievable hit rate (ceiling)"),
    ("hit_rate", "reported", "reported hit rate"),
    ("overlap", "reprocessing_factor", "re-processing factor"),
)


def write_html(path: Path, figures: dict[str, Any], found: list[Finding]) -> None:
    """Write `page` to a file."""
    path.write_text(page(figures, found), "utf-8")


def page(figures: dict[str, Any], found: list[Finding]) -> str:
    """The report as a page: findings, then `figures` (analysis.headline.report.report); every text in it is escaped."""
    says = "".join(f"<li>{escape(finding.sentence(WRITTEN))}</li>" for finding in found)
    cards = "".join(
        f'<div class="card"><b>{escape(figure(name, figures[part][name]))}</b><span>{escape(text)}</span></div>'
        for part, name, text in CARDS
    )
    parts = "".join(
        f"<h2>{title}</h2>{_table([{'figure': n, 'value': figure(n, v)} for n, v in figures[part].items()])}"
        for part, title in (("workload", "Workload"), ("overlap", "Overlap"), ("hit_rate", "Hit rate"))
    )
    axes = "".join(f"<h2>By {escape(axis)}</h2>{_table(rows)}" for axis, rows in figures["by"].items())
    means = "".join(
        f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>" for k, v in figures["definition"].items() if v
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Tracetower report</title><style>{STYLE}</style>'
        f'<h1>Workload report</h1><ul>{says}</ul><div class="cards">{cards}</div>{axes}{parts}'
        f"<h2>Definitions</h2><dl>{means}</dl><p>– means unknown.</p></html>\n"
    )


def _table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "<p>Nothing is selected.</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(figure(name, value))}</td>" for name, value in row.items()) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'
