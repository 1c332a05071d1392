"""compare: two datasets or profiles side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.commands.shell.command import BadData, command
from app.commands.shell.options import arrivals_option, block_size_option, json_option, opened
from app.commands.shell.profiles import load_profile
from app.commands.shell.rules import Rule, needs
from app.commands.shell.terminal import emit_json, emit_rows, note, say
from app.commands.shell.types import Size

RULES = (
    Rule(
        lambda given, values: (
            bool(given & {"block_size", "arrivals"})
            and values["b"] is not None
            and all(_is_profile(values[k]) for k in "ab")
        ),
        "--block-size and --arrivals mean nothing for two profiles: they were chosen when the profiles were made",
    ),
    Rule(
        lambda given, values: values["b"] is None and "measured" not in given, "compare takes two sides, or --measured"
    ),
    Rule(
        lambda given, values: values["b"] is not None and "measured" in given, "--measured is compared with one dataset"
    ),
    *(needs(option, "measured") for option in ("capacity_tokens", "model", "gpu", "tp")),
    needs("gpu", "model"),
    needs("model", "gpu"),
    needs("tp", "model"),
)


@command("compare", *RULES)
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@click.option(
    "--measured", multiple=True, type=click.Path(),
    help="What a run of A measured: a result of AIPerf, vllm bench serve or SGLang, or Prometheus scrapes (two: one "
    "before the run, one after).",
)  # fmt: skip
@click.option("--capacity-tokens", type=Size(), help="Tokens that a replica's cache held in that run.")
@click.option("--model", help="The model of that run, for an estimate of TTFT (kv-budget --list).")
@click.option("--gpu", help="Its GPU (kv-budget --list).")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="GPUs that shared the weights.")
@block_size_option
@arrivals_option
@json_option
def compare_command(
    a: str, b: str | None, measured: tuple[str, ...], capacity_tokens: int | None, model: str | None, gpu: str | None,
    tp: int, block_size: int | None, arrivals: str, as_json: bool,
) -> None:  # fmt: skip
    """Two datasets or profiles side by side: differences (B minus A) with 95 % intervals, and warnings.

    With --measured, dataset A beside what a run of it measured.

    \b
    Examples:
      tracetower compare before after
      tracetower compare profile.json synthetic --arrivals staggered:600
      tracetower compare mine --measured profile_export_aiperf.json --capacity-tokens 2M
      tracetower compare mine --measured before.prom --measured after.prom --model kimi-k2.6 --gpu b200 --tp 8
    """
    if b is None:
        _measured(a, measured, capacity_tokens, (model, gpu, tp), (block_size, arrivals), as_json)
        return
    from analysis.profile.compare import compare, profile_of

    sides = [load_profile(side) if _is_profile(side) else profile_of(opened(side), block_size, arrivals)
             for side in (a, b)]  # fmt: skip
    compared = compare(sides[0], sides[1])
    if as_json:
        emit_json(compared)
        return
    for warning in compared["warnings"]:
        note(f"warning: {warning}")
    shown = []
    for row in compared["rows"]:
        low, high = row["interval"] or (None, None)
        sure = None if low is None or high is None else "" if low <= 0 <= high else "differs"
        shown.append({k: v for k, v in row.items() if k != "interval"} | {"from": low, "to": high, "verdict": sure})
    emit_rows(shown)


def _measured(
    dataset: str,
    paths: tuple[str, ...],
    capacity_tokens: int | None,
    replica: tuple[str | None, str | None, int],
    asked: tuple[int | None, str],
    as_json: bool,
) -> None:
    from analysis.headline.report import definition
    from analysis.replica.interactivity import Service
    from analysis.replica.measurement.against import MEANINGS, against
    from analysis.replica.measurement.files import read_measured
    from analysis.replica.measurement.measured import NotMeasured
    from analysis.replica.models.catalog import load_gpu, load_model
    from analysis.replica.models.kv_layout import Sharding
    from analysis.store.question import Question

    if len(paths) > 2:
        raise click.UsageError("--measured: at most two files, scrapes from before and after the run")
    question = Question(asked[0], asked[1])
    warehouse = opened(dataset)
    model, gpu, tp = replica
    service = None if model is None or gpu is None else Service(load_model(model), load_gpu(gpu), Sharding(tp, 1, 1))
    try:
        found = against(warehouse, question, read_measured(paths), capacity_tokens, service)
    except NotMeasured as error:
        raise BadData(str(error)) from None
    if as_json:
        emit_json({"definition": definition(warehouse.prepare(question)) | {"figures": MEANINGS}, **found})
        return
    for warning in found["warnings"]:
        note(f"warning: {warning}")
    say(f"Measured by {found['measured_by']}, beside what the trace predicts")
    emit_rows([{name: _ends(value) for name, value in row.items()} for row in found["rows"]])
    for title, rows in (("Why the hit rate differs", found["reasons"]), ("Replicas, as measured", found["replicas"])):
        if rows:
            say(f"\n{title}")
            emit_rows(rows)


def _ends(value: Any) -> Any:
    """A range as one text."""
    return f"{value[0]:.4g} to {value[1]:.4g}" if isinstance(value, list) else value


def _is_profile(side: object) -> bool:
    """Whether a side is a file, and not the zip of a bundle."""
    path = Path(str(side))
    return path.is_file() and path.suffix.lower() != ".zip"
