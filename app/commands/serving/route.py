"""route: replicas and routing policies on the trace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from app.commands.shell.command import command
from app.commands.shell.options import dataset_argument, json_option, opened, question_of, question_options
from app.commands.shell.rules import Rule, excludes, only_if
from app.commands.shell.terminal import emit_json, emit_rows, note, say
from app.commands.shell.types import Names, Size, Sizes

SHOWN = (
    "policy", "replicas", "capacity_tokens", "seed", "hit_rate", "one_cache_hit_rate", "loss_placement",
    "loss_capacity", "cold_prefill_tokens", "ttft_s_p50", "ttft_s_p99",
    "vmr_running_requests", "vmr_sessions", "duty_cycle", "p99_running_requests", "max_over_mean_load", "session_moves",
)  # fmt: skip

PATIENCE = "replaying … (the first replay on a machine also compiles: about half a minute, once)"
DEFINED = "hit tokens / prefix tokens; one_cache: one LRU cache of the replicas' total size; VMR: variance / mean."

RULES = (
    only_if(("model", "gpu", "tp", "kv_dtype"), lambda v: v["service"] == "model",
            "--model, --gpu, --tp and --kv-dtype mean nothing without --service model"),
    only_if(("max_running", "queue_limit"), lambda v: v["service"] != "instant",
            "--max-running and --queue-limit mean nothing where answers take no time: add --service recorded or model"),
    only_if(("insert",), lambda v: v["insert"] == "arrival" or v["service"] != "instant",
            "--insert finish means nothing where answers take no time: add --service recorded or model"),
    only_if(("seeds",), lambda v: v["seeds"] == 1 or _draws(v["policies"]),
            "--seeds means nothing here: none of these policies draws random numbers"),
    Rule(lambda given, v: v["policies"] == ["list"] and bool(given - {"dataset", "replicas", "policies", "as_json"}),
         "--policy list takes no other options"),
    excludes("where", "where", says="replicas serve the whole trace: route takes no --where"),
    excludes("window", "window", says="replicas serve the whole trace: route takes no --window"),
)  # fmt: skip


def _draws(policies: Any) -> bool:
    from analysis.fleet.routers import POLICIES, policy

    return any(policy(name).seeded for name in policies if name in POLICIES) or not set(policies) <= set(POLICIES)


@contextmanager
def _patience(after_s: float = 4.0) -> Iterator[None]:
    """Say why it takes long, if it does: what a machine compiles for its first replay is kept for the next."""
    timer = threading.Timer(after_s, note, [PATIENCE])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@command("route", *RULES)
@dataset_argument
@click.option("--replicas", type=Sizes(), required=True, help="Replicas, or several fleets.")
@click.option("--policy", "policies", type=Names(), required=True, help="Policies by name; --policy list names them.")
@click.option("--capacity-tokens", type=Sizes(), help="Cache of each replica [unbounded].")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How often a policy that draws at random is replayed.",
)
@click.option("--service", type=click.Choice(["instant", "recorded", "model"]), default="instant", show_default=True,
              help="How long an answer takes: no time, as recorded, or by --model and --gpu.")  # fmt: skip
@click.option("--insert", type=click.Choice(["arrival", "finish"]), default="arrival", show_default=True,
              help="A prompt can be hit as soon as it arrived, or once it is computed.")  # fmt: skip
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="A policy's parameter (repeatable).")
@click.option("--event", "events", multiple=True, metavar="EVENT",
              help="scale:AT:N, lose:AT or hot:AT:SESSION, AT in seconds (repeatable).")  # fmt: skip
@click.option("--max-running", type=Size(), help="Requests a replica serves at once [unlimited].")
@click.option("--queue-limit", type=Size(), help="Requests that may wait on a replica [unlimited]; more are refused.")
@click.option("--model", help="For --service model: its name (kv-budget --list).")
@click.option("--gpu", default="b200", show_default=True, help="For --service model.")
@click.option("--tp", type=click.IntRange(1), default=4, show_default=True, help="For --service model.")
@click.option("--kv-dtype", default="bf16", show_default=True, help="For --service model.")
@click.option("--executor", default="local", show_default=True, help="local or ray[:ADDRESS].")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Replays that run at once.")
@question_options
@json_option
def route_command(
    dataset: str, replicas: list[int], policies: list[str], capacity_tokens: list[int] | None, seeds: int, service: str,
    insert: str, params: tuple[str, ...], events: tuple[str, ...], max_running: int | None, queue_limit: int | None,
    model: str | None, gpu: str, tp: int, kv_dtype: str, executor: str, workers: int, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Which routing policy, how many replicas, and is any replica overloaded? Hit rate and load side by side.

    \b
    Examples:
      tracetower route mine --replicas 8 --policy round_robin,session_affinity,longest_prefix
      tracetower route mine --replicas 4,8 --policy session_hash,tower --capacity-tokens 1M --service recorded
      tracetower route mine --replicas 8 --policy tower --service recorded --event scale:600:10 --event lose:900
    """
    from analysis.fleet.grid import frontier, paired, run_cells
    from analysis.fleet.routed_trace import routed_trace
    from analysis.fleet.routers import POLICIES
    from analysis.fleet.settings import Hardware, Settings, cells
    from analysis.store.executors import executor_for
    from analysis.store.question import BadQuestion

    if policies == ["list"]:
        if as_json:
            emit_json({"policies": [{"policy": name, "rule": rule} for name, rule in POLICIES.items()]})
        else:
            for name, rule in POLICIES.items():
                say(f"{name:<26}{rule}")
        return
    if service == "model" and model is None:
        raise click.UsageError(
            "--service model needs --model (and --gpu, --tp): tracetower kv-budget --list names them"
        )
    question = question_of(options)
    hardware = None if model is None else Hardware(model, gpu, tp, kv_dtype)
    settings = Settings(
        policies, replicas, capacity_tokens or [None], seeds, service, insert, params, events, max_running, queue_limit,
        hardware,
    )  # fmt: skip
    warehouse = opened(dataset)
    try:
        routed = routed_trace(warehouse, question)
        chosen = cells(settings, routed)
        with _patience(), executor_for(executor, workers) as pool:
            rows = run_cells(routed.trace, chosen, pool)
    except BadQuestion:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    pairs, means = paired(rows), frontier(rows)
    if as_json:
        from analysis.fleet.load_figures import DEFINITION

        emit_json({"definition": DEFINITION, "rows": rows, "paired": pairs, "frontier": means})
        return
    emit_rows([{name: _span(row[name]) if name.startswith("ttft") else row[name] for name in SHOWN} for row in rows])
    if pairs:
        say("\na − b, 95 % interval over seeds")
        emit_rows(
            [{**pair, **{k: _span(pair[k]) for k in ("hit_rate_difference", "vmr_difference")}} for pair in pairs]
        )
    say(f"\nVMR of one look at Poisson loads, 95 %: {_span(rows[0]['vmr_band']) or '–'}. Hit rate: {DEFINED}")


def _span(band: list[float] | None) -> str | None:
    return None if band is None else f"{band[0]:.4f} to {band[1]:.4f}"
