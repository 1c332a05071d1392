"""`tracetower kv-budget` and `tracetower interactivity`: one replica, from the command line."""

from __future__ import annotations

import json
from typing import Any

import click

from app.commands.options import Size


class Band(click.ParamType[tuple[float, float]]):
    """LOW,HIGH or one number for both."""

    name = "low,high"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """A pair of floats."""
        if isinstance(value, tuple):
            return value
        try:
            parts = [float(part) for part in str(value).split(",")]
        except ValueError:
            parts = []
        if len(parts) not in (1, 2):
            self.fail(f"{value!r} is not LOW,HIGH", param, ctx)
        return parts[0], parts[-1]


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
        click.echo(json.dumps(out))
        return
    click.echo(f"{'model':<20} {'params e9':>10} {'layers':>7}  attention; other names")
    for n, m, a in models:
        also = f"; {', '.join(a)}" if a else ""
        click.echo(f"{n:<20} {m.parameters.total / 1e9:>10,.1f} {m.layers:>7}  {' + '.join(m.kinds)}{also}")
    click.echo(f"\n{'GPU':<10} {'memory bytes':>16} {'HBM e12 B/s':>12}")
    for g in gpus:
        click.echo(f"{g.name:<10} {g.memory_bytes:>16,} {g.hbm_bytes_per_s / 1e12:>12.2f}")


