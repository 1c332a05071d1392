"""kv-budget: does a model fit on a replica, and how many tokens and sessions does its KV cache hold?"""

from __future__ import annotations

from typing import Any

import click

from app.commands.shell.command import BadData, command
from app.commands.shell.options import arrivals_option, block_size_option, json_option, opened
from app.commands.shell.rules import alone, excludes, needs
from app.commands.shell.terminal import emit_json, emit_rows, say
from app.commands.shell.types import Numbers, Size


def _print_catalogue(as_json: bool) -> None:
    from analysis.replica.models.catalog import gpu_names, load_gpu, load_model, model_aliases, model_names

    models = [(n, load_model(n), model_aliases(n)) for n in model_names()]
    gpus = [load_gpu(n) for n in gpu_names()]
    if as_json:
        out = {
            "models": [
                {"name": n, "aliases": a, "layers": m.layers, "attention": list(m.kinds), "source": m.source}
                | {"parameters": round(m.parameters.total), "checkpoint": m.weights}
                for n, m, a in models
            ],
            "gpus": [{"name": g.name, "memory_bytes": g.memory_bytes, "source": g.source} for g in gpus],
        }
        emit_json(out)
        return
    say(f"{'model':<20} {'params e9':>10} {'layers':>7}  attention; other names")
    for n, m, a in models:
        also = f"; {', '.join(a)}" if a else ""
        say(f"{n:<20} {m.parameters.total / 1e9:>10,.1f} {m.layers:>7}  {' + '.join(m.kinds)}{also}")
    say(f"\n{'GPU':<10} {'memory bytes':>16} {'HBM e12 B/s':>12}")
    for g in gpus:
        say(f"{g.name:<10} {g.memory_bytes:>16,} {g.hbm_bytes_per_s / 1e12:>12.2f}")


RULES = (
    alone("list_all"),
    needs("block_size", "dataset"),
    needs("arrivals", "dataset"),
    excludes("weights_scheme", "weights_bytes"),
)


@command("kv-budget", *RULES)
@click.option("--model", help="A name of --list, or the path of a Hugging Face config.json.")
@click.option("--gpu", help="A name of --list.")
@click.option(
    "--tp", type=Numbers(), default="1", show_default=True,
    help="GPUs of the replica that share the weights; several, as in 1,2,4,8, are a row each.",
)  # fmt: skip
@click.option(
    "--dp", type=int, default=1, show_default=True, help="DP-attention groups inside the replica (divides --tp)."
)
@click.option("--dcp", type=int, default=1, show_default=True, help="Decode context parallel ranks.")
@click.option("--kv-dtype", default="bf16", show_default=True, help="bf16, fp8, fp8_e4m3, fp8_ds_mla, nvfp4, …")
@click.option("--engine", default="ideal", show_default=True, help="ideal, vllm or sglang: row layouts and reserves.")
@click.option("--gpu-bytes", type=Size(), help="Memory of one GPU in bytes, instead of the catalogue's.")
@click.option(
    "--weights-bytes", type=Size(), help="Weights of the whole replica in bytes, instead of the derived ones."
)
@click.option(
    "--weights", "weights_scheme", help="Precision to derive the weights at: bf16, fp8, int4, nvfp4, mxfp4, …"
)
@click.option("--utilization", type=float, help="Share of GPU memory the engine may use (SGLang: mem_fraction_static).")
@click.option("--reserve-bytes", type=Size(), help="Bytes per GPU for activations, graphs and buffers.")
@click.option("--dataset", type=click.Path(), help="A dataset: sessions of its size, hit rate at this capacity.")
@block_size_option
@arrivals_option
@click.option("--list", "list_all", is_flag=True, help="List models and GPUs.")
@json_option
def kv_budget_command(
    model: str | None,
    gpu: str | None,
    tp: list[int],
    dp: int,
    dcp: int,
    kv_dtype: str,
    engine: str,
    gpu_bytes: int | None,
    weights_bytes: int | None,
    weights_scheme: str | None,
    utilization: float | None,
    reserve_bytes: int | None,
    dataset: str | None,
    block_size: int | None,
    arrivals: str,
    list_all: bool,
    as_json: bool,
) -> None:
    """Does a model fit on a replica, and how many tokens and sessions does its KV cache hold?

    \b
    Examples:
      tracetower kv-budget --list
      tracetower kv-budget --model kimi-k2.6 --gpu b200 --tp 8 --kv-dtype fp8 --engine vllm
      tracetower kv-budget --model kimi-k2.6 --gpu b200 --tp 4,8,16
      tracetower kv-budget --model ./config.json --gpu h200 --tp 8 --dataset mine
    """
    if list_all:
        _print_catalogue(as_json)
        return
    if model is None or gpu is None:
        raise click.UsageError("kv-budget needs --model and --gpu; --list names them")
    from analysis.replica.answers import budget_json
    from analysis.replica.kv_budget import Replica, kv_budget
    from analysis.replica.models.catalog import load_gpu, load_model
    from analysis.replica.models.kv_layout import Sharding

    try:
        given = dict(
            model=load_model(model), gpu=load_gpu(gpu), kv_dtype=kv_dtype, engine=engine, gpu_bytes=gpu_bytes,
            weights_bytes=weights_bytes, weights_scheme=weights_scheme, utilization=utilization,
            reserve_bytes=reserve_bytes,
        )  # fmt: skip
        budgets = [kv_budget(Replica(**given, shards=Sharding(n, dp, dcp))) for n in dict.fromkeys(tp)]  # type: ignore[arg-type]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    found = [_answer(budget, budget_json(budget), dataset, block_size, arrivals) for budget in budgets]
    if len(found) > 1:
        _print_rows(found, as_json)
    elif as_json:
        emit_json(found[0])
    else:
        _print_budget(found[0])


