"""The command that says where the input tokens went: misses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from analysis.why.causes import ORDER
from app.commands.questions.misses_sections import SECTIONS
from app.commands.questions.printed import finding_rows, print_findings
from app.commands.shell.command import command
from app.commands.shell.options import dataset_argument, json_option, opened, question_of, question_options
from app.commands.shell.rules import needs, only_if
from app.commands.shell.terminal import emit_frame, emit_json, note, say
from app.commands.shell.types import Size
from app.widgets.plain_text import spreadsheet_safe

if TYPE_CHECKING:
    import polars as pl


GROUPS_OF_CAUSES = {"all", "transition_detail"}


def _shows(values: dict[str, object], *sections: str) -> bool:
    """Whether one of the sections is printed."""
    chosen = set(values["shown"] or ("all",))  # type: ignore[call-overload]
    table = values["per_request"] and not values["as_json"]
    return not table and bool(chosen & {"all", *sections})


def _groups_requests(values: dict[str, object]) -> bool:
    """Whether one of the axes groups whole requests, as the section reported does."""
    return bool(set(values["axes"]) - GROUPS_OF_CAUSES)  # type: ignore[call-overload]


CACHE = ("capacity_tokens", "ttl", "replicas", "policy", "insert")

RULES = (
    needs("policy", "replicas"),
    needs("replicas", "policy", says="--replicas needs --policy: which replica serves a request decides what it hits"),
    only_if(("most", "remedy"), lambda v: _shows(v, "sessions"),
            "--most and --remedy choose sessions: they mean nothing unless the section sessions is shown"),
    only_if(("axes",), lambda v: bool(v["as_json"]) or _shows(v, "causes", "reported"),
            "--by groups the sections causes and reported: it means nothing unless one of them is shown"),
    only_if(CACHE, lambda v: bool(v["as_json"] or v["per_request"]) or v["out"] is not None
            or _shows(v, "causes", "sessions", "transitions"),
            "the options of the cache change the sections causes, sessions and transitions: none of them is shown"),
    only_if(("axes",), lambda v: bool(v["as_json"]) or _shows(v, "causes") or _groups_requests(v),
            "--by all and --by transition_detail are axes of the section causes, which is not shown"),
    only_if(("axes",), lambda v: "request" not in v["axes"],  # type: ignore[operator]
            "--by has no axis request: --per-request gives one row per request, and --out writes them to a file"),
    only_if(("shown",), lambda v: not v["per_request"] or bool(v["as_json"]),
            "--per-request prints one table of requests instead of sections: it takes no --show without --json"),
)  # fmt: skip


HELP = f"""Where the input tokens of DATASET went, and what would bring the lost ones back.

Every prefix token counts once, for the first of these that holds. {ORDER}.

Sections: causes (with 95 % intervals), sessions (to look at first, and the tokens by remedy), transitions (in detail,
and what each loses), reported (by the provider, against what was achievable; by model, or by --by), divergences (where
consecutive prompts part), what-ifs (what would change the ceiling), ages (at eviction from an LRU cache).

\b
Examples:
  tracetower misses mine
  tracetower misses mine --by trajectory_type --by transition_detail --show causes
  tracetower misses mine --capacity-tokens 4M --ttl 300 --arrivals staggered:600
  tracetower misses mine --replicas 8 --policy session_hash --capacity-tokens 1M
  tracetower misses mine --show sessions --remedy longer_ttl
  tracetower misses mine --show reported --by session --by day
  tracetower misses mine --per-request --out misses.parquet
