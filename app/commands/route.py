"""route: replicas and routing policies on the trace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from app.commands.options import Size, Sizes, opened, question_of, question_options
from app.commands.terminal import emit_json, emit_rows

if TYPE_CHECKING:
    from analysis.fleet.routing import Cell, Event, ServiceModel

SHOWN = (
    "policy", "replicas", "capacity_tokens", "seed", "hit_rate", "one_cache_hit_rate", "loss_placement",
    "loss_capacity",
    "vmr_running_requests", "vmr_sessions", "duty_cycle", "p99_running_requests", "max_over_mean_load", "session_moves",
)  # fmt: skip


PATIENCE = "replaying … (the first replay on a machine also compiles: about half a minute, once)"


class Names(click.ParamType[list[str]]):
    """Names separated by commas."""

    name = "name,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """The names."""
        return value if isinstance(value, list) else [part.strip() for part in str(value).split(",") if part.strip()]


def events_of(texts: tuple[str, ...], codes: dict[str, int]) -> tuple[Event, ...]:
    """Read scale:AT:N, lose:AT and hot:AT:SESSION; `codes` are the session codes by name.

    Raises:
        click.UsageError: for anything else, or a session that the dataset does not have.
    """
    from analysis.fleet.routing import Event

    events = []
    for text in texts:
        kind, *rest = text.split(":", 2)
        try:
            if (kind, len(rest)) == ("scale", 2):
                events.append(Event("scale", float(rest[0]), int(rest[1])))
            elif (kind, len(rest)) == ("lose", 1):
                events.append(Event("lose", float(rest[0])))
            elif (kind, len(rest)) == ("hot", 2):
                if rest[1] not in codes:
                    raise click.UsageError(f"--event {text}: the dataset has no session {rest[1]!r}")
                events.append(Event("hot", float(rest[0]), codes[rest[1]]))
            else:
                raise ValueError
        except ValueError:
            raise click.UsageError(f"--event {text!r} is none of scale:AT:N, lose:AT, hot:AT:SESSION") from None
    return tuple(events)


def params_of(texts: tuple[str, ...], policies: list[str]) -> dict[str, float]:
    """Read NAME=VALUE; a name must be a parameter of one of the policies.

    Raises:
        click.UsageError: for anything else; the message lists the parameters there are.
    """
    from analysis.fleet.routers import policy

    known = sorted({name for chosen in policies for name in policy(chosen).params})
    params = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name not in known:
            raise click.UsageError(
                f"--param {text!r} is not NAME=VALUE of {', '.join(policies)}; there are {', '.join(known) or 'none'}"
            )
        try:
            params[name] = float(value)
        except ValueError:
            raise click.UsageError(f"--param {text!r}: {value!r} is not a number") from None
    return params


def _model_of(model: str | None, gpu: str, tp: int, kv_dtype: str) -> ServiceModel:
    from analysis.fleet.routed_trace import service_model
    from analysis.replica.interactivity import Service
    from analysis.replica.models.catalog import load_gpu, load_model
    from analysis.replica.models.kv_layout import Sharding

    if model is None:
        raise click.UsageError(
            "--service model needs --model (and --gpu, --tp): tracetower kv-budget --list names them"
        )
    return service_model(Service(load_model(model), load_gpu(gpu), Sharding(tp), kv_dtype))


@contextmanager
def _patience(after_s: float = 4.0) -> Iterator[None]:
    """Say why it takes long, if it does: what a machine compiles for its first replay is kept for the next."""
    note = threading.Timer(after_s, click.echo, [PATIENCE], {"err": True})
    note.daemon = True
    note.start()
    try:
        yield
    finally:
        note.cancel()


@click.command("route")
@click.argument("dataset", type=click.Path())
@click.option("--replicas", type=Sizes(), required=True, help="Replicas, or several fleets.")
@click.option("--policy", "policies", type=Names(), required=True, help="Policies by name; --policy list names them.")
@click.option("--capacity-tokens", type=Sizes(), help="Cache of each replica [unbounded].")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Replays of policies with chance.")
@click.option("--service", type=click.Choice(["instant", "recorded", "model"]), default="instant", show_default=True)
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
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Cells that run at once.")
@question_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def route_command(
    dataset: str, replicas: list[int], policies: list[str], capacity_tokens: list[int] | None, seeds: int, service: str,
    insert: str, params: tuple[str, ...], events: tuple[str, ...], max_running: int | None, queue_limit: int | None,
    model: str | None, gpu: str, tp: int, kv_dtype: str, executor: str, workers: int, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Which routing policy, how many replicas, and does one drown? Hit rate and load side by side.

    \b
    Examples:
      tracetower route mine --replicas 8 --policy round_robin,session_affinity,longest_prefix
      tracetower route mine --replicas 4,8 --policy session_hash,tower --capacity-tokens 1M --service recorded
      tracetower route mine --replicas 8 --policy tower --service recorded --event scale:600:10 --event lose:900
    """
    from analysis.fleet.grid import frontier, grid, paired, run_cells
    from analysis.fleet.routed_trace import routed_trace
    from analysis.fleet.routers import POLICIES
    from analysis.fleet.routing import Cell
    from analysis.store.executors import executor_for
    from analysis.store.question import BadQuestion, own_definition

    if policies == ["list"]:
        for name, rule in POLICIES.items():
            click.echo(f"{name:<26}{rule}")
        return
    unknown = [name for name in policies if name not in POLICIES]
    if unknown or not policies:
        raise click.UsageError(f"unknown policy {', '.join(unknown)}. Policies: {', '.join(POLICIES)}")
    question = question_of(options)
    warehouse = opened(dataset)
    try:
        own_definition(question, "route")
        routed = routed_trace(warehouse, question)
        codes = {name: code for code, name in enumerate(routed.trace.session_names or ())}
        base = Cell(
            policies[0], 1, block_tokens=routed.block_tokens, service=service, insert=insert,
            params=params_of(params, policies), events=events_of(events, codes), max_running=max_running,
            queue_limit=queue_limit, loop="open" if routed.population is None or service == "instant" else "closed",
            population=routed.population, model=_model_of(model, gpu, tp, kv_dtype) if service == "model" else None,
        )  # fmt: skip
        cells: list[Cell] = grid(base, policies, replicas, capacity_tokens or [None], seeds)
        with _patience(), executor_for(executor, workers) as pool:
            rows = run_cells(routed.trace, cells, pool)
    except (BadQuestion, ValueError) as error:
        raise click.UsageError(str(error)) from None
    pairs, means = paired(rows), frontier(rows)
    if as_json:
        from analysis.fleet.load_figures import DEFINITION

        emit_json({"definition": DEFINITION, "rows": rows, "paired": pairs, "frontier": means})
        return
    emit_rows([{name: row[name] for name in SHOWN} for row in rows])
    if pairs:
        click.echo("\na − b, 95 % interval over seeds")
        emit_rows(
            [{**pair, **{k: _span(pair[k]) for k in ("hit_rate_difference", "vmr_difference")}} for pair in pairs]
        )
    click.echo(f"\nVMR of one look at Poisson loads, 95 %: {_span(rows[0]['vmr_band'])}. Hit rate: {DEFINED}")


DEFINED = "hit tokens / prefix tokens; one_cache: one LRU cache of the replicas' total size; VMR: variance / mean."


def _span(band: list[float] | None) -> str:
    return "–" if band is None else f"{band[0]:.4f} to {band[1]:.4f}"


COMMANDS: list[click.Command] = [route_command]