def _answer(
    budget: Any, out: dict[str, Any], dataset: str | None, block_size: int | None, arrivals: str
) -> dict[str, Any]:
    """The budget, and the dataset beside it."""
    if not dataset:
        return {**out, "dataset": None}
    states = _states(budget, dataset, block_size, arrivals)
    return {**out, "dataset": {**_dataset(budget, dataset, block_size, arrivals), "state_hit_rates": states}}


def _print_rows(found: list[dict[str, Any]], as_json: bool) -> None:
    """Several budgets: a row for each number of GPUs."""
    rows = [{"tp": out["definition"]["tp"], **out} for out in found]
    if as_json:
        emit_json({"rows": rows})
        return
    emit_rows(
        [
            {
                "tp": row["tp"], "fits": "yes" if row["fits"] else "no", "replica_tokens": row["replica_tokens"],
                "tokens_per_gpu": row["replica_tokens"] / row["tp"],
                "bytes_per_token_per_gpu": row["bytes_per_token_per_gpu"],
                "sessions_at_100000": row["sessions_at"].get("100000"),
                "hit_rate_at_capacity": (row["dataset"] or {}).get("hit_rate_at_capacity"),
            }
            for row in rows
        ]
    )  # fmt: skip


def _dataset(budget: Any, path: str, block_size: int | None, arrivals: str) -> dict[str, object]:
    from analysis.replica.workload import replica_workload
    from analysis.store.question import BadQuestion
    from traces.dataset.layout import NotADataset

    try:
        return replica_workload(budget, path, block_size, arrivals)
    except (BadQuestion, NotADataset, OSError):
        raise
    except ValueError as error:
        raise BadData(str(error)) from error


def _states(budget: Any, path: str, block_size: int | None, arrivals: str) -> dict[str, Any] | None:
    """Hit rates of a model with recurrent states, which resumes at checkpoints only; None for other models."""
    from analysis.replica.states import state_hit_rates
    from analysis.store.question import Question

    replica = budget.replica
    question = Question(block_size=block_size, arrivals=arrivals)
    return state_hit_rates(opened(path), question, replica.model, replica.shards, replica.kv_dtype)


def _amount(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def _print_budget(out: dict[str, Any]) -> None:
    d = out["definition"]
    say(f"{d['model']} on {d['tp']} x {d['gpu']}, {d['kv_dtype']} KV, {d['engine']} layouts and reserves\n")
    for step in out["steps"]:
        say(f"  {step['name']:<36} {_amount(step['bytes']):>20} B per GPU   {step['note']}")
    say("")
    rows = [
        ("KV bytes per token, whole model", out["bytes_per_token"]),
        ("KV bytes per token on each GPU", out["bytes_per_token_per_gpu"]),
        ("KV bytes per sequence, whole model", out["bytes_per_sequence"]),
        ("tokens in the replica", out["replica_tokens"]),
    ]
    for name, value in rows:
        say(f"  {name:<36} {_amount(value):>20}")
    low, high = d["range_utilization"]
    span = f"{_amount(out['range']['low_tokens'])} to {_amount(out['range']['high_tokens'])}"
    say(f"  {'range':<36} {span:>20}   utilisation {low:g} to {high:g}")
    for tokens, sessions in out["sessions_at"].items():
        say(f"  {'sessions of ' + format(int(tokens), ',') + ' tokens':<36} {sessions:>20,.2f}")
    if not out["fits"]:
        say(f"\n  does not fit: {_amount(out['short_bytes_per_gpu'])} bytes per GPU are missing")
    if out["dataset"]:
        say("\n  dataset")
        states = out["dataset"]["state_hit_rates"]
        for name, value in ((n, v) for n, v in out["dataset"].items() if n != "state_hit_rates"):
            shown = ", ".join(f"{k}: {_amount(v)}" for k, v in value.items()) if isinstance(value, dict) else None
            shown = shown or (value if isinstance(value, str) else _amount(value))
            say(f"  {name:<36} {shown:>20}")
        if states is not None:
            say("\n  a model with states resumes only where a state was kept, so the hit rates above are too high")
            for name, value in ((n, v) for n, v in states.items() if n != "meaning"):
                say(f"  {name:<36} {_amount(value):>20}")
            say(f"  {states['meaning']}.")
    for note in d["notes"]:
        say(f"  note: {note}")
