"""ingest and validate: traces and transcripts into a dataset, or only their receipt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from app.commands.shell.command import BadData, command
from app.commands.shell.options import json_option
from app.commands.shell.progress import IngestProgress
from app.commands.shell.terminal import emit_figures, emit_json, note, say
from app.commands.shell.types import Size

F = TypeVar("F", bound=Callable[..., Any])

LISTED = ("formats", "files", "records", "evidence", "reject_reasons", "rejects", "warnings")
"""Keys of a receipt that are more than one figure."""


def _reading_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--format", "format_name", help="Read inputs as this format (see formats) [detected]."),
            click.option(
                "--map", "mapping", multiple=True, metavar="NAME=COLUMN", help="Read field NAME from this column."
            ),
            click.option("--block-size", type=Size(), help="Tokens per block of hash ids, if the file does not say."),
            click.option(
                "--tokenizer",
                default="o200k_base",
                show_default=True,
                help="o200k_base, cl100k_base, bytes, a tiktoken file or a tokenizer.json.",
            ),
            click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of bare numbers."),
            click.option("--one-trace", is_flag=True, help="All inputs are parts of one trace (one id namespace)."),
            click.option("--strict", is_flag=True, help="Exit 1 for any reject."),
            click.option(
                "--workers",
                type=click.IntRange(1, 256),
                help="Processes that read files [by how much there is to read].",
            ),
            click.option("--executor", default="local", show_default=True, help="local or ray[:ADDRESS]."),
            json_option,
        )
    ):
        command = option(command)
    return command


def _options(options: dict[str, Any]) -> Any:
    from traces.intake.ingest import Options

    mapping = {}
    for text in options["mapping"]:
        name, sign, column = text.partition("=")
        if not sign or not name or not column:
            raise click.UsageError(f"--map {text!r} is not NAME=COLUMN")
        mapping[name] = column
    return Options(
        format=options["format_name"],
        mapping=mapping or None,
        block_tokens=options["block_size"],
        tokenizer=options["tokenizer"],
        time_unit=options["time_unit"],
        one_trace=options["one_trace"],
        keep_excerpts=options.get("keep_excerpts", False),
    )


def _run(inputs: tuple[str, ...], dataset: str | None, options: dict[str, Any]) -> None:
    from analysis.store.executors import executor_for, workers_for
    from traces.dataset.layout import NotADataset
    from traces.intake.ingest import NothingUsable, ingest

    chosen = _options(options)
    try:
        workers = options["workers"] or workers_for(list(inputs))
        with executor_for(options["executor"], workers) as executor:
            wait = not options.get("no_wait", False)
            receipt = ingest(list(inputs), dataset, chosen, IngestProgress(), executor, wait, note)
    except NothingUsable as error:
        _show(error.receipt, options["as_json"])
        raise BadData(str(error)) from None
    except NotADataset:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _show(receipt, options["as_json"])
    unusable = dataset is None and receipt["requests"] == 0
    if unusable or (options["strict"] and _bad(receipt)):
        raise click.exceptions.Exit(1)


def _bad(receipt: dict[str, Any]) -> bool:
    """Whether anything was met that should have been read and was not."""
    return bool(receipt["records"]["rejected"] or receipt["files"]["failed"] or receipt["unrecognised_files"])


def _show(receipt: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(receipt)
        return
    parts = {k: v for k, v in receipt.items() if k not in LISTED}
    formats = ", ".join(f"{n} × {name}" for name, n in receipt["formats"].items()) or "–"
    emit_figures("Receipt", {"formats": formats, **{f"files {k}": v for k, v in receipt["files"].items()},
                             **{f"records {k}": v for k, v in receipt["records"].items()}, **parts})  # fmt: skip
    for row in receipt.get("evidence", ()):
        say(f"  usage of {row['source']}: {row['sentence']}")
    for reject in receipt["rejects"][:20]:
        place = f" line {reject['line']}" if reject["line"] else ""
        note(f"rejected: {reject['file']}{place}: {reject['reason']}")
    if len(receipt["rejects"]) > 20:
        note(f"… and {len(receipt['rejects']) - 20} more listed with --json")
    if len(receipt["reject_reasons"]) > 1 and len(receipt["rejects"]) > 20:
        for reason, count in list(receipt["reject_reasons"].items())[:10]:
            note(f"{count:,} × {reason}")
    for warning in receipt["warnings"]:
        note(f"warning: {warning}")


@command("ingest")
@click.argument("inputs", nargs=-1, required=True)
@click.option("-o", "--output", required=True, type=click.Path(), help="The dataset's folder (made, or appended to).")
@click.option("--keep-excerpts", is_flag=True, help="Also store the changed text of divergences, in private/ only.")
@click.option("--no-wait", is_flag=True, help="Exit 2 where another process writes the dataset, instead of waiting.")
@_reading_options
def ingest_command(inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Read INPUT... (files, folders, .gz, .zst, .zip, - for stdin) into a dataset.

    \b
    Examples:
      tracetower ingest ~/.claude/projects -o mine
      tracetower ingest trace.jsonl --block-size 64 -o trace
      tracetower ingest gateway.csv --map input_tokens=prompt_len -o gateway
      zcat trace.jsonl.gz | tracetower ingest - -o trace
    """
    _run(inputs, output, options)


@command("validate")
@click.argument("inputs", nargs=-1, required=True)
@_reading_options
def validate_command(inputs: tuple[str, ...], **options: Any) -> None:
    """Check INPUT... as ingest does and print the receipt; nothing is written.

    \b
    Example:
      tracetower validate traces/ --strict
    """
    _run(inputs, None, options)
