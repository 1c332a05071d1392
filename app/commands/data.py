"""Commands about data: ingest, validate, formats, demo, bundle, app."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from app.commands.options import BadData, Size
from app.commands.terminal import IngestProgress, emit_figures, emit_json, figure

F = TypeVar("F", bound=Callable[..., Any])


def _reading_options(command: F) -> F:
    for option in reversed(
        (
            click.option("--format", "format_name", help="Name of the format, where detection errs (see formats)."),
            click.option("--map", "mapping", multiple=True, metavar="NAME=COLUMN", help="A column's name in a table."),
            click.option("--block-size", type=Size(), help="Native block of hash ids that do not say it."),
            click.option(
                "--tokenizer",
                default="o200k_base",
                show_default=True,
                help="o200k_base, cl100k_base, bytes, a tiktoken file or a tokenizer.json.",
            ),
            click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of bare numbers."),
            click.option("--one-trace", is_flag=True, help="All inputs are parts of one trace (one id namespace)."),
            click.option("--strict", is_flag=True, help="Exit 1 for any reject."),
            click.option("--keep-excerpts", is_flag=True, help="Keep where prompts part as text, in private/ only."),
            click.option(
                "--workers",
                type=click.IntRange(1, 256),
                help="Processes that read files [by how much there is to read].",
            ),
            click.option("--executor", default="local", show_default=True, help="local or ray[:ADDRESS]."),
            click.option("--json", "as_json", is_flag=True, help="The receipt as one JSON object."),
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
        keep_excerpts=options["keep_excerpts"],
    )


def _run(inputs: tuple[str, ...], dataset: str | None, options: dict[str, Any], quiet: bool = False) -> dict[str, Any]:
    from analysis.store.executors import executor_for, workers_for
    from traces.dataset.layout import NotADataset
    from traces.intake.ingest import NothingUsable, ingest

    chosen = _options(options)
    try:
        workers = options["workers"] or workers_for(list(inputs))
        with executor_for(options["executor"], workers) as executor:
            receipt = ingest(list(inputs), dataset, chosen, None if quiet else IngestProgress(), executor)
    except NothingUsable as error:
        receipt = error.receipt
        _show(receipt, options["as_json"])
        raise BadData(str(error)) from None
    except NotADataset as error:
        raise BadData(str(error)) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    _show(receipt, options["as_json"])
    unusable = dataset is None and receipt["requests"] == 0
    if unusable or (options["strict"] and (receipt["records"]["rejected"] or receipt["files"]["failed"])):
        raise SystemExit(1)
    return receipt


def _show(receipt: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(receipt)
        return
    parts = {k: v for k, v in receipt.items() if k not in ("rejects", "warnings", "files", "records", "formats")}
    formats = ", ".join(f"{n} × {name}" for name, n in receipt["formats"].items()) or "–"
    emit_figures("Receipt", {"formats": formats, **{f"files {k}": v for k, v in receipt["files"].items()},
                             **{f"records {k}": v for k, v in receipt["records"].items()}, **parts})  # fmt: skip
    for reject in receipt["rejects"][:20]:
        place = f" line {reject['line']}" if reject["line"] else ""
        click.echo(f"rejected: {reject['file']}{place}: {reject['reason']}", err=True)
    if len(receipt["rejects"]) > 20:
        click.echo(f"… and {len(receipt['rejects']) - 20} more listed with --json", err=True)
    for warning in receipt["warnings"]:
        click.echo(f"warning: {warning}", err=True)


@click.command("ingest")
@click.argument("inputs", nargs=-1, required=True)
@click.option("-o", "--output", required=True, type=click.Path(), help="The dataset's folder (made, or appended to).")
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


@click.command("validate")
@click.argument("inputs", nargs=-1, required=True)
@_reading_options
def validate_command(inputs: tuple[str, ...], **options: Any) -> None:
    """Check INPUT... as ingest does and print the receipt; nothing is written.

    \b
    Example:
      tracetower validate traces/ --strict
    """
    _run(inputs, None, options)


@click.command("formats")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def formats_command(as_json: bool) -> None:
    """List every format: what it carries, and what can be computed from it.

    \b
    Example:
      tracetower formats
    """
    from traces.intake.registry import READERS, reader

    found = {name: dict(reader(name).SUMMARY) for name in READERS}
    if as_json:
        emit_json(found)
        return
    for name, summary in found.items():
        click.echo(name)
        for part, text in summary.items():
            click.echo(click.wrap_text(f"{part}: {text}", 110, "    ", "      "))


@click.command("demo")
@click.option("-o", "--output", type=click.Path(), default="demo-dataset", show_default=True, help="Where to write it.")
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object.")
def demo_command(output: str, as_json: bool) -> None:
    """Ingest ten bundled real coding-agent sessions and print what a KV cache could reuse.

    \b
    Example:
      tracetower demo
    """
    from app.commands.options import opened
    from app.commands.questions import print_report
    from traces.dataset.layout import NotADataset
    from traces.intake.demo import demo_inputs
    from traces.intake.ingest import Options, ingest

    path = Path(output)
    try:
        ingest(demo_inputs(), path, Options(), None if as_json else IngestProgress())
    except NotADataset as error:
        raise BadData(str(error)) from None
    from analysis.headline.report import report
    from analysis.store.question import Question

    figures = report(opened(output), Question(arrivals="staggered:600"), ("trajectory_type",))
    if as_json:
        emit_json(figures)
        return
    click.echo("Ten real coding-agent sessions, started 600 s apart (--arrivals staggered:600)\n")
    print_report(figures)
    hit = figures["hit_rate"]["ceiling"]
    click.echo(f"\nA KV cache could reuse {figure('ceiling', hit)} of the input tokens of these sessions.")
    click.echo(f"Look at it in a browser:  tracetower app {output}")


@click.command("bundle")
@click.argument("dataset", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="The zip to write.")
def bundle_command(dataset: str, output: str) -> None:
    """Write DATASET as a zip without names, text or hashes: safe to share, ready to upload.

    \b
    Example:
      tracetower bundle mine -o mine.zip
    """
    from traces.dataset.bundle import bundle
    from traces.dataset.layout import Dataset, NotADataset

    try:
        size = bundle(Dataset(dataset), Path(output))
    except NotADataset as error:
        raise BadData(str(error)) from None
    click.echo(f"{output}: {size:,} bytes")


@click.command("app", context_settings={"ignore_unknown_options": True})
@click.argument("dataset", required=False, type=click.Path())
@click.option(
    "--data-root", multiple=True, type=click.Path(exists=True, file_okay=False), help="A folder visitors may open."
)
@click.option("--port", type=int, default=8501, show_default=True, help="Port to listen on.")
@click.option("--address", default="localhost", show_default=True, help="Address to listen on.")
def app_command(dataset: str | None, data_root: tuple[str, ...], port: int, address: str) -> None:
    """Open the app in a browser, on DATASET if given.

    \b
    Examples:
      tracetower app mine
      tracetower app --data-root /srv/traces --address 0.0.0.0
    """
    environment = dict(os.environ)
    if dataset is not None:
        from app.commands.options import opened

        opened(dataset).close()
        environment["TRACETOWER_DATASET"] = str(Path(dataset).resolve())
    if data_root:
        environment["TRACETOWER_DATA_ROOTS"] = os.pathsep.join(str(Path(r).resolve()) for r in data_root)
    folder = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "streamlit", "run", str(folder)]
    command += ["--server.port", str(port), "--server.address", address]
    raise SystemExit(subprocess.call(command, env=environment, cwd=folder))


COMMANDS: list[click.Command] = [
    ingest_command, validate_command, formats_command, demo_command, bundle_command, app_command,
]  # fmt: skip
