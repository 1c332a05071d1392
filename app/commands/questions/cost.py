"""cost: what the trace costs at list prices, what each cause of loss costs, and GPU time for one's own replicas."""

from __future__ import annotations

from typing import Any

import click

from app.commands.questions.printed import print_definition
from app.commands.shell.command import command
from app.commands.shell.options import dataset_argument, json_option, opened, question_of, question_options
from app.commands.shell.rules import needs, only_if
from app.commands.shell.terminal import emit_figures, emit_json, emit_rows, note, say

RULES = (
    needs("gpu", "model", says="--gpu needs --model: the FLOPs of a prefill depend on it"),
    needs("model", "gpu", says="--model needs --gpu: it asks for the time of prefills on your own replica"),
    *(needs(option, "model") for option in ("weights_scheme", "gpu_hour_usd")),
    only_if(("definition",), lambda values: values["definition"] == "tracetower",
            "cost follows Tracetower's definition of a hit: --definition has no meaning here"),
)  # fmt: skip


@command("cost", *RULES)
@dataset_argument
@click.option("--prices", type=click.Path(), help="Your own prices: a TOML file like analysis/money/prices.toml.")
@click.option("--by", "axes", multiple=True, help="An axis to group by (repeatable).")
@click.option(
    "--writes", type=click.Choice(["5m", "1h"]), default="5m", show_default=True,
    help="How long the provider keeps what is written to its cache (logs do not say it); writing costs differ.",
)  # fmt: skip
@click.option("--as-model", help="Price every request as this model, by its newest price.")
@click.option("--model", help="The model of your own replica, for GPU time (kv-budget --list).")
@click.option("--gpu", help="Its GPU (kv-budget --list).")
@click.option("--weights", "weights_scheme", help="Precision of the served weights.")
@click.option("--gpu-hour-usd", type=click.FloatRange(0), help="What an hour of one GPU costs you.")
@question_options
@json_option
def cost_command(
    dataset: str, prices: str | None, axes: tuple[str, ...], writes: str, as_model: str | None, model: str | None,
    gpu: str | None, weights_scheme: str | None, gpu_hour_usd: float | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """What DATASET costs at dated list prices, as sent and with the hits that a cache could give, and what losses cost.

    \b
    Examples:
      tracetower cost mine --by model
      tracetower cost mine --writes 1h --by day
      tracetower cost mine --as-model claude-opus-4.5 --prices ours.toml
      tracetower cost mine --model kimi-k2.6 --gpu b200 --gpu-hour-usd 4
    """
    from analysis.headline.report import definition
    from analysis.money.cost import MEANINGS, cost
    from analysis.money.prices import load_prices

    question = question_of(options, axes)
    warehouse = opened(dataset)
    figures = cost(warehouse, question, load_prices(prices), ("all", *axes), writes, as_model)
    means = definition(warehouse.prepare(question)) | {"writes": writes, "figures": MEANINGS}
    if model is not None and gpu is not None:
        from analysis.money.gpu_seconds import MEANING, gpu_seconds
        from analysis.replica.interactivity import Service
        from analysis.replica.models.catalog import load_gpu, load_model

        service = Service(load_model(model), load_gpu(gpu), weights_scheme=weights_scheme)
        figures["gpu_seconds"] = gpu_seconds(warehouse, question, service, gpu_hour_usd)
        means |= {"gpu_seconds": MEANING, "mfu": list(service.assumptions.mfu)}
    if as_json:
        emit_json({"definition": means, **figures})
        return
    _print(figures, writes)
    print_definition(means)


NESTED = {
    "lost": "Lost in the provider's cache, by cause",
    "rewritten": "Rewritten history, by what changed",
    "context_caps": "At the ceiling, if every prompt were cut off",
}
BY_GROUP = ("axis", "group", "priced_requests", "no_cache_usd", "as_sent_usd", "achievable_usd", "ceiling_usd")


def _print(figures: dict[str, Any], writes: str) -> None:
    if not figures["rows"]:
        say("No request has a price.")
    else:
        whole, *groups = figures["rows"]
        emit_figures("All requests", {k: v for k, v in whole.items() if k not in (*NESTED, "axis", "group")})
        for name, title in NESTED.items():
            if whole[name]:
                say(f"\n{title}")
                emit_rows(whole[name])
        if groups:
            say()
            emit_rows([{name: row[name] for name in BY_GROUP} for row in groups])
    if "gpu_seconds" in figures:
        say("\nGPU seconds of the prefills, an estimate from the least to the most")
        bands = {name: band for name, band in figures["gpu_seconds"].items() if isinstance(band, list)}
        emit_rows([{"case": name, "from": low, "to": high} for name, (low, high) in bands.items()])
    say(f"\nList prices, US dollars per million tokens; what is written is kept {writes}")
    emit_rows(figures["prices"])
    for name, requests in figures["unpriced"].items():
        note(f"no price for {name}: {requests:,} requests are in no figure. Give one with --prices, or use --as-model")
    if figures["uncounted_requests"]:
        note(f"{figures['uncounted_requests']:,} requests have a price, but no count of their input or output")
    for text in figures["notes"]:
        note(text)