"""


@command("misses", *RULES, help=HELP)
@dataset_argument
@click.option("--capacity-tokens", type=Size(), help="Size of the cache, of each replica, in tokens [unbounded].")
@click.option("--ttl", type=click.FloatRange(0), help="Seconds a block outlives its last touch [for ever].")
@click.option("--replicas", type=click.IntRange(1), help="Replicas that --policy chooses from [one cache].")
@click.option("--policy", help="Routing policy; needs --replicas.")
@click.option(
    "--insert",
    type=click.Choice(["arrival", "finish"]),
    default="arrival",
    show_default=True,
    help="When a prompt can be hit: at its arrival, or once it is computed.",
)
@click.option("--by", "axes", multiple=True, help="An axis to group by, or transition_detail (repeatable) [all].")
@click.option(
    "--show",
    "shown",
    multiple=True,
    type=click.Choice([*SECTIONS, "all"]),
    help="A section (repeatable) [all].",
)
@click.option("--most", type=click.IntRange(1), default=50, show_default=True, help="Sessions to list.")
@click.option("--remedy", help="Only sessions that this would bring tokens back to, largest gain first.")
@click.option("--per-request", is_flag=True, help="One row of causes per request (with --json under `requests`).")
@click.option("--out", type=click.Path(dir_okay=False), help="Write them to FILE: .parquet, .csv or .jsonl.")
@question_options
@json_option
def misses_command(
    dataset: str, capacity_tokens: int | None, ttl: float | None, replicas: int | None, policy: str | None,
    insert: str, axes: tuple[str, ...], shown: tuple[str, ...], most: int, remedy: str | None, per_request: bool,
    out: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """The command `misses`."""
    from analysis.findings.kept import findings_of
    from analysis.findings.workload import of_page
    from analysis.headline.bootstrap import METHOD
    from analysis.headline.report import definition
    from analysis.why.caches.cache import Cache
    from analysis.why.detailed_axis import check_miss_axis, grouped_misses
    from analysis.why.divergences import divergences
    from analysis.why.misses import misses
    from app.commands.questions.misses_sections import Asked, answers, show

    _check(remedy, out)
    chosen = tuple(check_miss_axis(axis) for axis in axes) or ("all",)
    question = question_of(options, chosen)
    sections = SECTIONS if not shown or "all" in shown else shown
    warehouse = opened(dataset)
    cache = Cache(capacity_tokens, ttl, replicas, policy, insert)
    missed = misses(warehouse, question, cache)
    by_request = None
    if per_request or out is not None:
        from analysis.why.request_misses import request_misses

        by_request = request_misses(warehouse, question, missed)
    figures: dict[str, Any] = {}
    if as_json or "causes" in sections:
        figures["rows"] = [row for axis in chosen for row in grouped_misses(warehouse, question, missed, axis)]
    if as_json or "divergences" in sections:
        figures["divergences"] = divergences(warehouse, question)
    if not per_request or as_json:
        figures |= answers(Asked(warehouse, question, missed, chosen, most, remedy), sections)
    found = findings_of(warehouse, question, cache=cache) if as_json or sections == SECTIONS else []
    means = definition(warehouse.prepare(question))
    for text in missed.notes:
        note(text)
    if by_request is not None and out is not None:
        _write(by_request, Path(out))
    if as_json:
        from analysis.why.session_losses import REMEDIES

        means |= {"cache": cache._asdict(), "causes": ORDER, "intervals": METHOD}
        means |= {"notes": list(missed.notes), "remedies": REMEDIES}
        requests = {"requests": by_request.to_dicts()} if per_request and by_request is not None else {}
        rows = finding_rows(found, dataset, question)
        emit_json({"definition": means, "findings": rows, **figures, **requests})
    elif not per_request and not (warehouse.loaded().leaf >= 0).any():
        say(NO_PROMPTS)
    elif not per_request:
        if sections == SECTIONS:
            print_findings(of_page(found, "why"))
        show(figures, sections)
    elif by_request is not None and out is None:
        emit_frame(by_request)


NO_PROMPTS = (
    "This trace has no block identity: it says how long prompts are, not what they share, so nothing can be said about "
    "why they miss. That needs block hashes (hash_ids), token ids, or the text of the prompts."
)

_WRITERS = {".parquet": "write_parquet", ".csv": "write_csv", ".jsonl": "write_ndjson"}


def _check(remedy: str | None, out: str | None) -> None:
    from analysis.why.session_losses import REMEDIES

    if remedy is not None and remedy not in REMEDIES:
        raise click.UsageError(f"--remedy: unknown remedy {remedy!r}. Remedies: {', '.join(REMEDIES)}")
    if out is not None and Path(out).suffix not in _WRITERS:
        raise click.UsageError(f"--out {out!r} must end in {', '.join(_WRITERS)}: that says the format")


def _write(frame: pl.DataFrame, path: Path) -> None:
    getattr(spreadsheet_safe(frame) if path.suffix == ".csv" else frame, _WRITERS[path.suffix])(path)
    note(f"{path}: {frame.height:,} requests")
