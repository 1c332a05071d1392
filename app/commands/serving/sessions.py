"""sessions: how many sessions at once before the cache thrashes, and what admission brings."""

from __future__ import annotations

from typing import Any

import click

from app.commands.shell.command import command
from app.commands.shell.options import (
    block_size_option,
    dataset_argument,
    filters_of,
    json_option,
    opened,
    where_option,
)
from app.commands.shell.rules import Rule, excludes, needs
from app.commands.shell.terminal import emit_json, emit_rows, note, say
from app.commands.shell.types import Numbers, Size

RULES = (
    Rule(lambda given, _: not given & {"capacity_tokens", "model"},
         "sessions needs a cache: --capacity-tokens, or --model and --gpu for what a replica holds"),
    needs("model", "gpu"),
    needs("gpu", "model"),
    *(needs(option, "model") for option in ("tp", "dp", "dcp", "kv_dtype", "engine")),
    excludes("capacity_tokens", "dp", "dcp", "kv_dtype", "engine",
             says="--dp, --dcp, --kv-dtype and --engine say how much a replica holds: they mean nothing beside "
             "--capacity-tokens"),
)  # fmt: skip


@command("sessions", *RULES)
@dataset_argument
@click.option("--capacity-tokens", type=Size(), help="Tokens that the replica's KV cache holds.")
@click.option("--model", help="The model, for the capacity (where none is given), TTFT and throughput.")
@click.option("--gpu", help="Its GPU; kv-budget --list names models and GPUs.")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="GPUs that share the weights.")
@click.option("--dp", type=click.IntRange(1), default=1, show_default=True, help="DP-attention groups.")
@click.option("--dcp", type=click.IntRange(1), default=1, show_default=True, help="Decode context parallel ranks.")
@click.option("--kv-dtype", default="bf16", show_default=True, help="Precision of the KV cache.")
@click.option("--engine", default="ideal", show_default=True, help="ideal, vllm or sglang: layouts and reserves.")
@click.option("--at-once", type=Numbers(), default="1..32", show_default=True, help="How many sessions: 1..8,12,16.")
@click.option(
    "--admission", multiple=True, default=("none",), show_default=True,
    help="Which of them run: none | cap | footprint (repeatable).",
)  # fmt: skip
@block_size_option
@where_option
@json_option
def sessions_command(
    dataset: str, capacity_tokens: int | None, model: str | None, gpu: str | None, tp: int, dp: int, dcp: int,
    kv_dtype: str, engine: str, at_once: list[int], admission: tuple[str, ...], block_size: int | None,
    where: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """How many sessions of DATASET at once before the cache thrashes? Hit rate, TTFT and throughput by their number.

    \b
    Examples:
      tracetower sessions mine --capacity-tokens 444700 --at-once 1..32
      tracetower sessions mine --model kimi-k2.6 --gpu b200 --tp 8 --kv-dtype fp8 --engine vllm
      tracetower sessions mine --capacity-tokens 2M --admission none --admission footprint
    """
    from analysis.policies.admission import RULES as ADMISSION
    from analysis.policies.at_once import MEANINGS
    from analysis.policies.at_once import at_once as sessions_at_once
    from analysis.store.question import Question

    service, held = _replica(model, gpu, (tp, dp, dcp), kv_dtype, engine)
    capacity = capacity_tokens if capacity_tokens is not None else held
    if capacity is None or capacity < 1:
        raise click.UsageError("that replica has no room for a KV cache: kv-budget shows why")
    question = Question(block_size=block_size, where=filters_of(where))
    warehouse = opened(dataset)
    found = sessions_at_once(warehouse, question, capacity, at_once, admission, service)
    rules = {rule: ADMISSION[rule] for rule in admission}
    means = {"figures": MEANINGS, "admission": rules, "capacity_tokens": capacity,
             "block_size": warehouse.prepare(question).block_size,
             "mfu": None if service is None else list(service.assumptions.mfu)}  # fmt: skip
    if held is not None and capacity_tokens is None:
        replica = {"model": model, "gpu": gpu, "tp": tp, "dp": dp, "dcp": dcp, "kv_dtype": kv_dtype, "engine": engine}
        means["replica"] = replica
    if service is not None:
        from analysis.replica.states import ATTENTION_ONLY, has_states

        if has_states(service.model):
            says = ATTENTION_ONLY.format(model=model)
            means["states"] = says
            note(says)
    if found["left_out"]:
        note(
            f"the trace has {found['sessions']:,} top-level sessions, so no more can be at once: "
            f"{len(found['left_out']):,} larger numbers are left out"
        )
    if as_json:
        emit_json({"definition": means, **found})
        return
    emit_rows([{name: _ends(value) for name, value in row.items()} for row in found["rows"]])
    knee = found["knee"]
    say(f"\nKnee: {knee['at_once'] or 'none'}. {knee['reason']}.")
    for rule, says in rules.items():
        say(f"Admission {rule}: {says}.")
    say(f"Cache of {capacity:,} tokens, blocks of {means['block_size']}, LRU.")


def _replica(
    model: str | None, gpu: str | None, shards: tuple[int, int, int], kv_dtype: str, engine: str
) -> tuple[Any, int | None]:
    """(the service, tokens that its cache holds); nothing without a model and GPU."""
    if model is None or gpu is None:
        return None, None
    from analysis.replica.interactivity import Service
    from analysis.replica.kv_budget import Replica, kv_budget
    from analysis.replica.models.catalog import load_gpu, load_model
    from analysis.replica.models.kv_layout import Sharding

    try:
        asked, on = load_model(model), load_gpu(gpu)
        budget = kv_budget(Replica(model=asked, gpu=on, shards=Sharding(*shards), kv_dtype=kv_dtype, engine=engine))
        return Service(asked, on, Sharding(*shards), kv_dtype, engine), int(budget.replica_tokens)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _ends(value: Any) -> Any:
    """A range as one text."""
    return f"{value[0]:.4g} to {value[1]:.4g}" if isinstance(value, list) else value
