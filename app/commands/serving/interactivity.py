"""interactivity: TTFT and tokens per second of one replica."""

from __future__ import annotations

import json
from typing import Any

import click

from app.commands.shell.command import command
from app.commands.shell.options import json_option
from app.commands.shell.rules import needs
from app.commands.shell.terminal import emit_json, say
from app.commands.shell.types import Band, Size

RULES = (
    needs("draft_cost", "accept_length"),
    needs("verify_tokens", "accept_length"),
    needs("sessions", "think"),
    needs("think", "sessions"),
)


@command("interactivity", *RULES)
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
@click.option("--accept-length", type=float, help="Mean tokens that one verification step yields, its own included.")
@click.option(
    "--draft-cost",
    type=float,
    default=0.0,
    show_default=True,
    help="Cost of drafting for one step, as a share of a plain decode step.",
)
@click.option("--verify-tokens", type=int, help="Tokens verified per sequence and step.")
@click.option("--mfu", type=Band(), help="LOW,HIGH share of peak FLOP/s in prefill.")
@click.option("--bandwidth-efficiency", type=Band(), help="LOW,HIGH share of peak HBM bandwidth in decode.")
@click.option("--link-gbps", type=float, help="Host link, 1e9 bytes a second per GPU (GB/s).")
@click.option("--sessions", type=int, help="Sessions in a closed loop (needs --think).")
@click.option("--think", type=float, help="Seconds between a session's requests (mean).")
@json_option
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
        emit_json(out)
    else:
        _print_interactivity(out)


def _print_interactivity(out: dict[str, Any]) -> None:
    for key, value in out.items():
        if key == "assumptions" or value is None:
            continue
        if isinstance(value, list) and len(value) == 2 and all(isinstance(v, (int, float)) for v in value):
            say(f"  {key:<28} {value[0]:>12,.4g} to {value[1]:,.4g}")
        elif isinstance(value, (int, float)):
            say(f"  {key:<28} {value:>12,.4g}")
        elif isinstance(value, dict):
            say(f"  {key:<28} {json.dumps(value)}")
    say("\n  assumptions")
    for key, value in out["assumptions"].items():
        say(f"  {key:<28} {value}")