@click.command("kv-budget")
@click.option("--model", help="A name of --list, or the path of a Hugging Face config.json.")
@click.option("--gpu", help="A name of --list.")
@click.option("--tp", type=int, default=1, show_default=True, help="GPUs of the replica that share the weights.")
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
@click.option("--block-size", type=int, help="Block size in tokens for --dataset.")
@click.option("--arrivals", default="recorded", show_default=True, help="Arrival model of --dataset.")
@click.option("--list", "list_all", is_flag=True, help="List models and GPUs.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def kv_budget_command(
    model: str | None,
    gpu: str | None,
    tp: int,
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
        budget = kv_budget(
            Replica(
                model=load_model(model),
                gpu=load_gpu(gpu),
                shards=Sharding(tp, dp, dcp),
                kv_dtype=kv_dtype,
                engine=engine,
                gpu_bytes=gpu_bytes,
                weights_bytes=weights_bytes,
                weights_scheme=weights_scheme,
                utilization=utilization,
                reserve_bytes=reserve_bytes,
            )
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    out = budget_json(budget)
    out["dataset"] = _dataset(budget, dataset, block_size, arrivals) if dataset else None
    if as_json:
        click.echo(json.dumps(out))
    else:
        _print_budget(out)


def _dataset(budget: Any, path: str, block_size: int | None, arrivals: str) -> dict[str, object]:
    from analysis.replica.workload import replica_workload
    from analysis.store.question import BadQuestion

    try:
        return replica_workload(budget, path, block_size, arrivals)
    except BadQuestion as error:
        raise click.UsageError(str(error)) from error
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _amount(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"


def _print_budget(out: dict[str, Any]) -> None:
    d = out["definition"]
    click.echo(f"{d['model']} on {d['tp']} x {d['gpu']}, {d['kv_dtype']} KV, {d['engine']} layouts and reserves\n")
    for step in out["steps"]:
        click.echo(f"  {step['name']:<36} {_amount(step['bytes']):>20} B per GPU   {step['note']}")
    click.echo("")
    rows = [
        ("KV bytes per token, whole model", out["bytes_per_token"]),
        ("KV bytes per token on each GPU", out["bytes_per_token_per_gpu"]),
        ("KV bytes per sequence, whole model", out["bytes_per_sequence"]),
        ("tokens in the replica", out["replica_tokens"]),
    ]
    for name, value in rows:
        click.echo(f"  {name:<36} {_amount(value):>20}")
    low, high = d["range_utilization"]
    span = f"{_amount(out['range']['low_tokens'])} to {_amount(out['range']['high_tokens'])}"
    click.echo(f"  {'range':<36} {span:>20}   utilisation {low:g} to {high:g}")
    for tokens, sessions in out["sessions_at"].items():
        click.echo(f"  {'sessions of ' + format(int(tokens), ',') + ' tokens':<36} {sessions:>20,.2f}")
    if not out["fits"]:
        click.echo(f"\n  does not fit: {_amount(out['short_bytes_per_gpu'])} bytes per GPU are missing")
    if out["dataset"]:
        click.echo("\n  dataset")
        for name, value in out["dataset"].items():
            shown = ", ".join(f"{k}: {_amount(v)}" for k, v in value.items()) if isinstance(value, dict) else None
            shown = shown or (value if isinstance(value, str) else _amount(value))
            click.echo(f"  {name:<36} {shown:>20}")
    for note in d["notes"]:
        click.echo(f"  note: {note}")


@click.command("interactivity")
@click.option("--model", required=True, help="A name of `kv-budget --list`, or the path of a config.json.")
@click.option("--gpu", required=True, help="A name of `kv-budget --list`.")
@click.option("--tp", type=int, default=1, show_default=True)
@click.option("--dp", type=int, default=1, show_default=True, help="DP-attention groups inside the replica.")
@click.option("--dcp", type=int, default=1, show_default=True, help="Decode context parallel ranks.")
@click.option("--kv-dtype", default="bf16", show_default=True)
@click.option("--engine", default="ideal", show_default=True)
@click.option(
    "--weights", "weights_scheme", help="Precision of the served weights (default: as the checkpoint is served)."
)
@click.option("--context", type=Size(), required=True, help="Prompt tokens of a request.")
@click.option("--output", type=Size(), default=500, show_default=True, help="Generated tokens of a request.")
@click.option("--batch", type=int, default=1, show_default=True, help="Requests decoding at once in the replica.")
@click.option("--hit-rate", type=float, help="Share of the prompt found in the cache, 0 to 1.")
@click.option("--accept-length", type=float, help="Tokens gained per verification, the verified one included.")
@click.option(
    "--draft-cost", type=float, default=0.0, show_default=True, help="All draft passes of a step / a plain step."
)
@click.option("--verify-tokens", type=int, help="Tokens verified per sequence and step.")
@click.option("--mfu", type=Band(), help="LOW,HIGH share of peak FLOP/s in prefill.")
@click.option("--bandwidth-efficiency", type=Band(), help="LOW,HIGH share of peak HBM bandwidth in decode.")
@click.option("--link-gbps", type=float, help="Host link, 1e9 bytes a second per GPU (GB/s).")
@click.option("--sessions", type=int, help="Sessions in a closed loop (needs --think).")
@click.option("--think", type=float, help="Seconds between a session's requests (mean).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def interactivity_command(
    model: str,
    gpu: str,
    tp: int,
    dp: int,
    dcp: int,
    kv_dtype: str,
    engine: str,
    weights_scheme: str | None,
    context: int,
    output: int,
    batch: int,
    hit_rate: float | None,
    accept_length: float | None,
    draft_cost: float,
    verify_tokens: int | None,
    mfu: tuple[float, float] | None,
    bandwidth_efficiency: tuple[float, float] | None,
    link_gbps: float | None,
    sessions: int | None,
    think: float | None,
    as_json: bool,
) -> None:
    """How fast does a replica answer: prefill after hits, time to first token, decode steps, speculation?

    \b
    Example:
      tracetower interactivity --model kimi-k2.6 --gpu b200 --tp 8 --context 100k --output 500 --batch 4 --hit-rate 0.95
    """
    from analysis.replica.answers import interactivity_json
    from analysis.replica.interactivity import Assumptions, Service
    from analysis.replica.models.catalog import load_gpu, load_model
    from analysis.replica.models.kv_layout import Sharding
    from analysis.replica.speculation import Speculation

    try:
        given = {
            "mfu": mfu,
            "bandwidth_efficiency": bandwidth_efficiency,
            "link_bytes_per_s": link_gbps and link_gbps * 1e9,
        }
        assumptions = Assumptions().replace(**{k: v for k, v in given.items() if v is not None})
        service = Service(
            load_model(model), load_gpu(gpu), Sharding(tp, dp, dcp), kv_dtype, engine, weights_scheme, assumptions
        )
        draft = Speculation(accept_length, draft_cost, verify_tokens) if accept_length is not None else None
        out = interactivity_json(service, context, output, batch, hit_rate, draft, sessions, think)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if as_json:
        click.echo(json.dumps(out))
    else:
        _print_interactivity(out)


def _print_interactivity(out: dict[str, Any]) -> None:
    for key, value in out.items():
        if key == "assumptions" or value is None:
            continue
        if isinstance(value, list) and len(value) == 2 and all(isinstance(v, (int, float)) for v in value):
            click.echo(f"  {key:<28} {value[0]:>12,.4g} to {value[1]:,.4g}")
        elif isinstance(value, (int, float)):
            click.echo(f"  {key:<28} {value:>12,.4g}")
        elif isinstance(value, dict):
            click.echo(f"  {key:<28} {json.dumps(value)}")
    click.echo("\n  assumptions")
    for key, value in out["assumptions"].items():
        click.echo(f"  {key:<28} {value}")


COMMANDS: list[click.Command] = [kv_budget_command, interactivity_command]
